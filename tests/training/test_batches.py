"""What a step sees depends on seed, epoch and step alone."""

import numpy as np
import pytest

from coviews import CoviewsError, Placement, Plan, ViewSettings, load_images, view_source
from coviews.data.stream import Stream
from coviews.training.batches import Batches

IMAGES = load_images("shapes:50", size=12).images
SOURCE = view_source("random")


def batches(**changes):
    return Batches(**{"images": IMAGES, "size": 16, "seed": 3, "views": ViewSettings(threads=1), **changes})


def test_an_epoch_sees_every_image_at_most_once_in_a_new_order():
    b = batches()
    assert b.steps == 3
    assert sorted(b.order(1)) == list(range(50))
    assert not np.array_equal(b.order(1), b.order(2))
    assert np.array_equal(b.order(2), batches().order(2))
    assert not np.array_equal(b.order(1), batches(seed=4).order(1))


@pytest.mark.parametrize("ahead", [0, 1, 2, 5])
def test_making_views_ahead_changes_nothing(ahead):
    b = batches()
    whole = [(s, [v.copy() for v in groups], d) for s, groups, d in b.epoch(SOURCE, 2, ahead=0)]
    again = list(b.epoch(SOURCE, 2, ahead=ahead))
    assert [s for s, _, _ in again] == [0, 1, 2]
    for (_, (views,), plan), (_, (other,), other_plan) in zip(whole, again, strict=True):
        assert np.array_equal(views, other)
        assert plan == other_plan
    (step, (views,), _), *_ = b.epoch(SOURCE, 2, 2, ahead=ahead)
    assert step == 2
    assert np.array_equal(views, whole[2][1][0])


LOCAL = ViewSettings(Placement(area=(0.05, 0.2)), ((5, 4),) * 3, threads=1)


@pytest.mark.parametrize("local", [None, LOCAL])
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_make_together_what_one_makes(ranks, local):
    source = view_source("uniform", views=5)
    one, plan = batches(local=local).make(source, 1, 1, batches().order(1))
    parts = [batches(local=local, rank=r, ranks=ranks).make(source, 1, 1, batches().order(1)) for r in range(ranks)]
    for i, views in enumerate(one):
        assert np.array_equal(np.concatenate([groups[i] for groups, _ in parts]), views)
    assert all(other == plan for _, other in parts)


def test_local_views_are_smaller_parts_with_operations_of_the_same_source():
    source = view_source("random", views=5)
    b = batches(local=LOCAL)
    groups, plan = b.make(source, 1, 0, b.order(1))
    assert [views.shape for views in groups] == [(16, 2, 12, 12, 3), (16, 3, 5, 4, 3)]
    assert plan.sizes == ((12, 12),) * 2 + ((5, 4),) * 3
    left, top, right, bottom = np.moveaxis(plan.boxes, -1, 0)
    share = (right - left) * (bottom - top) / 144
    assert share[:, :2].min() >= 0.15
    assert share[:, 2:].max() <= 0.25
    drawn = source.sample(16, np.random.default_rng([3, 2, 1, 0]))
    assert np.array_equal(plan.ops, drawn.ops)
    assert np.array_equal(plan.levels, drawn.levels)
    # nothing of the plan depends on how its views are grouped
    images = IMAGES[b.order(1)[:16]]
    for v in range(5):
        (view,) = b.views.make_groups(images, plan.of_views(v, v + 1))
        assert np.array_equal(view[:, 0], groups[0][:, v] if v < 2 else groups[1][:, v - 2])


def test_plans_are_joined_only_if_they_are_of_the_same_images():
    generator = np.random.default_rng(0)
    plan = Plan.draw(view_source("uniform", views=3), 4, (12, 12), generator)
    assert Plan.joined([plan.of_views(0, 1), plan.of_views(1, 3)]) == plan
    assert Plan.joined([plan]) == plan
    for other, message in (
        (plan[:2], "the same images"),
        (Plan.draw(view_source("simclr"), 4, (12, 12), generator), "the same space"),
        (Plan.draw(view_source("uniform"), 4, (12, 11), generator), "the same images"),
        (Plan.draw(view_source("uniform", steps=3), 4, (12, 12), generator), "of 3 and of 2 operations"),
    ):
        with pytest.raises(CoviewsError, match=message):
            Plan.joined([plan, other])


@pytest.mark.parametrize(("streamed", "at_once"), [(False, 4), (True, 1)])
def test_steps_are_made_at_once_unless_their_images_must_be_decoded(streamed, at_once, monkeypatch):
    class Shards(Stream):
        def __init__(self):
            pass

        def __len__(self):
            return 64

        def order(self, seed, size):
            return np.arange(64)

    made = []
    views = [IMAGES[:16, None]]
    monkeypatch.setattr(Batches, "make", lambda b, source, epoch, step, order: made.append(step) or (views, None))
    images = Shards() if streamed else np.zeros((64, 12, 12, 3), np.uint8)
    steps = Batches(images, 16, 3, ViewSettings()).epoch(view_source("uniform"), 1, ahead=0)
    next(steps)
    assert made == list(range(at_once))


def test_an_error_in_the_background_reaches_the_foreground():
    class Broken:
        def sample(self, n, generator):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(batches().epoch(Broken(), 1, ahead=2))


def test_a_part_of_a_batch_is_that_part_of_its_views():
    views = ViewSettings(threads=1)
    plan = views.plan(view_source("uniform"), 50, (12, 12), np.random.default_rng(0))
    part = slice(10, 25)
    assert np.array_equal(views.make(IMAGES[part], plan[part]), views.make(IMAGES, plan)[part])
