"""Where views are cut out, and how they are turned: the distributions that are asked for."""

import numpy as np
import pytest
from scipy import stats

from coviews import CoviewsError, Placement
from coviews.ops.placement import Placements


def draw(n=4000, views=2, size=(224, 224), seed=0, **settings) -> Placements:
    return Placement(**settings).draw(n, views, 1, size, np.random.default_rng(seed))


def sides(placements):
    """Width and height of every crop (n, V)."""
    left, top, right, bottom = np.moveaxis(placements.boxes, -1, 0)
    return right - left, bottom - top


def areas(placements, size=(224, 224)):
    width, height = sides(placements)
    return width * height / (size[0] * size[1])


@pytest.mark.parametrize("crop", ["random", "joint"])
@pytest.mark.parametrize("size", [(224, 224), (100, 260), (7, 5), (1, 1)])
def test_boxes_lie_within_the_image(crop, size):
    left, top, right, bottom = np.moveaxis(draw(2000, 4, size, crop=crop).boxes, -1, 0)
    assert left.min() == top.min() == 0
    assert right.max() == size[1]
    assert bottom.max() == size[0]
    assert (right > left).all()
    assert (bottom > top).all()


def test_random_crops_have_the_area_and_aspect_asked_for():
    placements = draw()
    area, (width, height) = areas(placements), sides(placements)
    assert 0.19 < area.min() < 0.22
    assert area.max() > 0.95
    # nearly even over the area (large boxes of extreme aspect do not fit), and on both sides of a square
    assert 0.5 < np.mean(area < 0.6) < 0.65
    aspect = width / height
    assert 0.74 < aspect.min() < 0.78
    assert 1.28 < aspect.max() < 1.35
    assert abs(np.mean(aspect > 1) - 0.5) < 0.03


def test_random_crops_that_always_fit_are_uniform_in_area_and_place():
    """With an area of at most a half, every aspect fits: nothing is drawn again."""
    placements = draw(area=(0.1, 0.5), size=(2000, 2000), ratio=(0.8, 1.25))
    area = areas(placements, (2000, 2000)).ravel()
    assert stats.kstest(area, stats.uniform(0.1, 0.4).cdf).pvalue > 0.01
    width, height = sides(placements)
    for start, side in ((placements.boxes[..., 0], width), (placements.boxes[..., 1], height)):
        share = (start + 0.5) / (2000 - side + 1)
        assert stats.kstest(share.ravel(), "uniform").pvalue > 0.01
    assert stats.kstest(np.log(width / height).ravel(), stats.uniform(np.log(0.8), 2 * np.log(1.25)).cdf).pvalue > 0.01


@pytest.mark.parametrize("area", [(0.2, 0.7), (0.05, 0.6)])
def test_the_log_ratio_of_joint_areas_is_uniform(area):
    # so small and square that all boxes fit, and so many pixels that rounding does not matter
    settings = {"crop": "joint", "area": area, "ratio": (0.9, 1 / 0.9), "size": (4000, 4000)}
    first, second = areas(draw(**settings), (4000, 4000)).T
    width = np.log(area[1] / area[0])
    ratio = np.log(second / first)
    assert stats.kstest(ratio, stats.uniform(-width, 2 * width).cdf).pvalue > 0.01
    for share in (first, second):
        assert area[0] * 0.999 < share.min()
        assert share.max() < area[1] * 1.001
    # where the smaller one lies is uniform too, in what the ratio leaves
    smaller = np.log(np.minimum(first, second) / area[0]) / (width - np.abs(ratio))
    assert stats.kstest(smaller, "uniform").pvalue > 0.01
    # two random crops differ less
    one, other = areas(draw(**{**settings, "crop": "random"}), (4000, 4000)).T
    assert np.abs(np.log(one / other)).mean() < 0.8 * np.abs(ratio).mean()


def test_further_views_of_a_joint_crop_are_random_ones():
    joint, random = draw(500, 4, crop="joint"), draw(500, 4)
    assert np.array_equal(joint.boxes[:, 2:], random.boxes[:, 2:])
    assert not np.array_equal(joint.boxes[:, :2], random.boxes[:, :2])
    assert np.array_equal(joint.flips, random.flips)


def test_a_very_long_image_gets_the_largest_crop_that_fits_in_the_middle():
    placements = draw(50, 2, (4, 400), area=(0.9, 1.0))
    assert (placements.boxes == (197, 0, 202, 4)).all()


def test_without_a_crop_views_show_the_whole_image():
    assert (draw(100, 3, (20, 30), crop="none").boxes == (0, 0, 30, 20)).all()


@pytest.mark.parametrize("p", [0.0, 0.25, 0.5, 1.0])
def test_flips_and_turns_have_their_probability(p):
    n = 8000
    placements = draw(n // 2, flip=p, flip_vertical=p, quarter_turns=p)
    turned = placements.turns > 0
    for happened in (placements.flips, placements.vertical_flips, turned):
        assert stats.binomtest(int(happened.sum()), n, p).pvalue > 0.001
    if p:
        counts = np.bincount(placements.turns[turned], minlength=4)[1:]
        assert stats.chisquare(counts).pvalue > 0.001
    if 0 < p < 1:  # independent of each other and of the other view
        flips, vertical = placements.flips, placements.vertical_flips
        for one, other in ((flips, vertical), (flips, turned), (flips[:, 0], flips[:, 1]), (vertical, turned)):
            assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.05


def test_a_seed_decides_and_one_choice_does_not_disturb_another():
    for one, other in zip(draw(64, seed=3), draw(64, seed=3), strict=True):
        assert np.array_equal(one, other)
    plain, turned = draw(64), draw(64, flip=0.9, quarter_turns=0.5, flip_vertical=0.3)
    assert np.array_equal(plain.boxes, turned.boxes)
    assert np.array_equal(plain.spots, turned.spots)
    assert not np.array_equal(plain.boxes, draw(64, seed=1).boxes)


def test_each_view_takes_one_number_of_the_generator():
    """What a placement asks for does not change what is drawn after it."""
    states = []
    for settings in ({}, {"crop": "none"}, {"crop": "joint", "quarter_turns": 1.0}):
        generator = np.random.default_rng(0)
        Placement(**settings).draw(30, 2, 3, (32, 32), generator)
        states.append(generator.random())
    assert len(set(states)) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"crop": "jiont"}, "did you mean 'joint'"),
        ({"area": (0, 1)}, "crop's area"),
        ({"area": (0.5, 0.2)}, "crop's area"),
        ({"area": (0.5, 1.1)}, "crop's area"),
        ({"area": (float("nan"), 1)}, "crop's area"),
        ({"ratio": (0, 1)}, "aspect"),
        ({"ratio": (2, 1)}, "aspect"),
        ({"ratio": (1, float("inf"))}, "aspect"),
        ({"flip": 1.5}, "probability of a flip"),
        ({"flip_vertical": -0.1}, "probability of a vertical flip"),
        ({"quarter_turns": float("nan")}, "probability of a turn"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(CoviewsError, match=message) as error:
        Placement(**settings)
    assert "\n" not in str(error.value)
