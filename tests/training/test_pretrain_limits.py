"""Trainings with limits: no view of any step breaks them, and a resumed run is the same run."""

import numpy as np
import pytest

from coviews import load_policy, pretrain
from coviews.cli import main
from coviews.training.batches import Batches
from coviews.training.pair_losses import PairLosses
from coviews.training.signals import Stopped
from small_runs import BY_TABLE, SMALL, content, differing, signalled, trust_young_encoders

LIMITS = {"matters": "orientation,colour", "forbid": "Cutout", "cap": "Brightness=1.2,TranslateX=0.1"}
LEFT = {"TranslateX", "TranslateY", "Contrast", "Brightness", "Sharpness", "Identity"}  # of autoaugment


@pytest.fixture
def plans(monkeypatch):
    """Every plan that a training makes views of, in the search too."""
    drawn, make, score = [], Batches.make, PairLosses.__call__

    def making(batches, *arguments):
        views, plan = make(batches, *arguments)
        drawn.append(plan)
        return views, plan

    def scoring(losses, subpolicies, *arguments):
        drawn.append(subpolicies)
        return score(losses, subpolicies, *arguments)

    monkeypatch.setattr(Batches, "make", making)
    monkeypatch.setattr(PairLosses, "__call__", scoring)
    trust_young_encoders(monkeypatch.setattr)
    return drawn


def check(drawn):
    assert set(drawn.space.ops) <= LEFT | {"Blur"}  # the recipe knows it, and has it off
    for op, low, high in (("Brightness", 0.8, 1.2), ("TranslateX", -0.1, 0.1)):
        if op in drawn.space.ops:
            values = drawn.space.values[drawn.space.index(op)]
            assert (values.min(), values.max()) == pytest.approx((low, high))
    if hasattr(drawn, "flips"):
        assert not drawn.flips.any()
        assert not drawn.turns.any()


@pytest.mark.parametrize("by", ["ppo", "table", "simclr", "recipe"])
def test_a_run_keeps_to_its_limits_and_resumes_exactly(by, plans, tmp_path):
    settings = SMALL.replaced(**LIMITS)
    if by == "table":
        settings = settings.replaced(search=BY_TABLE)
    elif by != "ppo":
        settings = settings.replaced(views=by, epochs=3)
    pretrain(settings=settings.replaced(out=tmp_path / "whole"), progress=False)
    assert len(plans) >= 3 * settings.epochs
    for plan in plans:
        check(plan)
    operations = {op for p in plans for op in np.array(p.space.ops)[np.unique(p.ops)]}
    assert operations == (LEFT if settings.learns_views else {"Brightness", "Contrast", "Identity"})
    for file in (tmp_path / "whole" / "policies").glob("*"):
        assert set(load_policy(file).space.ops) == LEFT

    with signalled(lambda training: training.epoch == settings.epochs), pytest.raises(Stopped):
        pretrain(settings=settings.replaced(out=tmp_path / "run"), progress=False)
    pretrain(resume=tmp_path / "run", progress=False)
    assert not differing(content(tmp_path / "whole"), content(tmp_path / "run"))


def test_the_report_shows_what_was_allowed(tmp_path):
    words = (
        "pretrain shapes:100 --size 16 --encoder resnet8 --epochs 3 --warmup-epochs 1 --batch-size 32 --projector 32 "
        "--knn-every 0 --no-tensorboard --no-progress --forbid Equalize --cap Rotate=10 --matters colour"
    )
    assert main([*words.split(), "--out", str(tmp_path / "run")]) == 0
    page = (tmp_path / "run" / "report.html").read_text().replace("forbid: Equalize", "")  # among the settings
    assert "Rotate" in page
    for op in ("Equalize", "Solarize", "Posterize", "AutoContrast"):
        assert op not in page, op
