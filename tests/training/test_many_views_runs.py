"""Runs with more than two views, and with the methods for them: repeated, resumed, and refused where they cannot be."""

import json

import pytest

from coviews import CoviewsError, pretrain
from coviews.encoders.pixels import to_tensors
from coviews.runs.settings_file import parse_settings, settings_yaml
from coviews.training.signals import Stopped
from small_runs import SMALL, content, differing, signalled

DINO = {"method": "dino", "prototypes": 64, "momentum": 0.9, "views": "simclr", "views_local": 3}
RUNS = {
    "dino": DINO,
    "dino by sinkhorn": {**DINO, "centering": "sinkhorn", "teacher_warmup": 5, "teacher_start": 0.1},
    "vicreg": {"method": "vicreg", "projector": 32, "views": "uniform", "lr": 0.003},
    "simclr of four views": {"views": "randaugment", "views_global": 3, "views_local": 1, "local_size": 10},
}


@pytest.mark.parametrize("name", RUNS)
def test_one_seed_one_run_stopped_or_not(name, tmp_path):
    settings = SMALL.replaced(**RUNS[name], save_every=0.0)
    assert parse_settings(settings_yaml(settings), "here") == settings.settled()
    pretrain(settings=settings.replaced(out=tmp_path / "whole"), progress=False)
    records = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    epochs = [r for r in records if r["kind"] == "epoch"]
    assert epochs[-1]["loss"] < epochs[0]["loss"]
    assert all(0.05 < r["spread"] < 1.5 for r in epochs)

    with signalled(5), pytest.raises(Stopped, match="--resume"):  # in the middle of the second epoch
        pretrain(settings=settings.replaced(out=tmp_path / "run"), progress=False)
    assert not (tmp_path / "run" / "encoder.safetensors").exists()
    pretrain(resume=tmp_path / "run", threads=1, progress=False)
    whole, run = content(tmp_path / "whole"), content(tmp_path / "run")
    whole.pop("config.yaml"), run.pop("config.yaml")  # it names the threads
    assert not differing(whole, run)


def test_a_step_sees_global_views_and_smaller_local_ones(tmp_path, monkeypatch):
    seen = []

    def tensors(views, *rest):
        seen.append(views.shape)
        return to_tensors(views, *rest)

    monkeypatch.setattr("coviews.training.pretrain.to_tensors", tensors)
    pretrain(settings=SMALL.replaced(**DINO, epochs=1, knn_every=0, out=tmp_path / "run"), progress=False)
    assert seen == [(32, 2, 16, 16, 3), (32, 3, 8, 8, 3)] * 3


def test_local_views_are_three_sevenths_of_the_others():
    settings = SMALL.replaced(views="simclr", views_local=2)
    assert settings.local_sizes((224, 224)) == ((96, 96),) * 2
    assert settings.local_sizes((32, 48)) == ((14, 21),) * 2
    assert settings.local_sizes((16, 16)) == ((8, 8),) * 2
    assert settings.replaced(view_size=32).local_sizes((64, 96)) == ((14, 14),) * 2
    assert settings.replaced(local_size=20).local_sizes((32, 48)) == ((20, 20),) * 2
    assert settings.local_placement.area == (0.05, 0.4)
    assert SMALL.local_sizes((32, 32)) == ()
    for size, changes in (((8, 8), {}), ((32, 32), {"local_size": 32}), ((32, 32), {"local_size": 40})):
        with pytest.raises(CoviewsError, match="must be smaller than the other views"):
            settings.replaced(**changes).local_sizes(size)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"views": "coviews", "views_local": 4}, "learned views are pairs: use --views random, uniform"),
        ({"views": "indepviews", "views_global": 3}, "learned views are pairs"),
        ({"views": "some.safetensors", "views_global": 3}, "learned views are pairs"),
        ({"views": "hardviews", "views_global": 3}, "hardviews chooses pairs"),
        ({"views": "simclr", "views_global": 1}, "two views of each image or more"),
        ({"views": "simclr", "views_global": 0}, "--views-global must be a whole number from 1"),
        ({"views": "simclr", "views_local": -1}, "--views-local must be a whole number from 0"),
        ({"views": "simclr", "views_local": 1, "local_area": (0.4, 0.1)}, "--local-area must be a range"),
        ({"views": "simclr", "method": "byol", "views_local": 1}, "byol learns from two views .* simclr or dino"),
        ({"views": "simclr", "method": "vicreg", "views_global": 4}, "vicreg learns from two views"),
    ],
)
def test_what_cannot_be_is_said(changes, message):
    with pytest.raises(CoviewsError, match=message):
        SMALL.replaced(**changes)


def test_an_encoder_that_cannot_take_local_views_is_refused(tmp_path):
    settings = SMALL.replaced(**{**DINO, "encoder": "timm/vit_tiny_patch16_224"}, size=32, out=tmp_path / "run")
    with pytest.raises(CoviewsError, match="cannot take images of 14x14x3"):
        pretrain(settings=settings, progress=False)
