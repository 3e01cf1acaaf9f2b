"""What a step sees depends on seed, epoch and step alone."""

import numpy as np
import pytest

from coviews import Plan, ViewSettings, load_images, make_views, view_source
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
    whole = [(s, v.copy(), d) for s, v, d in b.epoch(SOURCE, 2, ahead=0)]
    again = list(b.epoch(SOURCE, 2, ahead=ahead))
    assert [s for s, _, _ in again] == [0, 1, 2]
    for (_, views, drawn), (_, other, other_drawn) in zip(whole, again, strict=True):
        assert np.array_equal(views, other)
        assert drawn == other_drawn
    (step, views, _), *_ = b.epoch(SOURCE, 2, 2, ahead=ahead)
    assert step == 2
    assert np.array_equal(views, whole[2][1])


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_make_together_what_one_makes(ranks):
    one, drawn = batches().make(SOURCE, 1, 1, batches().order(1))
    parts = [batches(rank=r, ranks=ranks).make(SOURCE, 1, 1, batches().order(1)) for r in range(ranks)]
    assert np.array_equal(np.concatenate([views for views, _ in parts]), one)
    assert all(d == drawn for _, d in parts)


def test_an_error_in_the_background_reaches_the_foreground():
    class Broken:
        def sample(self, n, generator):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(batches().epoch(Broken(), 1, ahead=2))


def test_a_part_of_a_batch_is_that_part_of_its_views():
    plan = Plan.draw(view_source("uniform"), 50, (12, 12), np.random.default_rng(5))
    whole, part = make_views(IMAGES, plan), slice(10, 25)
    assert np.array_equal(make_views(IMAGES[part], plan[part]), whole[part])
