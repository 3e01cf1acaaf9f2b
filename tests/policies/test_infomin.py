"""InfoMin's hand-made augmentation draws what its authors' code draws."""

import numpy as np
import pytest

from coviews import view_source
from coviews.policies.infomin import JITTERED, RANDAUGMENT, SIGNED

DRAWN = view_source("infomin").sample(20_000, np.random.default_rng(0))
OWN = DRAWN.space
NAMES = np.array(OWN.ops)[DRAWN.ops]  # (n, 2, 8)
VALUES = OWN.values[DRAWN.ops, DRAWN.levels]


def test_steps_occur_as_often_as_they_should():
    assert (DRAWN.views, DRAWN.steps, DRAWN.p) == (2, 8, 1.0)
    jittered = NAMES[..., :4] != "Identity"
    assert (jittered.all(-1) == jittered.any(-1)).all()  # all four or none
    assert jittered.mean() == pytest.approx(0.8, abs=0.01)
    assert set(NAMES[..., :4].ravel()) == {*JITTERED, "Identity"}
    assert (NAMES[..., 4] == "Blur").mean() == pytest.approx(0.5, abs=0.01)
    assert (NAMES[..., 5:7] != "Identity").mean() == pytest.approx(0.5, abs=0.01)
    assert (NAMES[..., 7] == "Grayscale").mean() == pytest.approx(0.2, abs=0.01)
    names, counts = np.unique(NAMES[..., 5:7][NAMES[..., 5:7] != "Identity"], return_counts=True)
    assert set(names) == set(RANDAUGMENT)
    assert np.abs(counts / counts.mean() - 1).max() < 0.1


def test_jitter_is_uniform_in_its_range():
    for name in ("Brightness", "Contrast", "Color"):
        values = VALUES[..., :4][NAMES[..., :4] == name]
        assert values.min() == pytest.approx(0.2, abs=0.003)
        assert values.max() == pytest.approx(1.8, abs=0.003)
        assert np.percentile(values, (25, 50, 75)) == pytest.approx((0.6, 1.0, 1.4), abs=0.03)
    hues = VALUES[..., :4][NAMES[..., :4] == "Hue"]
    assert (hues.min(), hues.max()) == pytest.approx((-0.2, 0.2), abs=0.002)


def test_randaugment_is_near_the_largest_magnitude():
    names, values = NAMES[..., 5:7], VALUES[..., 5:7]
    for name in SIGNED:
        some = values[names == name]
        largest = OWN.values[OWN.index(name)].max()
        assert np.abs(some).min() > 0.75 * largest
        assert (np.abs(some) > 0.999 * largest).mean() == pytest.approx(0.5, abs=0.06)  # what is beyond is clipped
        assert (some > 0).mean() == pytest.approx(0.5, abs=0.06)
    for name in ("Brightness", "Contrast", "Color", "Sharpness"):
        assert 1.5 < values[names == name].min() < values[names == name].max() == 1.9
    assert set(np.trunc(values[names == "Posterize"])) == {3, 4}
