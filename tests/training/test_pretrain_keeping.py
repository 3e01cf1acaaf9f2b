"""Training with the keeping head."""

import json

import pytest
import torch

from coviews import CoviewsError, pretrain
from coviews.methods.known import METHODS
from coviews.training.signals import Stopped
from small_runs import SMALL, content, differing, signalled
from toy_method import Toy

KEPT = SMALL.replaced(views="recipe", keep=5.0, epochs=2, knn_every=0)


def epochs(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [r for r in lines if r["kind"] == "epoch"]


def test_the_loss_of_the_method_is_its_own(tmp_path):
    """The first step's loss is the same with and without the head; what the step changes is not."""
    for name, keep in (("none", 0.0), ("kept", 5.0)):
        settings = KEPT.replaced(keep=keep, epochs=1, batch_size=100, out=tmp_path / name)
        pretrain(settings=settings, progress=False)
    none, kept = content(tmp_path / "none"), content(tmp_path / "kept")
    assert epochs(tmp_path / "none")[0]["loss"] == epochs(tmp_path / "kept")[0]["loss"]
    assert "encoder.safetensors" in differing(none, kept)
    assert "keeping" in kept["checkpoints/last.pt"]
    assert "keeping" not in none["checkpoints/last.pt"]
    assert "kept" not in epochs(tmp_path / "none")[0]
    assert list(epochs(tmp_path / "kept")[0]["kept"]) == [
        "Brightness", "Contrast", "Saturation", "Hue", "Grayscale", "position", "size", "mirrored",
    ]  # fmt: skip


def test_stopped_in_an_epoch_and_resumed(tmp_path):
    """Of hard views too, whose plan is that of the chosen pair."""
    settings = KEPT.replaced(views="hardviews", hard_views=3, keep_what="colour,crop")
    pretrain(settings=settings.replaced(out=tmp_path / "whole"), progress=False)
    with signalled(2), pytest.raises(Stopped):
        pretrain(settings=settings.replaced(out=tmp_path / "run"), progress=False)
    state = torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)
    assert state["step"] == 2
    assert state["keeping"]["sums"].min() > 0
    pretrain(resume=tmp_path / "run", progress=False)
    assert not differing(content(tmp_path / "whole"), content(tmp_path / "run"))
    assert "mirrored" not in epochs(tmp_path / "run")[-1]["kept"]


def test_views_that_do_not_differ_in_it_are_named(tmp_path):
    with pytest.raises(CoviewsError, match="--keep-what flip: the two views of an image do not differ in that"):
        pretrain(settings=KEPT.replaced(keep_what="flip", flip=0.0, out=tmp_path / "run"), progress=False)


def test_a_method_of_your_own_that_gives_no_features_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "toy", Toy)
    with pytest.raises(CoviewsError, match="--keep needs a method whose losses give the features"):
        pretrain(settings=KEPT.replaced(method="toy", out=tmp_path / "run"), progress=False)
