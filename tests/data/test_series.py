"""Series as data: images of one row, of any length, from files and from memory, and a run on them."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import coviews
from coviews import CoviewsError, Series, load_images, pretrain
from coviews.cli import main
from coviews.ops.series_operations import SERIES_OPS
from coviews.training.signals import Stopped
from small_runs import BY_TABLE, SMALL, content, differing, signalled

VALUES = np.random.default_rng(0).normal(size=(64, 200, 2)).astype(np.float32)
LABELS = np.array(["a", "b"])[np.arange(64) % 2]


@pytest.fixture
def file(tmp_path):
    np.savez(tmp_path / "s.npz", series=VALUES, labels=LABELS)
    return f"series:{tmp_path / 's.npz'}"


def test_files_and_arrays_are_images_of_one_row(file, tmp_path):
    np.save(tmp_path / "s.npy", VALUES)
    loaded = [load_images(data) for data in (file, f"series:{tmp_path / 's.npy'}", Series(VALUES, LABELS))]
    for images in loaded:
        assert (images.images.shape, images.images.dtype) == ((64, 1, 200, 2), np.uint16)
        assert np.array_equal(images.images, loaded[0].images)
    assert loaded[0].classes == loaded[2].classes == ("a", "b")
    assert loaded[1].labels is None
    (low, high), _ = loaded[0].values
    expected = np.clip((VALUES - low) / (high - low), 0, 1) * 65535
    assert np.abs(loaded[0].images[:, 0] - expected).max() <= 0.6
    assert load_images(Series(VALUES[..., 0])).images.shape == (64, 1, 200, 1)
    assert load_images(Series(VALUES), max_side=50).images.shape == (64, 1, 200, 2)  # the length stays
    assert repr(Series(VALUES, LABELS)) == "Series(float32 (64, 200, 2), with labels)"


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (Series(VALUES.transpose(0, 2, 1)), {}, r"channels, which come last, not of shape \(64, 2, 200\)"),
        (Series(VALUES[0, 0]), {}, "series must be"),
        (Series(VALUES[:, :0]), {}, "1 to 16384 values"),
        (Series(VALUES.astype(complex)), {}, "values of type complex"),
        (Series(VALUES, LABELS[:5]), {}, "one for each image is needed"),
        (Series(VALUES), {"size": 32}, "series keep their length"),
        ("series:nowhere.npy", {}, "there is no array of series 'nowhere.npy'"),
        ("series:", {}, "there is no array of series"),
    ],
)
def test_what_is_wrong_is_named(data, options, message):
    with pytest.raises(CoviewsError, match=message):
        load_images(data, **options)


TINY = SMALL.replaced(encoder="series8", size=None, epochs=2, knn_every=2, space=None, search=BY_TABLE, report=True)


def test_a_run_on_series_stopped_and_resumed(file, tmp_path):
    """Learned views of series, exactly resumed; then its encoder is judged and used as any other."""
    settings = TINY.replaced(data=file, size=None)
    pretrain(settings=settings.replaced(out=tmp_path / "whole"), progress=False)
    with signalled(3), pytest.raises(Stopped):
        pretrain(settings=settings.replaced(out=tmp_path / "run"), progress=False)
    done = pretrain(resume=tmp_path / "run", progress=False)
    assert not differing(content(tmp_path / "whole"), content(tmp_path / "run"))
    assert set(done.policy.space.ops) == {*SERIES_OPS, "Identity"}
    config = (tmp_path / "run" / "config.yaml").read_text()
    assert "space: series" in config
    assert "flip: 0.0" in config  # a series backwards is another one
    page = (tmp_path / "run" / "report.html").read_text()
    for missing in ("No images are shown", "The encoder is not tried", "No pairs are shown"):
        assert missing not in page
    embedding = coviews.embed(tmp_path / "run", file, progress=False)
    assert embedding.features.shape == (64, 256)
    exported = coviews.export(tmp_path / "run", format="state-dict", out=tmp_path / "encoder.pt")
    assert "SmallSeriesNet(channels=2" in exported.snippet
    exec((tmp_path / "small_resnet.py").read_text(), names := {})  # without coviews
    encoder = names["SmallSeriesNet"](2).eval()
    encoder.load_state_dict(torch.load(tmp_path / "encoder.pt", weights_only=True))
    some = torch.randn(3, 2, 1, 200)
    assert torch.equal(encoder(some), done.encoder.eval()(some))


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source = (Path(__file__).parents[2] / "examples" / "series.py").read_text()
    short = source.replace("arange(800)", "arange(160)").replace("epochs=8", "epochs=2").replace("epochs=3", "epochs=1")
    assert short.count("epochs=2") == short.count("warmup_epochs=1") == 1
    exec(short, names := {})
    assert names["values"].shape == (160, 128, 2)
    said = capsys.readouterr().out
    accuracies = [float(x) for x in re.findall(r"kNN accuracy ([\d.]+) %", said)]
    assert len(accuracies) == 2
    assert min(accuracies) > 50  # chance is 25
    assert any(op in said for op in SERIES_OPS)


def test_the_commands_take_series(file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = "--encoder series8 --views uniform --epochs 1 --batch-size 32 --no-report --no-tensorboard --out run"
    assert main(["pretrain", file, *run.split(), "--no-progress"]) == 0
    assert "space: series" in (tmp_path / "run" / "config.yaml").read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(["evaluate", "run"]) == 0
    assert main(["preview", file, "--views", "uniform", "--out", "views.png"]) == 0
    assert (tmp_path / "views.png").stat().st_size > 500
    capsys.readouterr()
    assert main(["pretrain", file, "--views", "viewmaker", "--batch-size", "32", "--epochs", "1", "--no-progress"]) == 2
    assert "a viewmaker needs images of 8 pixels a side, not 1 x 200" in capsys.readouterr().err
