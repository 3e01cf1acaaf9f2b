"""The bounded reward against the paper's formula, one number at a time."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coviews import CoviewsError
from coviews.searching.reward import BoundedReward

CEILING = math.log(2 * 128 - 1)


def slow(loss, reference, ceiling, bound, th, b):
    """The formula as it is printed."""
    l = (loss - reference) / (ceiling - reference) if bound == "relative" else loss / reference  # noqa: E741
    if bound == "capped":
        th = min(th, max(1.0, (reference + 0.69 * (ceiling - reference)) / reference))
    if l < th:
        return l, False
    return -(th / b) * (l - (th + b)), True


@given(
    losses=st.lists(st.floats(0, 20), min_size=1, max_size=20),
    reference=st.floats(0.5, 5.5),
    bound=st.sampled_from(["capped", "ratio", "relative"]),
    share=st.floats(0.01, 0.99),
    b=st.floats(1e-5, 1e5),
)
def test_it_is_the_formula(losses, reference, bound, share, b):
    th = share if bound == "relative" else 1 + share
    reward = BoundedReward(bound, th, b)
    expected = [slow(x, reference, CEILING, bound, th, b) for x in losses]
    np.testing.assert_allclose(reward(losses, reference, CEILING), [r for r, _ in expected], rtol=1e-12, atol=1e-12)
    made = reward.over(losses, reference, CEILING)
    close = np.abs(reward.hardness(losses, reference, CEILING) - reward.limit(reference, CEILING)) < 1e-9
    assert (made | close).tolist() == (np.array([over for _, over in expected]) | close).tolist()


def loss_at(reward, hardness, reference):
    return reference + hardness * (CEILING - reference) if reward.bound == "relative" else hardness * reference


@pytest.mark.parametrize("bound", ["capped", "ratio", "relative"])
@pytest.mark.parametrize("b", [1e-5, 0.2, 1e5])
def test_it_is_continuous_at_the_bound_zero_beyond_it_and_then_negative(bound, b):
    reward = BoundedReward(bound, tolerance=b)
    th, near = reward.limit(3.0, CEILING), 1e-9
    at = [loss_at(reward, x, 3.0) for x in (th - near, th + near, th + b, th + 2 * b)]
    below, above, zero, beyond = reward(at, 3.0, CEILING)
    assert below == pytest.approx(th, abs=1e-8)
    assert above == pytest.approx(th, abs=th / b * 1e-8 + 1e-8)
    assert zero == pytest.approx(0, abs=1e-6)
    assert beyond == pytest.approx(-th, abs=1e-6)


def test_the_shapes_of_the_papers_figure():
    hard = 3.0 * np.array([1.0, 1.2, 1.31, 1.4, 1.6])
    steep, mild, flat = (BoundedReward("ratio", tolerance=b)(hard, 3.0, CEILING) for b in (1e-5, 0.2, 1e5))
    np.testing.assert_allclose(steep[:2], [1.0, 1.2])
    assert (steep[2:] < -1000).all()
    np.testing.assert_allclose(mild, [1.0, 1.2, 1.235, 0.65, -0.65])
    np.testing.assert_allclose(flat, [1.0, 1.2, 1.3, 1.3, 1.3], atol=1e-4)


def test_the_relative_bound_means_the_same_at_every_reference():
    reward = BoundedReward("relative")
    for reference in (0.5, 3.0, 5.0):
        losses = [reference, CEILING, loss_at(reward, 0.5, reference)]
        assert reward.hardness(losses, reference, CEILING) == pytest.approx([0, 1, 0.5])
        assert reward.over(losses, reference, CEILING).tolist() == [False, True, False]
        assert not reward.empty(reference, CEILING)


def test_the_ratio_bound_is_empty_early_in_training():
    reward = BoundedReward("ratio")
    np.testing.assert_allclose(CEILING / 1.3, 4.26, atol=0.01)
    assert not reward.empty(4.2, CEILING)
    assert reward.empty(4.3, CEILING)
    assert not reward.over(CEILING, 4.3, CEILING)
    text = reward.empty_message(4.3, CEILING)
    assert 'bound="capped"' in text
    assert "1.3 x the reference loss 4.3" in text
    assert len(text.splitlines()) <= 2


def test_the_capped_bound_is_the_ratio_where_that_is_low_and_never_empty():
    capped, ratio = BoundedReward(), BoundedReward("ratio")
    losses = np.linspace(1, 7, 50)
    np.testing.assert_array_equal(capped(losses, 3.0, CEILING), ratio(losses, 3.0, CEILING))
    for reference in (4.0, 5.0, 5.5):
        assert not capped.empty(reference, CEILING)
        assert capped.over(CEILING, reference, CEILING)
        assert not capped.over(reference, reference, CEILING)
        assert capped.limit(reference, CEILING) * reference == pytest.approx(reference + 0.69 * (CEILING - reference))


def test_a_loss_that_is_not_finite_stays_visible():
    for bound in ("capped", "ratio", "relative"):
        made = BoundedReward(bound)([1.0, math.nan, math.inf], 3.0, CEILING)
        assert np.isfinite(made).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"threshold": 1.0}, "above 1, not 1.0"),
        ({"threshold": 0.5}, "above 1, not 0.5"),
        ({"threshold": math.nan}, "above 1, not nan"),
        ({"threshold": math.inf}, "above 1, not inf"),
        ({"bound": "relative", "threshold": 0.0}, "between 0"),
        ({"bound": "relative", "threshold": 1.0}, "between 0"),
        ({"bound": "relative", "threshold": 1.3}, "between 0"),
        ({"tolerance": 0.0}, "above 0, not 0.0"),
        ({"tolerance": -1.0}, "above 0, not -1.0"),
        ({"tolerance": math.nan}, "above 0, not nan"),
        ({"bound": "ratoi"}, "did you mean 'ratio'"),
    ],
)
def test_settings_that_make_no_sense(options, says):
    with pytest.raises(CoviewsError, match=says):
        BoundedReward(**options)


@pytest.mark.parametrize("reference", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("bound", ["capped", "ratio", "relative"])
def test_references_that_make_no_sense(bound, reference):
    with pytest.raises(CoviewsError, match="reference loss of the reward must be a number above 0"):
        BoundedReward(bound)([1.0], reference, CEILING)


def test_a_reference_at_the_ceiling_has_no_relative_bound():
    with pytest.raises(CoviewsError, match="tells no pair from another"):
        BoundedReward("relative")([1.0], CEILING, CEILING)
    # the capped bound then lies at the reference itself: nothing harder than that is worth anything
    above, at, below = BoundedReward()([6.0, 5.6, 5.0], 5.6, CEILING)
    assert above < below < at
    assert BoundedReward("ratio")([CEILING], CEILING, CEILING) == 1.0
