"""View sources for images that do not allow all operations."""

import numpy as np
import pytest

from coviews import CoviewsError, Policy, space, view_source
from coviews.policies.fixed import (
    FIXED,
    SourceDescription,
    describe_source,
    fitted_source,
    operations_left_out,
    read_source,
)
from coviews.policies.named import named_source


@pytest.mark.parametrize("name", FIXED)
def test_a_fitted_source_draws_nothing_that_does_not_fit(name):
    source = view_source(name)
    fitted = fitted_source(source, 6, np.uint16)
    drawn = fitted.sample(200, np.random.default_rng(0))
    assert not drawn.space.unfit(6, np.uint16)
    assert np.unique(drawn.ops).size > 2
    assert "Hue" in operations_left_out(source, fitted) or "Hue" not in source.space.ops
    assert fitted_source(source, 3, np.uint8) is source
    again = read_source(SourceDescription(**describe_source(fitted)), fitted.space)
    assert np.array_equal(
        again.sample(50, np.random.default_rng(1)).ops, fitted.sample(50, np.random.default_rng(1)).ops
    )


def test_the_recipe_without_colours_is_brightness_and_contrast():
    fitted = fitted_source(view_source("simclr"), 6, np.uint16)
    drawn = fitted.sample(1000, np.random.default_rng(0))
    assert drawn.space.ops == ("Brightness", "Contrast", "Identity")
    assert drawn.ops.shape == (1000, 2, 2)
    shares = np.bincount(drawn.ops.ravel(), minlength=3) / drawn.ops.size
    assert shares == pytest.approx([0.4, 0.4, 0.2], abs=0.03)


def test_only_operations_that_the_views_have_are_called_left_out():
    recipe = named_source("recipe")
    assert operations_left_out(recipe, fitted_source(recipe, 1, np.uint16)) == ["Hue"]  # not Equalize or Posterize


def test_a_learned_policy_is_not_cut():
    policy = Policy.untrained(space("all"), np.random.default_rng(0), kind="coviews")
    with pytest.raises(CoviewsError, match=r"6 channels of 16 bits do not allow \(AutoContrast, .*Hue"):
        fitted_source(policy, 6, np.uint16)
    assert fitted_source(policy, 3, np.uint8) is policy
