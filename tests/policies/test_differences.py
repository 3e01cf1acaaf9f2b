"""The differences between two views, against what the plan says."""

import numpy as np

from coviews.methods.keeping import GROUPS
from coviews.ops.placement import Placement
from coviews.ops.plan import Plan
from coviews.ops.space import space
from coviews.policies.differences import Difference, StandardDifferences, pair_differences
from coviews.policies.factors import family
from coviews.policies.fixed import view_source
from coviews.policies.subpolicy import Subpolicies

RNG = np.random.default_rng


def one_pair(text, **changes):
    """The plan of one image of 20 x 10 pixels (height, width)."""
    operations = Subpolicies.from_texts(text, space("all"))
    plan = Plan.draw(operations, 1, (20, 10), RNG(0), Placement(crop="none", flip=0))
    return plan if not changes else Plan(**{**vars(plan), **{k: np.array(v) for k, v in changes.items()}})


def numbers(plan):
    """Each difference that is not 0, besides that of turns."""
    found = {d.name: x[0].round(9).tolist() for d, x in pair_differences(plan).items()}
    return {name: values for name, values in found.items() if any(values) and name != "turned"}


def test_levels_are_shares_of_their_range():
    # 0.1 .. 1.9 and -30 .. 30; Identity leaves brightness at 1, and Invert has no level
    plan = one_pair("Brightness 1.9, Rotate -30 deg | Identity, Rotate 30 deg")
    assert numbers(plan) == {"Brightness": [0.5], "Rotate": [-1.0]}
    assert numbers(one_pair("Identity, Invert | Solarize 0, Hue 0.1")) == {
        "Invert": [1.0], "Solarize": [1.0], "Hue": [-0.5]
    }  # fmt: skip
    assert numbers(one_pair("Color 1.9, Color 1.9 | Blur 2, Identity")) == {"Color": [1.0], "Blur": [-1.0]}


def test_crops_flips_and_turns():
    plan = one_pair("Identity | Identity", boxes=[[[0, 0, 5, 20], [0, 10, 10, 20]]])
    assert numbers(plan) == {"position": [-0.25, -0.25], "size": [-0.693147181, 0.693147181]}
    plan = one_pair("Identity | Identity", flips=[[True, False]], vertical_flips=[[True, True]])
    assert numbers(plan) == {"mirrored": [1.0]}
    plan = one_pair("Identity | Identity", sizes=((10, 10),) * 2, turns=[[3, 2]])
    assert pair_differences(plan)[Difference("turned", "flip")].round(9).tolist() == [[0.0, 1.0]]


def test_standardised_by_the_views_at_the_start():
    source, placement = family("recipe").source(), family("recipe").placement

    def draw(n, seed):
        return Plan.draw(source, n, (32, 32), RNG(seed), placement)

    differences = StandardDifferences(draw(4096, 0), GROUPS)
    assert [d.name for d in differences.each] == [
        "Brightness", "Contrast", "Saturation", "Hue", "Grayscale", "position", "position", "size", "size", "mirrored",
    ]  # fmt: skip
    values = differences.of(draw(4096, 1))
    assert values.dtype == np.float32
    np.testing.assert_allclose(values.mean(0), 0, atol=0.08)
    np.testing.assert_allclose(values.std(0), 1, atol=0.08)
    assert [d.group for d in StandardDifferences(draw(512, 0), ("crop",)).each] == ["crop"] * 4
    assert not StandardDifferences(draw(512, 0), ("other",)).each


def test_a_plan_of_another_space_has_zeros_for_what_it_does_not_have():
    fine = Plan.draw(view_source("random"), 2048, (32, 32), RNG(0))
    differences = StandardDifferences(fine, ("colour", "other"))
    other = Plan.draw(view_source("simclr"), 8, (32, 32), RNG(1))
    values = dict(zip([d.name for d in differences.each], differences.of(other).T, strict=True))
    assert np.ptp(values["Rotate"]) == 0
    assert np.ptp(values["Brightness"]) > 0


def test_chosen_views_of_a_plan():
    plan = Plan.draw(view_source("uniform", views=4), 3, (8, 8), RNG(0))
    picked = np.array([[0, 3], [2, 1], [1, 2]])
    pairs = plan.with_views(picked)
    for image, (first, second) in enumerate(picked):
        for view, chosen in enumerate((first, second)):
            expected = plan[image : image + 1].of_views(chosen, chosen + 1)
            assert pairs[image : image + 1].of_views(view, view + 1) == expected
