"""Pretraining with a table that sees crops: two runs are equal, a stopped one goes on, and the page shows the crops."""

import dataclasses
import json

import pytest

from coviews import load_policy, pretrain
from coviews.cli import main
from coviews.report.page import run_charts, run_page
from coviews.report.policy_charts import policy_frames
from coviews.report.record import read_run
from coviews.training.signals import Stopped
from small_runs import BY_TABLE, SMALL, content, differing, signalled, trust_young_encoders

CROPS = SMALL.replaced(search=dataclasses.replace(BY_TABLE, crops=True))


@pytest.fixture
def whole(tmp_path, monkeypatch):
    trust_young_encoders(monkeypatch.setattr)
    pretrain(settings=CROPS.replaced(out=tmp_path / "whole"), progress=False)
    return tmp_path / "whole"


def test_one_seed_one_run_and_other_views_than_without_crops(whole, tmp_path):
    pretrain(settings=CROPS.replaced(out=tmp_path / "again"), threads=2, progress=False)
    one, two = content(whole), content(tmp_path / "again")
    one.pop("config.yaml"), two.pop("config.yaml")
    assert not differing(one, two)
    assert load_policy(whole / "policies" / "0004.safetensors").chooses_crops
    pretrain(settings=SMALL.replaced(search=BY_TABLE, out=tmp_path / "without"), progress=False)
    assert (tmp_path / "without" / "encoder.safetensors").read_bytes() != one["encoder.safetensors"]
    records = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert all("explained_without_crops" in r for r in records if r["kind"] == "search")


def test_a_resumed_run_is_the_same(whole, tmp_path):
    with signalled(lambda training: (training.epoch, training.step) == (3, 2)), pytest.raises(Stopped):
        pretrain(settings=CROPS.replaced(out=tmp_path / "part"), progress=False)
    pretrain(resume=tmp_path / "part", progress=False)
    one, two = content(whole), content(tmp_path / "part")
    names = [name for name in one if name.endswith(".safetensors")]
    assert len(names) == 4
    assert not differing({n: one[n] for n in names}, {n: two[n] for n in names})


def test_the_page_shows_pairs_of_crops(whole, tmp_path):
    run = read_run(whole)
    page = run_page(run)
    assert not run.missing
    assert "Pairs of crops, against those of the prior" in page
    charts = [c for c in run_charts(run) if c.key == "placement"]
    assert len(charts) == 1
    assert charts[0].labels[-2:] == ["mirrored alike", "one of the two mirrored"]
    assert "one crop within the other" in charts[0].labels
    assert len({tuple(c.labels) for f in policy_frames(run) for c in f.charts if c.key == "placement"}) == 1
    for values in charts[0].bars.values():
        assert sum(values[-2:]) == pytest.approx(1, abs=1e-3)


def test_the_command_has_the_option(tmp_path, capsys):
    words = (
        "pretrain shapes:100 --size 16 --encoder resnet8 --epochs 2 --warmup-epochs 1 --batch-size 32 --projector 32 "
        "--knn-every 0 --no-tensorboard --no-report --search.crops"
    )
    assert main([*words.split(), "--out", str(tmp_path / "run")]) == 0
    assert "crops: true" in (tmp_path / "run" / "config.yaml").read_text()
    assert main([*words.split(), "--out", str(tmp_path / "apart"), "--views", "indepviews"]) == 0
    assert not load_policy(tmp_path / "apart" / "policies" / "0002.safetensors").chooses_crops
