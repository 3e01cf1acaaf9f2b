"""The examples run with the libraries that they are for, and fit on a screen."""

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import coviews
from coviews import CoviewsError, TableSettings
from coviews.compat import import_torchvision
from coviews.transforms import Views

EXAMPLES = Path(__file__).parents[2] / "examples"
CHANCE = np.log(127)  # the loss of 64 pairs that are not told apart


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """128 images of shapes in two class folders."""
    import_torchvision()  # also beside a torch that its operators were not built for
    path = tmp_path_factory.mktemp("images")
    for i, image in enumerate(coviews.load_images("shapes:128").images):
        (path / "ab"[i % 2]).mkdir(exist_ok=True)
        Image.fromarray(image).save(path / "ab"[i % 2] / f"{i}.png")
    return path


@pytest.fixture
def run(folder, monkeypatch, tmp_path, capfd):
    def run(name):
        monkeypatch.setattr(sys, "argv", [name, str(folder)])
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capfd.readouterr().out

    return run


def test_examples_are_short():
    lines = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert len(lines) >= 7
    assert {name: n for name, n in lines.items() if n > 40} == {}


@pytest.mark.parametrize("name", ["torchvision_transform", "learned_views_in_a_loader", "lightly_simclr"])
def test_a_loop_of_ones_own_learns(run, name):
    losses = [float(x) for x in re.findall(r"loss ([\d.]+)", run(name))]
    assert len(losses) >= 2
    assert losses[-1] < CHANCE


def test_rows_of_hugging_face_become_views(run, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    out = run("hugging_face_datasets")
    assert re.search(r"epoch 2: loss [\d.]+, labels \[[01], [01], [01], [01]\]", out)


def test_lightning_learns_the_views(run):
    assert "TiltedPolicy of 768 pairs" in run("lightning_callback")


def trainer(path, epochs):
    import lightning

    return lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=path,
    )  # fmt: skip


def test_the_state_of_the_callback_is_in_the_checkpoint(tmp_path, folder, monkeypatch):
    """A new callback goes on with the table and the views of the first one, from a file that torch loads safely."""
    names = runpy.run_path(str(EXAMPLES / "lightning_callback.py"))
    images = list(coviews.load_images("shapes:96", size=16).images)

    def fit(epochs, **options):
        views = Views("uniform")
        learning = names["LearnViews"](views, warmup_epochs=1, settings=TableSettings(gentle=1))
        loader = torch.utils.data.DataLoader(images, batch_size=32, collate_fn=views.collate)
        t = trainer(tmp_path, epochs)
        t.callbacks.append(learning)
        t.fit(names["SimCLR"](), loader, **options)
        return t, learning

    monkeypatch.setattr(coviews.LossTable, "_useless", lambda *_: None)  # trust a young encoder
    monkeypatch.setattr(coviews.LossTable, "_chance", lambda _: 8.0)
    t, first = fit(2)
    t.save_checkpoint(tmp_path / "last.ckpt")
    assert torch.load(tmp_path / "last.ckpt")["callbacks"]
    _, second = fit(3, ckpt_path=tmp_path / "last.ckpt")
    assert len(first.table) == 2 * 96
    assert len(second.table) == 3 * 96
    before, after = (c.table.state_dict()["losses"] for c in (first, second))
    assert torch.equal(before, after[: len(before)])
    assert second.views.source is second.policy
    again = names["LearnViews"](Views("uniform"))
    again.load_state_dict(first.state_dict())
    drawn = [c.views.source.sample(50, np.random.default_rng(1)) for c in (first, again)]
    assert drawn[0] == drawn[1]


def test_what_the_callback_cannot_use_is_an_error():
    names = runpy.run_path(str(EXAMPLES / "lightning_callback.py"))
    views = Views("uniform")
    learning = names["LearnViews"](views)
    batch = views.collate([np.zeros((8, 8, 3), np.uint8)] * 2)
    with pytest.raises(CoviewsError, match=r"collate_fn=views\.collate"):
        learning.on_train_batch_end(None, None, {"losses": []}, [batch.views], 0)
    with pytest.raises(CoviewsError, match="the loss of each pair"):
        learning.on_train_batch_end(None, None, torch.tensor(1.0), batch, 0)
    with pytest.raises(CoviewsError, match="does not choose crops"):
        names["LearnViews"](views, settings=TableSettings(crops=True))
