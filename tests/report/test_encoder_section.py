"""What the report shows of the encoder: hardest and easiest pairs, nearest neighbours, and what is missing."""

import re
import shutil
import time
import warnings

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from coviews import Plan, make_views, pretrain
from coviews.encoders.frozen import evaluating
from coviews.encoders.pixels import to_tensors
from coviews.report import encoder_examples
from coviews.report.encoder_examples import make_encoder_examples
from coviews.report.encoder_section import EncoderExamples, encoder_sections
from coviews.report.gallery import gallery_images, newest_source
from coviews.report.page import run_page
from coviews.report.record import read_run
from coviews.report.watch import Watched
from coviews.report.write import write_report
from report_runs import HOSTILE, make_run
from small_runs import SMALL


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "run"
    pretrain(settings=SMALL.replaced(out=path), progress=False)
    return path


@pytest.fixture
def copied(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def texts(examples):
    return [section.body for section in encoder_sections(examples)]


def number_of(score):
    return float(re.search(r"-?\d+\.\d+", score)[0])


def test_pairs_are_ordered_and_always_the_same(trained):
    run = read_run(trained)
    examples = make_encoder_examples(run)
    hard, easy = (
        [number_of(pair.score) for pair in pairs] for pairs in (examples.pairs.hardest, examples.pairs.easiest)
    )
    assert len(hard) == len(easy) == 6
    assert hard == sorted(hard, reverse=True)
    assert easy == sorted(easy)
    assert hard[-1] > easy[-1]
    assert f"100 pairs of views by the queue of the {len(run.policies)} newest policies" in examples.pairs.about
    assert f"{np.log(2 * 100 - 1):.2f} is as good as guessing" in examples.pairs.about
    before = torch.random.get_rng_state()
    assert texts(make_encoder_examples(run)) == texts(examples)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert texts(make_encoder_examples(run, seed=1)) != texts(examples)


@pytest.mark.parametrize("method", ["simclr", "moco", "byol", "simsiam"])
def test_losses_are_those_of_the_method(tmp_path, method):
    done = pretrain(settings=SMALL.replaced(out=tmp_path / "run", method=method), progress=False)
    run = read_run(done.path)
    images = gallery_images(run, run.settings, encoder_examples.IMAGES)
    model = encoder_examples._open_model(run, run.settings, images, None)
    generator = np.random.default_rng([0, 0])
    chosen = images.images[generator.permutation(len(images))[: encoder_examples.PAIRS]]
    plan = Plan.draw(newest_source(run, run.settings, images)[1], len(chosen), chosen.shape[1:3], generator)
    views = make_views(chosen, plan, fill=images.mean)
    with evaluating(model.method):
        x1, x2 = to_tensors(views, run.start["mean"], run.start["std"], "cpu")
        losses = model.method.compare(model.method.embed(x1), model.method.embed(x2)).double().numpy()
    np.testing.assert_allclose(encoder_examples._scores(views, model)[0], losses, rtol=1e-4, atol=1e-4)
    found = make_encoder_examples(run).pairs
    assert number_of(found.hardest[0].score) == pytest.approx(losses.max(), abs=0.006)
    assert number_of(found.easiest[0].score) == pytest.approx(losses.min(), abs=0.006)


def test_neighbours_are_the_nearest_and_never_the_image_itself(trained):
    near = make_encoder_examples(read_run(trained)).neighbours
    assert len(near.rows) == 6
    assert "which of 100 of the run's images" in near.about
    for row in near.rows:
        similar = [float(n.lines[0]) for n in row.neighbours]
        assert len(similar) == 6
        assert similar == sorted(similar, reverse=True)
        assert all(not np.array_equal(n.image, row.query.image) for n in row.neighbours)
        assert all(n.same == (n.lines[1] == row.query.lines[0]) for n in row.neighbours)


def test_nothing_of_a_method_in_memory_changes(trained):
    run = read_run(trained)
    images = gallery_images(run, run.settings, 100)
    method = encoder_examples._open_model(run, run.settings, images, None).method.train()
    before = {name: value.clone() for name, value in method.state_dict().items()}
    examples = make_encoder_examples(run, images=images, method=method)
    assert examples.pairs.hardest
    assert method.training
    assert all(torch.equal(value, before[name]) for name, value in method.state_dict().items())


def test_without_a_checkpoint_pairs_are_scored_by_their_features(copied):
    (copied / "checkpoints" / "last.pt").unlink()
    pairs = make_encoder_examples(read_run(copied)).pairs
    hard, easy = ([number_of(pair.score) for pair in found] for found in (pairs.hardest, pairs.easiest))
    assert hard == sorted(hard)
    assert easy == sorted(easy, reverse=True)
    assert hard[0] < easy[0] <= 1
    assert "without the projector: the run has no checkpoint" in pairs.about
    (copied / "checkpoints" / "last.pt").write_bytes(b"nothing")
    examples = make_encoder_examples(read_run(copied))
    assert "without the projector: the checkpoint" in examples.pairs.about
    assert examples.neighbours.rows


def test_an_unfinished_run_is_tried_as_its_checkpoint_is(copied):
    (copied / "encoder.safetensors").unlink()
    examples = make_encoder_examples(read_run(copied))
    assert "the encoder as it is in the last checkpoint" in examples.pairs.about
    assert examples.neighbours.rows
    for policy in (copied / "policies").iterdir():
        policy.unlink()
    assert "random views of the warm-up" in make_encoder_examples(read_run(copied)).pairs.about


def test_what_is_missing_is_said_in_one_line(copied, tmp_path):
    def said(run):
        examples = make_encoder_examples(read_run(run))
        assert "\n" not in examples.missing
        page = write_report(run, tmp_path / "page.html").read_text()
        assert "The encoder is not tried" in page
        assert '<section id="neighbours">' not in page
        return examples.missing

    shutil.rmtree(copied / "checkpoints")
    (copied / "encoder.safetensors").unlink()
    assert said(copied) == "The encoder is not tried: the run has no checkpoint"
    (copied / "encoder.safetensors").write_bytes(b"")
    assert "is not an encoder file, or is damaged" in said(copied)
    assert "no file or folder" in said(make_run(tmp_path / "gone", data=str(tmp_path / "nowhere")))
    assert "given from Python" in said(make_run(tmp_path / "python", data="python: ndarray"))
    assert "a module from Python" in said(make_run(tmp_path / "module", encoder="module Net"))
    old = make_run(tmp_path / "old")
    (old / "config.yaml").write_text("option_of_old: 1\n")
    assert "settings cannot be read" in said(old)


def test_an_encoder_that_diverged_is_said(copied):
    file = copied / "checkpoints" / "last.pt"
    state = torch.load(file, weights_only=True)
    state["method"] = {n: v * float("nan") if v.is_floating_point() else v for n, v in state["method"].items()}
    torch.save(state, file)
    examples = make_encoder_examples(read_run(copied))
    assert "may have diverged" in examples.pairs.missing
    assert "may have diverged" in examples.neighbours.missing
    assert "<img" not in "".join(texts(examples))


@pytest.mark.parametrize("views", ["random", "randaugment", "hardviews"])
def test_fixed_views_are_tried_too(tmp_path, views):
    done = pretrain(settings=SMALL.replaced(out=tmp_path / "run", views=views, epochs=1), progress=False)
    pairs = make_encoder_examples(read_run(done.path)).pairs
    assert len(pairs.hardest) == 6
    assert ("simclr views" if views == "hardviews" else f"{views} views") in pairs.about


def test_a_slow_encoder_tries_fewer(trained, monkeypatch):
    class Slow(nn.Module):
        def __init__(self, inside):
            super().__init__()
            self.inside = inside

        def forward(self, x):
            time.sleep(0.05)
            return self.inside(x)

    run = read_run(trained)
    images = gallery_images(run, run.settings, 100)
    method = encoder_examples._open_model(run, run.settings, images, None).method
    method.encoder = Slow(method.encoder)
    monkeypatch.setattr(encoder_examples, "SECONDS", 0.01)
    examples = make_encoder_examples(run, images=images, method=method)
    assert "8 pairs of views" in examples.pairs.about
    assert "which of 32 of the run's images" in examples.neighbours.about


def test_images_that_load_slowly_are_fewer(trained, monkeypatch):
    run, asked = read_run(trained), []

    def loading(run, settings, limit):
        asked.append(limit)
        time.sleep(0.02)
        return gallery_images(run, settings.replaced(data="shapes:6000"), limit)

    monkeypatch.setattr(encoder_examples, "gallery_images", loading)
    monkeypatch.setattr(encoder_examples, "SECONDS", 0.02)
    assert len(encoder_examples._load_images(run, run.settings, None)) == 64
    monkeypatch.setattr(encoder_examples, "SECONDS", 60.0)
    assert len(encoder_examples._load_images(run, run.settings, None)) == encoder_examples.IMAGES
    assert asked == [64, 64, 512, encoder_examples.IMAGES]
    monkeypatch.setattr(encoder_examples, "_BYTES", 100 * 16 * 16 * 3)
    assert len(encoder_examples._load_images(run, run.settings, None)) == 100
    monkeypatch.undo()
    assert len(encoder_examples._load_images(run, run.settings, gallery_images(run, run.settings, 70))) == 70


def test_the_report_at_the_end_knows_images_and_modules_from_python(tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(16 * 16 * 3, 8)

        def forward(self, x):
            return self.layer(x.flatten(1))

    images = np.random.default_rng(0).integers(0, 256, (40, 16, 16, 3), np.uint8)
    settings = SMALL.replaced(out=tmp_path / "run", report=True, size=None, epochs=2)
    pretrain(images, encoder=Net(), settings=settings, progress=False)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "No images are shown" not in page
    assert "The encoder is not tried" not in page
    assert "40 pairs of" in page
    write_report(tmp_path / "run")  # later both are gone
    page = (tmp_path / "run" / "report.html").read_text()
    assert "given from Python" in page


def test_names_of_files_and_classes_are_shown_as_text(tmp_path):
    called = HOSTILE.replace("/", "\u2215")
    for i in range(40):
        folder = tmp_path / "images" / (called if i % 2 else "ring")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(i).integers(0, 256, (16, 16, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{called}{i}.png")
    settings = SMALL.replaced(data=str(tmp_path / "images"), out=tmp_path / "run", epochs=2)
    pretrain(settings=settings, progress=False)
    page = re.sub(
        r"<script.*?</script>", "", write_report(tmp_path / "run", tmp_path / "page.html").read_text(), flags=re.DOTALL
    )
    shown = page[page.index('<section id="pairs">') : page.index('<section id="search">')]
    assert shown.count("<img") == 12 * 3 + 6 * 7 == shown.count("alt=")
    assert "<img src=x" not in shown
    assert "<b>bold" not in shown
    assert "&lt;img src=x" in shown
    assert not re.findall(r'(?:alt|title)="[^"]*onerror="', shown)


def test_watching_tries_the_encoder_once_and_when_the_run_has_ended(copied):
    calls = []

    def make_examples(run):
        calls.append(run)
        return EncoderExamples(missing=f"examples {len(calls)}")

    encoder = (copied / "encoder.safetensors").read_bytes()
    (copied / "encoder.safetensors").unlink()
    with Watched(copied, make_examples=make_examples) as server:
        assert "is shown when the run has ended" in server.page().decode()
        assert not calls
        (copied / "encoder.safetensors").write_bytes(encoder)
        assert "examples 1" in server.page().decode()
        with open(copied / "metrics.jsonl", "a") as file:
            file.write('{"kind":"warning","epoch":4,"text":"something new"}\n')
        page = server.page().decode()
        assert "something new" in page
        assert "examples 1" in page
        assert len(calls) == 1


def test_two_images_are_enough_and_one_is_said(trained):
    run = read_run(trained)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for count, pairs in ((2, 1), (3, 1)):
            examples = make_encoder_examples(run, images=gallery_images(run, run.settings, 100).subset(range(count)))
            assert len(examples.pairs.hardest) == len(examples.pairs.easiest) == pairs
            assert all(len(row.neighbours) == count - 1 for row in examples.neighbours.rows)
        alone = make_encoder_examples(run, images=gallery_images(run, run.settings, 100).subset([0]))
    assert "two images are needed" in alone.pairs.missing
    assert "two images are needed" in alone.neighbours.missing
    assert "two images are needed" in run_page(run, examples=alone)
