"""Hard views: which pair is trained on, chosen by the encoder at any scale, by the crops, or by both."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from coviews import CoviewsError, pretrain
from coviews.ops.placement import Placement
from coviews.ops.plan import Plan
from coviews.policies.factors import family
from coviews.policies.fixed import view_source
from coviews.policies.hard_crops import HardCrops
from coviews.policies.placement_effects import COUNTS, EDGES, FIRSTS, pair_bins, placement_bins
from coviews.runs.settings import PretrainSettings
from coviews.searching.crop_effects import CropEffects
from coviews.training.hard_views import HardViews
from coviews.training.signals import Stopped
from small_runs import SMALL, content, differing, signalled

HARD = SMALL.replaced(views="hardviews", hard_views=4, hard_crops=0, epochs=1, knn_every=0)
NAMES = list(EDGES)


@pytest.mark.parametrize(("scale", "side"), [(1.0, 16), (0.5, 8)])
def test_the_encoder_chooses_the_pair_with_the_highest_loss(scale, side, tmp_path, monkeypatch):
    """At full scale of the views as they are, to the last bit; at half scale of their means over 2 x 2 pixels."""
    seen = []
    old = HardViews.pair

    def spy(hard, views, plan):
        pair, chosen_plan = old(hard, views, plan)
        method = hard.ranks.method
        seen.append(len(views))
        small = [v if scale == 1 else F.avg_pool2d(v, 2) for v in views]
        assert small[0].shape[2:] == (side, side)
        with torch.no_grad(), hard.ranks.fabric.autocast():
            was = method.training
            method.eval()
            z = [method.embed(v) for v in small]
            pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
            losses = torch.stack([method.compare(z[i], z[j]) for i, j in pairs])
            for n, best in enumerate(losses.argmax(0).tolist()):
                i, j = pairs[best]
                assert torch.equal(pair[0][n], views[i][n])
                assert torch.equal(pair[1][n], views[j][n])
                assert chosen_plan[n : n + 1] == plan[n : n + 1].with_views(np.array([[i, j]]))
            method.train(was)
        return pair, chosen_plan

    monkeypatch.setattr(HardViews, "pair", spy)
    pretrain(settings=HARD.replaced(hard_scale=scale, keep=1.0, out=tmp_path / "run"), progress=False)
    assert seen == [4] * 3


def known_effects():
    """Less overlap makes pairs harder; the rest does nothing."""
    values = np.zeros(COUNTS.sum())
    values[: COUNTS[0]] = np.linspace(0.6, -0.3, COUNTS[0])
    return values


def expected_losses(plan, values):
    return values[FIRSTS + placement_bins(plan)].sum(1)


def test_crops_are_chosen_by_their_effects():
    prior, values = view_source("simclr", views=6), known_effects()
    for views in (2, 3, 4):
        source = HardCrops(prior, 6, views, values)
        plan = Plan.draw(source, 50, (24, 32), np.random.default_rng(0))
        candidates = Plan.draw(prior, 50, (24, 32), np.random.default_rng(0))
        assert plan.views == views
        pairs = [np.array(pair) for pair in itertools.combinations(range(6), 2)]
        every = [expected_losses(candidates.with_views(np.tile(pair, (50, 1))), values) for pair in pairs]
        np.testing.assert_allclose(expected_losses(plan.of_views(0, 2), values), np.max(every, 0))
        sizes = HardCrops(prior, 6, views, values).draw_plan(3, (24, 32), np.random.default_rng(0), None, ((8, 8),) * 2)
        assert sizes.sizes == ((8, 8),) * views


def test_bins_of_all_pairs_are_those_of_each():
    plan = Plan.draw(family("crop tiny, mirror, turns").source(4), 20, (16, 16), np.random.default_rng(0),
                     family("crop tiny, mirror, turns").placement)  # fmt: skip
    first, second = np.array([0, 2, 1]), np.array([3, 3, 2])
    bins = pair_bins(plan, first, second)
    for p in range(3):
        pair = plan.with_views(np.tile([first[p], second[p]], (20, 1)))
        assert np.array_equal(bins[:, p], placement_bins(pair))


def test_effects_of_crops_are_learned_from_losses():
    rng, crops, values = np.random.default_rng(0), CropEffects(), known_effects()
    assert not crops.solved().any()
    for step in range(150):
        plan = Plan.draw(view_source("simclr"), 128, (24, 32), rng)
        level = 5 - step / 100  # the loss falls as training goes on
        crops.observe(plan, level + expected_losses(plan, values) + 0.2 * rng.standard_normal(128))
    other = Plan.draw(view_source("simclr"), 2000, (24, 32), rng)
    learned, true = (expected_losses(other, v) for v in (crops.solved(), values))
    assert np.corrcoef(learned, true)[0, 1] > 0.98
    again = CropEffects()
    again.load_state_dict(crops.state_dict())
    assert np.array_equal(again.solved(), crops.solved())


@pytest.mark.parametrize("views", [2, 3])
def test_chosen_by_crops_stopped_and_resumed(views, tmp_path):
    settings = HARD.replaced(hard_crops=6, hard_views=views, hard_source="crop tiny, mirror, light", epochs=3)
    pretrain(settings=settings.replaced(out=tmp_path / "whole"), progress=False)
    with signalled(5), pytest.raises(Stopped):  # in the second epoch
        pretrain(settings=settings.replaced(out=tmp_path / "run"), progress=False)
    state = torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)
    assert (state["epoch"], state["step"]) == (2, 2)
    assert state["hard views"]["effects"].any()  # of the first epoch's pairs
    pretrain(resume=tmp_path / "run", progress=False)
    assert not differing(content(tmp_path / "whole"), content(tmp_path / "run"))


def test_by_default_only_two_views_of_each_image_are_made(tmp_path, monkeypatch):
    """Chosen by the crops of eight: no view passes the encoder twice."""
    made, passes = [], []
    old = HardViews.pair
    monkeypatch.setattr(HardViews, "pair", lambda hard, views, plan: made.append(len(views)) or old(hard, views, plan))
    monkeypatch.setattr(HardViews, "hardest", lambda *_: passes.append(1))
    settings = PretrainSettings(views="hardviews")
    assert (settings.hard_crops, settings.hard_views) == (8, 2)
    by_default = {name: getattr(settings, name) for name in ("hard_crops", "hard_views", "hard_scale")}
    pretrain(settings=HARD.replaced(**by_default, out=tmp_path / "run"), progress=False)
    assert made == [2] * 3
    assert not passes


def test_without_a_choice_by_crops_nothing_of_it_is_kept(tmp_path):
    pretrain(settings=HARD.replaced(out=tmp_path / "run"), progress=False)
    assert "hard views" not in torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)


def test_any_family_is_chosen_from():
    tiny = PretrainSettings(views="hardviews", hard_source="crop tiny, turns, light")
    assert tiny.placement.area == (0.08, 1.0)
    assert tiny.placement.flip == 0
    assert tiny.placement.quarter_turns == 0.75
    assert tiny.settled().views == "hardviews"
    assert tiny.settled().hard_source == "crop tiny, turns, light"
    assert PretrainSettings(views="hardviews").placement == Placement()
    locked = tiny.replaced(matters="brightness", ignores="blur")
    assert locked.settled().hard_source == "crop tiny, turns, blur"
    with pytest.raises(CoviewsError, match="hard_source"):
        tiny.replaced(hard_source="coviews")
    with pytest.raises(CoviewsError, match="--hard-crops 4 must be more than --hard-views 4"):
        tiny.replaced(hard_crops=4, hard_views=4)
    with pytest.raises(CoviewsError, match="--hard-scale"):
        tiny.replaced(hard_scale=0.0)
    with pytest.raises(CoviewsError, match="nothing to choose from: give --hard-views 4"):
        tiny.replaced(hard_crops=0)
    with pytest.raises(CoviewsError, match="--hard-scale is for views that pass the encoder"):
        tiny.replaced(hard_scale=0.5)
    with pytest.raises(CoviewsError, match="these views have none"):
        tiny.replaced(crop="none")
    assert tiny.replaced(views="recipe", hard_crops=0).hard_crops == 0
    with pytest.raises(CoviewsError, match="hardviews chooses pairs"):
        tiny.replaced(views_global=3)
