"""Every system that the paper names goes through pretrain, report, a stop and resume, and compare."""

import dataclasses
import json
import signal

import pytest

from coviews import compare, pretrain
from coviews.training.signals import Stopped
from coviews.training.state import Training
from small_runs import BY_TABLE, SMALL, content, differing

TINY = SMALL.replaced(epochs=2, knn_every=0)
SYSTEMS = {
    "autoaugment": TINY.replaced(views="autoaugment:svhn", space=None),
    "autoaugment as a prior": TINY.replaced(
        views="coviews", space=None, search=dataclasses.replace(BY_TABLE, prior="autoaugment:cifar10")
    ),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_stopped_in_an_epoch_and_resumed(name, tmp_path, monkeypatch):
    settings = SYSTEMS[name]
    pretrain(settings=settings.replaced(out=tmp_path / "whole", report=True), progress=False)
    old, calls = Training.stop_if_asked, []

    def asks(training):
        calls.append(training.step)
        if len(calls) == 5:
            training.stop_request.signal = signal.SIGTERM
        old(training)

    monkeypatch.setattr(Training, "stop_if_asked", asks)
    with pytest.raises(Stopped):
        pretrain(settings=settings.replaced(out=tmp_path / "run", report=True), progress=False)
    monkeypatch.undo()
    pretrain(resume=tmp_path / "run", progress=False)
    assert not differing(content(tmp_path / "whole"), content(tmp_path / "run"))
    page = (tmp_path / "run" / "report.html").read_text()
    assert settings.views in page


def test_systems_are_compared(here, tmp_path):
    done = compare(
        settings=TINY.replaced(space=None), views=["autoaugment:cifar10"], seeds=1, out=tmp_path / "c", progress=False
    )
    assert here == ["autoaugment-cifar10-0"]
    results = json.loads((tmp_path / "c" / "results.json").read_text())
    assert (
        [run["variant"] for run in results["runs"]] == [r.variant for r in done.results.runs] == ["autoaugment:cifar10"]
    )
