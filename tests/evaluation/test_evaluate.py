"""`evaluate` from a user's side: runs and encoders from elsewhere, what is shown, what is kept, what is wrong."""

import contextlib
import json
import os
import re
import shlex
import shutil
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import coviews
from coviews import CoviewsError, evaluate, load_images
from coviews.cli import main
from coviews.console.options import replaced
from coviews.encoders.architectures import make_encoder
from coviews.encoders.features import features
from coviews.encoders.file import save_encoder
from coviews.encoders.open import IMAGENET, OpenedEncoder, open_encoder
from coviews.evaluation.finetune import finetune
from coviews.evaluation.judge import judge
from coviews.evaluation.knn import knn_accuracy
from coviews.evaluation.linear import paper_probe
from coviews.evaluation.options import EvaluateOptions, fraction
from coviews.evaluation.quality import rankme
from coviews.evaluation.records import append_record
from coviews.evaluation.text_tables import clean, margin, verdict
from coviews.runs.folder import Run
from small_runs import SMALL

FAST = SMALL.replaced(data="shapes:200", epochs=2, views="uniform", knn_every=0)
QUICK = ["--no-baselines", "--no-progress"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs: one on data with a name, one on data from Python; and the first as it was after one epoch."""
    folder = tmp_path_factory.mktemp("runs")
    settings = FAST.replaced(keep_every=1, subset="80%", subset_seed=3, test_data="shapes:50", out=folder / "run")
    coviews.pretrain(settings=settings, progress=False)
    images = load_images("shapes:100", size=16)
    coviews.pretrain(images, settings=FAST.replaced(size=None, epochs=1, out=folder / "python"), progress=False)
    shutil.copytree(folder / "run", folder / "unfinished")
    (folder / "unfinished" / "encoder.safetensors").unlink()
    shutil.copy(folder / "run/checkpoints/epoch-0001.pt", folder / "unfinished/checkpoints/last.pt")
    return folder


@pytest.fixture
def run(made, tmp_path):
    """A run that may be written to."""
    return Path(shutil.copytree(made / "run", tmp_path / "run"))


def write_images(folder, classes, each=15, size=16, seed=0):
    """A folder for each class; images of a class have its brightness."""
    rng = np.random.default_rng(seed)
    for i, name in enumerate(classes):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for j in range(each):
            pixels = rng.integers(0, 100, (size, size, 3)) + 150 * i // len(classes)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{j}.png")
    return folder


def read_records(path):
    """All lines of a file of results that are whole."""
    records = []
    for line in path.read_bytes().splitlines():
        with contextlib.suppress(ValueError):
            records.append(json.loads(line))
    return records


def said_by(capsys, *arguments):
    """Exit code, standard output, and the lines of standard error."""
    code = main(["evaluate", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, out, err.splitlines()


# ------------------------------------------------------------------------------------------ what is measured


def test_a_run_with_a_page_is_told_how_to_show_it_there(run, capsys, tmp_path):
    copy = shutil.copytree(run, tmp_path / "with-a-page")
    (copy / "report.html").write_text("a page")
    _, out, _ = said_by(capsys, copy, "--no-baselines", "--no-progress")
    assert out.endswith(f"to show it on the page of the run: coviews report {copy}\n")


def test_a_run_on_its_own_data_gives_the_numbers_of_the_library(run, capsys):
    code, out, err = said_by(capsys, run, "--k", 5, "--temperature", 0.2, "--no-progress")
    assert (code, err) == (0, [])
    (record,) = read_records(run / "evaluations.jsonl")
    assert record["version"] == coviews.__version__
    assert (record["source"], record["encoder"]) == (str(run), "resnet8")
    assert (record["data"], record["test_data"]) == ("shapes:200", "shapes:50")
    assert record["options"]["subset"] == "80%"
    assert record["options"]["size"] == [16, 16]

    encoder = coviews.load_encoder(run)
    mean, std = encoder.normalisation
    train = load_images("shapes:200", size=16, subset="80%", subset_seed=3)
    test = load_images("shapes:50", size=16)
    results = record["results"]
    assert results["images"] == {"train": 160, "test": 50, "left_out": 0, "shared": 0}
    bank, queries = (features(encoder, s.images, mean, std) for s in (train, test))
    near = knn_accuracy(bank, train.labels, queries, test.labels, k=5, temperature=0.2)
    assert results["knn"] == {"accuracy": near, "k": 5, "temperature": 0.2}
    linear = results["linear"]["accuracy"]
    assert np.trace(results["confusion"]) == pytest.approx(50 * linear)
    options = EvaluateOptions(k=5, temperature=0.2)
    whole = judge(encoder, train, test, options, mean=mean, std=std, untrained=lambda: make_encoder("resnet8", 16))
    whole["images"]["shared"] = 0  # none of the test images is a training image
    assert results == json.loads(json.dumps(whole))

    rows = {line.split("  ")[0]: line.split() for line in out.splitlines() if line}
    assert rows["this encoder"][-2:] == [f"{100 * near:.1f}", f"{100 * linear:.1f}"]
    for row, name in (("untrained encoder", "untrained"), ("raw pixels", "pixels")):
        assert rows[row][-1] == f"{100 * results['baselines'][name]['linear']['accuracy']:.1f}"
    assert rows["RankMe"][1] == f"{results['quality']['rankme']:.1f}"
    assert "shapes:200 (subset 80%): 160 images to learn from; shapes:50: 50 to judge; 16 x 16 pixels" in out
    assert "class, worst first" in out
    assert out.endswith(f"added to {run / 'evaluations.jsonl'}\n")
    assert "\x1b" not in out  # no terminal, no colours
    assert all(line == line.rstrip() for line in out.splitlines())


def test_the_function_gives_what_the_command_keeps(run, capsys):
    found = evaluate(run, "shapes:90", seed=1, baselines=False, progress=False)
    assert found.file == run / "evaluations.jsonl"
    assert found.test_data is None  # the run's own goes with the run's own data
    assert said_by(capsys, run, "--data", "shapes:90", "--seed", 1, *QUICK)[0] == 0
    one, other = read_records(found.file)
    assert one == json.loads(json.dumps(found.record))
    assert {**other, "time": None} == {**one, "time": None}
    assert "shapes:90: 72 images to learn from; 18 to judge" in str(found)
    assert "kNN asks 2 neighbours: 20 in small sets, and at most one for every 25 of 72 training images" in str(found)
    assert "there is no test set: 18 training images are held out" in str(found)
    assert repr(found) == str(found)


def test_the_papers_probe_and_fine_tuning_are_columns(run, monkeypatch, capsys):
    short = {"paper_probe": (paper_probe, {"epochs": 3}), "finetune": (finetune, {"epochs": 2})}
    for name, (function, options) in short.items():
        monkeypatch.setattr(
            f"coviews.evaluation.judge.{name}", lambda *a, f=function, o=options, **k: f(*a, **{**k, **o})
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # three epochs settle nothing
        code, out, _ = said_by(capsys, run, "--paper", "--finetune", "10%", "0.5", "--no-progress")
    assert code == 0
    (record,) = read_records(run / "evaluations.jsonl")
    results = record["results"]
    assert record["options"]["finetune"] == list(results["finetune"]) == ["10%", "50%"]
    assert [results["finetune"][share]["images"] for share in ("10%", "50%")] == [16, 80]
    assert len(results["paper"]["accuracies"]) == 5
    header = next(line for line in out.splitlines() if line.startswith("accuracy in %"))
    assert "paper's probe" in header
    assert "fine-tuning, 10 %   fine-tuning, 50 %" in header
    ours = next(line for line in out.splitlines() if line.startswith("this encoder"))
    assert f"{100 * results['paper']['accuracy']:.1f} ± {100 * results['paper']['std']:.1f}" in ours
    assert ours.endswith(f"{100 * results['finetune']['50%']['accuracy']:.1f}")
    scratch = next(line for line in out.splitlines() if line.startswith("untrained encoder"))
    assert scratch.endswith(f"{100 * results['baselines']['untrained']['finetune']['50%']['accuracy']:.1f}")


def test_an_unfinished_run_is_judged_by_its_checkpoint(made):
    found = evaluate(made / "unfinished", baselines=False, progress=False)
    assert "unfinished: 1 of 2 epochs" in str(found)
    assert (found.options["epoch"], found.options["epochs"]) == (1, 2)
    state = Run(made / "unfinished").load()["method"]
    encoder = make_encoder("resnet8", 16)
    encoder.load_state_dict({k.removeprefix("encoder."): v for k, v in state.items() if k.startswith("encoder.")})
    train = load_images("shapes:200", size=16, subset="80%", subset_seed=3)
    start = next(r for r in Run(made / "run").metrics() if r["kind"] == "start")
    wanted = features(encoder, train.images, start["mean"], start["std"])
    assert found.results["quality"]["rankme"] == pytest.approx(rankme(wanted), rel=1e-5)


def test_encoders_from_elsewhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "train", "abc", each=8)
    write_images(tmp_path / "test", "abc", each=3, seed=1)
    torch.manual_seed(0)
    encoder = make_encoder("resnet18", 16)  # with the stem for small images
    state = {f"module.backbone.{k}": v for k, v in encoder.state_dict().items()} | {"fc.weight": torch.zeros(2, 2)}
    torch.save({"state_dict": state}, "weights.pt")
    found = evaluate("weights.pt", "train", "test", architecture="resnet18", progress=False, out=tmp_path / "all.jsonl")
    assert found.file == tmp_path / "all.jsonl"
    assert set(found.results["baselines"]) == {"untrained", "pixels"}
    assert found.results["linear"]["accuracy"] > 0.8  # brightness is easy
    sets = [load_images(tmp_path / name) for name in ("train", "test")]
    mean, std = coviews.channel_statistics(sets[0].images)
    bank, queries = (features(encoder, s.images, mean, std) for s in sets)
    assert found.results["knn"]["accuracy"] == knn_accuracy(bank, sets[0].labels, queries, sets[1].labels, k=1)
    code, _, _ = said_by(
        capsys, "weights.pt", "--architecture", "resnet18", "--data", "train", "--test-data", "test", *QUICK
    )
    assert code == 0
    files = sorted(p.name for p in tmp_path.iterdir())
    assert files == [".all.jsonl.lock", "all.jsonl", "test", "train", "weights.pt"]

    own = evaluate(encoder.train(), sets[0], sets[1].images, progress=False)  # a module, and data from Python
    assert encoder.training
    assert own.file is None
    assert (own.source, own.data, own.test_data) == ("python: ResNet", "python: ImageSet", "python: ndarray")
    assert [entry["name"] for entry in own.results["missing"]][-1] == "untrained"


def test_the_untrained_baseline_has_the_stem_of_the_weights(tmp_path):
    for size, side in ((224, 32), (32, 64)):
        torch.save(make_encoder("resnet18", size).state_dict(), tmp_path / "weights.pt")
        opened = open_encoder(tmp_path / "weights.pt", architecture="resnet18")
        fresh = opened.untrained((side, side), 3)()
        assert {k: v.shape for k, v in fresh.state_dict().items()} == {
            k: v.shape for k, v in opened.encoder.state_dict().items()
        }


def test_published_weights_on_small_images(monkeypatch):
    opened = OpenedEncoder(make_encoder("resnet8", 16), "resnet8", None, 3, IMAGENET)
    monkeypatch.setattr("coviews.evaluation.evaluate.open_encoder", lambda source, **options: opened)
    with pytest.warns(UserWarning, match="larger images than 16 x 16: --size 224"):
        small = evaluate("resnet50", load_images("shapes:40", size=16), baselines=False, progress=False)
    images = load_images("shapes:40", size=16).images
    assert small.results["quality"]["rankme"] == rankme(features(opened.encoder, images, *IMAGENET))


def test_a_run_can_be_judged_in_another_size(run):
    found = evaluate(run / "encoder.safetensors", "shapes:60", size=24, baselines=False, progress=False)
    assert found.options["size"] == [24, 24]
    assert found.file == run / "evaluations.jsonl"


# ---------------------------------------------------------------------------------------------- what is kept


def test_records_are_added_also_after_a_line_that_a_kill_cut_off(tmp_path):
    path = tmp_path / "evaluations.jsonl"
    append_record(path, {"n": 1})
    append_record(path, {"n": 2, "text": "ä\n\udcff"})
    whole = path.read_bytes()
    for cut in range(len(b'{"n":1}\n') + 1, len(whole)):  # anywhere in the second line
        path.write_bytes(whole[:cut])
        append_record(path, {"n": 3})
        numbers = [record["n"] for record in read_records(path)]
        assert numbers in ([1, 3], [1, 2, 3])  # the second is whole if only its end of line is lost
        assert path.read_bytes().startswith(whole[:cut])
    assert numbers == [1, 2, 3]


def test_records_that_are_added_at_the_same_moment_stay_whole(tmp_path):
    path = tmp_path / "evaluations.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: append_record(path, {"n": n, "text": "x" * 9000}), range(64)))
    assert sorted(record["n"] for record in read_records(path)) == list(range(64))


def test_a_place_that_cannot_be_written_is_said_before_the_work(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("coviews.evaluation.train_and_test.load_images", lambda *a, **k: pytest.fail("too late"))
    for out, wanted in ((tmp_path / "no/x.jsonl", "there is no folder"), (tmp_path, "it is a folder")):
        code, _, err = said_by(capsys, run, "--out", out)
        assert code == 2
        assert wanted in err[0]


def test_results_that_cannot_be_kept_are_shown(run, monkeypatch, capsys):
    (run / "evaluations.jsonl").mkdir()  # someone else's run, or one on a disk that is read only
    code, out, err = said_by(capsys, run, "--data", "shapes:60", *QUICK)
    assert code == 0
    assert "this encoder" in out
    assert "added to" not in out
    assert "will not be kept, unless you give --out FILE" in err[0]
    (run / "evaluations.jsonl").rmdir()

    def full(path, record):
        raise CoviewsError("cannot write it: no space left")

    monkeypatch.setattr("coviews.evaluation.evaluate.append_record", full)
    code, out, err = said_by(capsys, run, "--data", "shapes:60", *QUICK)
    assert (code, "this encoder" in out, "added to" in out) == (0, True, False)
    assert err == ["warning: cannot write it: no space left: the results are not kept"]


# ---------------------------------------------------------------------------------------------- what is shown


def test_only_the_ten_worst_classes_are_shown_and_names_cannot_steer_the_terminal(run, tmp_path):
    images = load_images("shapes:120", size=16).images
    names = [f"class {i}" for i in range(12)]
    names[3] = "[red]\x1b[2J\n[/red]"
    np.savez(tmp_path / "data.npz", images=images, labels=np.array([names[i % 12] for i in range(120)]))
    found = evaluate(run, tmp_path / "data.npz", baselines=False, progress=False)
    text = str(found)
    assert "worst 10 of 12 classes" in text
    rows = sorted((row for row in found.results["per_class"]), key=lambda row: row["linear"])
    assert len([line for line in text.splitlines() if line.startswith(("class ", "[red]"))]) == 10
    assert rows[0]["linear"] == 0
    assert "\x1b" not in text
    assert names[3] in [row["class"] for row in found.results["per_class"]]  # as it is in the record
    assert clean(names[3]) == "[red]\ufffd[2J\ufffd[/red]"
    wide = {**found.results, "per_class": [{**row, "linear": 0.0} for row in found.results["per_class"]]}
    assert "[red]" in str(type(found)(**{**vars(found), "results": wide}))  # not taken for a colour


def test_the_verdict_compares_with_the_margin():
    def results(ours, untrained, n=1000):
        baseline = {"untrained": {"linear": {"accuracy": untrained}}}
        return {"linear": {"accuracy": ours}, "baselines": baseline, "per_class": [{"images": n // 4}, {"images": n}]}

    assert margin(0.5, 1000) == pytest.approx(0.031, abs=1e-3)
    assert margin(1.0, 1000) > 0
    clear = verdict(results(0.6, 0.5))
    assert clear.startswith("By the linear probe it is 10.0 points above the untrained encoder.")
    assert "An accuracy on 1,250 images is exact to about ± 2.7 points; guessing the largest class: 80.0 %." in clear
    assert verdict(results(0.52, 0.5)).startswith("No clear gain: by the linear probe it is 2.0 points above")
    assert "5.0 points below" in verdict(results(0.45, 0.5))


@pytest.mark.parametrize(
    ("linear", "knn", "begins"),
    [
        (
            0.7,
            0.7,
            "By the linear probe it is 20.0 points above raw pixels; by kNN it is 10.0 points above raw",
        ),
        (
            0.7,
            0.3,
            "A gain by the linear probe only: it is 20.0 points above raw pixels; by kNN it is 30.0 points below",
        ),
        (
            0.5,
            0.7,
            "No clear gain by the linear probe: it is 0.0 points above raw pixels; by kNN it is 10.0 points above",
        ),
        (
            0.4,
            0.3,
            "No clear gain: by the linear probe it is 10.0 points below raw pixels; by kNN it is 30.0 points below",
        ),
    ],
)
def test_the_verdict_names_what_knn_says(linear, knn, begins):
    accuracies = {"linear": {"accuracy": linear}, "knn": {"accuracy": knn}}
    baselines = {"pixels": {"linear": {"accuracy": 0.5}, "knn": {"accuracy": 0.6}}}
    assert verdict({**accuracies, "baselines": baselines, "per_class": [{"images": 1000}]}).startswith(begins)


def test_steps_that_take_long_are_named(run, monkeypatch, capsys):
    from coviews.console import progress as late_bar

    monkeypatch.setattr(late_bar, "_PATIENCE", -1.0)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    evaluate(run, "shapes:60")
    err = capsys.readouterr().err
    for name in ("encoder: features of the training images", "encoder: linear probe", "raw pixels: kNN"):
        assert name in err


def test_plain_lines_where_there_is_no_terminal(monkeypatch, capsys):
    from coviews.console import progress as late_bar

    monkeypatch.setattr(late_bar, "_APART", 0.01)
    monkeypatch.setenv("TTY_COMPATIBLE", "0")
    clock = iter(np.arange(0, 1000, 0.1))
    monkeypatch.setattr(late_bar.time, "monotonic", lambda: float(next(clock)))
    assert list(late_bar.shown(range(100), "counting", 100)) == list(range(100))
    lines = [line for line in capsys.readouterr().err.splitlines() if line != "counting ..."]
    assert [line.split(",")[0] for line in lines] == [f"counting: {n} %" for n in range(10, 100, 10)]
    list(late_bar.shown(range(100), "", 100))
    assert capsys.readouterr().err == ""


# ------------------------------------------------------------------------------------------------ bad input


def test_bad_input_is_one_line_with_exit_code_2(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("run", "python"):
        (tmp_path / name).symlink_to(made / name)
    for name in ("ab", "cd"):
        write_images(tmp_path / name, name, each=6)
    weights = make_encoder("resnet8", 16).state_dict()
    torch.save(weights, "resnet8.pt")
    torch.save(weights | {"stem.0.0.weight": torch.full((32, 3, 3, 3), torch.nan)}, "nan.pt")
    plain = {"image_size": (16, 16), "channels": 3, "mean": (0.5,) * 3, "std": (0.2,) * 3}
    save_encoder(tmp_path / "mine.safetensors", make_encoder("resnet8", 16), name=None, **plain)
    (tmp_path / "text.pt").write_text("nothing")
    (tmp_path / "young").mkdir()
    shutil.copy(made / "run/config.yaml", "young")
    state = ["--architecture", "resnet8", "--data", "ab"]
    cases = [
        (["run", "--k", "0"], "k must be at least 1"),
        (["run", "--temperature", "0"], "temperature must be above 0"),
        (["run", "--finetune", "10"], "as 1% or 0.01, not '10'"),
        (["run", "--finetune", "many"], "as 1% or 0.01"),
        (["run", "--seed", "-1"], "--seed must be 0 or more"),
        (["run", "--size", "0"], "--size must be 1 or more"),
        (["run", "--device", "cdua"], "did you mean 'cuda'"),
        (["run", "--architecture", "resnet18"], "is of the encoder resnet8, not of resnet18"),
        (["run", "--data", "ab", "--test-data", "cd"], "no class in common"),
        (["run", "--data", "nowhere"], "no file or folder 'nowhere'"),
        (["run", "--data", "shpes"], "did you mean 'shapes'"),
        (["run", "--subset", "0%"], "cannot load the data of the run"),
        (["python"], "came from Python (python: ImageSet): give the images as --data"),
        (["young"], "no checkpoint yet"),
        (["ab"], "is not a run"),
        (["nowhere/run"], "no run or file nowhere/run"),
        (["resnt50", "--data", "ab"], "did you mean 'resnet50'"),
        (["resnet50", "--data", "ab"], "--download"),
        (["resnet8", "--data", "ab", "--download"], "no published weights"),
        (["resnet8.pt", "--data", "ab"], "give --architecture"),
        (["resnet8.pt", "--architecture", "resnet8"], "give --data"),
        (["resnet8.pt", "--architecture", "resnet18", "--data", "ab"], "not of the encoder resnet18"),
        (["nan.pt", *state], "weights that are not finite (stem.0.0.weight)"),
        (["text.pt", *state], "is damaged, or holds more than weights"),
        (["mine.safetensors", "--data", "ab"], "coviews.load_encoder('mine.safetensors', into=your_module)"),
    ]
    for arguments, wanted in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code, out, err = said_by(capsys, *arguments)
        assert code == 2, (arguments, err)
        assert len(err) == 1, (arguments, err)
        assert wanted in err[0], (arguments, err)
        assert out == ""


def test_an_encoder_that_cannot_take_the_size():
    encoder = make_encoder("timm/vit_tiny_patch16_224", 32)
    with pytest.raises(CoviewsError, match=r"cannot take images of 16x16x3: .*; --size sets the side"):
        evaluate(encoder, "shapes:20", size=16, progress=False)


def test_features_that_are_not_finite():
    class Diverges(torch.nn.Module):
        def forward(self, x):
            return x.flatten(1)[:, :8] / (x.mean((1, 2, 3)) < 0.5)[:, None]  # bright images only

    with pytest.raises(CoviewsError, match=r"features of \d+ of 50 images are not finite, first of image"):
        evaluate(Diverges(), "shapes:50", progress=False)


def test_without_labels_the_rest_is_given(run, tmp_path, capsys):
    (write_images(tmp_path / "images", ["one"], each=30) / "two").mkdir()
    code, out, err = said_by(capsys, run, "--data", tmp_path / "images", "--finetune", "10%", "--no-progress")
    assert (code, err) == (0, [])
    assert "RankMe" in out
    lines = " ".join(out.split())
    wanted = "kNN, linear probe, accuracy by class, confusion matrix, raw pixels, fine-tuning: they need labels"
    assert f"not measured: {wanted}, and the training images have none" in lines
    assert "accuracy in %" not in out
    (record,) = read_records(run / "evaluations.jsonl")
    assert set(record["results"]["baselines"]["untrained"]) == {"quality"}
    assert "knn" not in record["results"]


def test_a_table_of_labels(run, tmp_path, capsys):
    """A flat folder of images, some of which a table labels, as `coviews choose` takes it."""
    folder, rows = tmp_path / "flat", ["file,label"]
    folder.mkdir()
    for path in sorted(write_images(tmp_path / "classes", ["dark", "light"]).rglob("*.png")):
        name = f"{path.parent.name}{path.name}"
        shutil.move(path, folder / name)
        rows.append(f"{name},{path.parent.name if int(path.stem) < 10 else ''}")  # ten labels a class
    table = tmp_path / "labels.csv"  # not in the folder of the images
    table.write_text("\n".join(rows))
    options = ["--data", folder, "--labels", table, "--no-progress"]
    code, out, _ = said_by(capsys, run, *options)
    assert code == 0
    assert f"{table}: 16 images to learn from; 4 to judge" in " ".join(out.split())
    (record,) = read_records(run / "evaluations.jsonl")
    assert record["data"] == str(table)
    assert record["results"]["classes"] == ["dark", "light"]
    table.write_text("file,label\nnothing.png,dark\n")
    code, _, err = said_by(capsys, run, *options)
    assert code == 2
    assert err == [f"error: 1 of the 1 files that {table} labels are not in {tmp_path} or {folder}: nothing.png"]
    code, _, err = said_by(capsys, run, "--labels", folder)
    assert (code, err) == (2, [f"error: --labels {folder} is no table (.csv or .tsv) with the columns file and label"])


def test_warnings_are_lines(run, tmp_path, capsys):
    write_images(tmp_path / "train", "abc")
    write_images(tmp_path / "test", "bcd", seed=1)
    code, _, err = said_by(capsys, run, "--data", tmp_path / "train", "--test-data", tmp_path / "test", *QUICK)
    assert code == 0
    assert err == ["warning: 15 of 45 test images are left out, as no training image is of their class: d (15)"]
    same = ["--data", tmp_path / "train", "--test-data", tmp_path / "train"]
    code, _, err = said_by(capsys, run, *same, *QUICK)
    assert code == 0
    assert err == [
        "warning: 45 of 45 test images are among the training images, to the last pixel: accuracies will be too high"
    ]


def test_options_are_checked_when_they_are_made():
    for wrong, message in (
        ({"k": 0}, "at least 1 neighbour"),
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"seed": -1}, "--seed must be 0 or more, not -1"),
        ({"batch_size": 0}, "--batch-size must be 1 or more"),
        ({"finetune": ["200%"]}, "share of the labels"),
    ):
        with pytest.raises(CoviewsError, match=message):
            EvaluateOptions(**wrong)
    with pytest.raises(CoviewsError, match="unknown option 'bacth_size': did you mean 'batch_size'"):
        evaluate("run", bacth_size=3)
    options = EvaluateOptions(k=3, finetune=("1%", 0.5))
    assert replaced(options, {"k": 4}) == EvaluateOptions(k=4, finetune=("1%", 0.5))
    assert options.fractions == (0.01, 0.5)


def test_shares_of_labels():
    assert [fraction(s) for s in ("1%", "10 %", 0.1, "0.5", "100%", 1.0)] == [0.01, 0.1, 0.1, 0.5, 1.0, 1.0]
    for wrong in ("0%", "101%", 5, 0, -0.1, "1e-3", "ten", ""):
        with pytest.raises(CoviewsError, match=r"1% or 0\.01"):
            fraction(wrong)


def test_the_command_is_listed_without_torch():
    import subprocess

    code = "import sys, coviews.cli; coviews.cli.main(['--help'])"
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", code], check=False, capture_output=True, text=True)
    assert "evaluate" in done.stdout
    assert "| torch\n" not in done.stderr


def test_a_probe_of_whole_images_stands_beside_the_other(made, tmp_path, capsys):
    assert main(["evaluate", str(made / "run"), "--whole", "--out", str(tmp_path / "found.jsonl")]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    head = next(row for row in rows if row[:3] == ["accuracy", "in", "%"])
    assert head[3:] == ["kNN", "linear", "probe", "probe", "of", "whole", "images"]
    results = json.loads((tmp_path / "found.jsonl").read_text())["results"]
    for name, found in {"this": results, "untrained": results["baselines"]["untrained"]}.items():
        cells = next(row for row in rows if row[:1] == [name])
        assert cells[2:] == [f"{100 * found[kind]['accuracy']:.1f}" for kind in ("knn", "linear", "whole")]


def test_what_the_page_shows_runs(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made / "run", "runs/first")
    write_images(tmp_path / "my/train", ["disc", "ring"])
    write_images(tmp_path / "my/test", ["disc", "ring"], each=5, seed=1)
    page = (Path(__file__).parents[2] / "docs" / "evaluate.md").read_text()
    commands = [line.partition("#")[0] for line in page.splitlines() if line.startswith("coviews evaluate runs/first")]
    assert len(commands) == 5
    for command in [c for c in commands if "--labels" not in c][:2]:
        assert main(shlex.split(command)[1:]) == 0
    assert "this encoder" in capsys.readouterr().out
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, {})
    lines = capsys.readouterr().out.splitlines()
    assert "shapes:200 (subset 80%): 160 images to learn from; my/test: 10 to judge" in "\n".join(lines)
    assert [line.split()[1] for line in lines[-3:]] == ["shapes:200", "my/train", "shapes:200"]


@pytest.mark.slow
def test_the_two_probes_agree(tmp_path):
    """The fast one knows of crops what those of 500 images tell; the paper's learns from 100 crops of each."""
    folder = os.environ.get("COVIEWS_CIFAR10")
    if not folder:
        pytest.skip("set COVIEWS_CIFAR10 to a folder with CIFAR-10's images in train/ and test/")
    settings = coviews.PretrainSettings(
        data=f"{folder}/train", subset="5000", test_data=f"{folder}/test",
        encoder="resnet8", epochs=20, batch_size=128, lr=0.12, views="simclr", knn_every=0, tensorboard=False,
        out=tmp_path / "run",
    )  # fmt: skip
    coviews.pretrain(settings=settings, progress=False)
    found = evaluate(tmp_path / "run", whole=True, paper=True, baselines=False, progress=False)
    print(found)
    papers = found.results["paper"]["accuracy"]
    assert abs(found.results["linear"]["accuracy"] - papers) < 0.02  # 0.012; 0.005 on encoders of 60 epochs
    assert found.results["whole"]["accuracy"] - papers > 0.02
