"""Every system that the paper names goes through pretrain, report, a stop and resume, and compare."""

import dataclasses
import json

import pytest

from coviews import compare, pretrain
from coviews.runs.presets import preset
from coviews.training.signals import Stopped
from small_runs import BY_TABLE, SMALL, content, differing, signalled

ADVERSARIAL = preset("adversarial-autoaugment").search
TINY = SMALL.replaced(epochs=2, knn_every=0)
SYSTEMS = {
    "autoaugment": TINY.replaced(views="autoaugment:svhn", space=None),
    "autoaugment as a prior": TINY.replaced(
        views="coviews", epochs=3, space=None, search=dataclasses.replace(BY_TABLE, prior="autoaugment:cifar10")
    ),
    "fast autoaugment": TINY.replaced(views="fast-autoaugment:imagenet", space=None),
    "viewmaker": TINY.replaced(views="viewmaker", space=None, precision="bf16-mixed"),
    "viewmaker of crops": TINY.replaced(
        views="viewmaker", space=None, viewmaker_source="cropflip", views_local=1, local_size=8, precision="bf16-mixed"
    ),
    "infomin-flow": TINY.replaced(views="infomin-flow", space=None, precision="bf16-mixed"),
    "infomin-flow with labels": TINY.replaced(
        views="infomin-flow", space=None, infomin_labels=40, views_local=1, local_size=8, accumulate=2, batch_size=16
    ),
    "adversarial autoaugment": TINY.replaced(
        views="indepviews", epochs=3, queue_size=1, search=dataclasses.replace(ADVERSARIAL, batch=32, images_each=8)
    ),
    "rotation": TINY.replaced(views="recipe", space=None, method="rotation"),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_stopped_in_an_epoch_and_resumed(name, tmp_path):
    settings = SYSTEMS[name]
    pretrain(settings=settings.replaced(out=tmp_path / "whole", report=True), progress=False)
    with signalled(5), pytest.raises(Stopped):
        pretrain(settings=settings.replaced(out=tmp_path / "run", report=True), progress=False)
    pretrain(resume=tmp_path / "run", progress=False)
    assert not differing(content(tmp_path / "whole"), content(tmp_path / "run"))
    page = (tmp_path / "run" / "report.html").read_text()
    assert settings.method.name in page
    for missing in ("No images are shown", "The encoder is not tried", "No pairs are shown"):
        assert missing not in page
    assert (settings.views == "viewmaker") == ("changed by the viewmaker" in page)
    assert (settings.views == "infomin-flow") == ("whose channels infomin-flow shares out" in page)
    learned = settings.views in ("viewmaker", "infomin-flow")
    assert learned == (tmp_path / "run" / "viewmaker.safetensors").exists()


def test_systems_are_compared(here, tmp_path):
    done = compare(
        settings=TINY.replaced(space=None),
        views=["autoaugment:cifar10", "viewmaker"],
        seeds=1,
        out=tmp_path / "c",
        progress=False,
    )
    assert here == ["autoaugment-cifar10-0", "viewmaker-0"]
    results = json.loads((tmp_path / "c" / "results.json").read_text())
    variants = ["autoaugment:cifar10", "viewmaker"]
    assert [run["variant"] for run in results["runs"]] == [r.variant for r in done.results.runs] == variants
    assert all(0 <= run["quality"]["rotation"] <= 1 for run in results["runs"])
