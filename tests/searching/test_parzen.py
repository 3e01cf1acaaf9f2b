"""The search over subpolicies: better than chance on a problem whose answer is known."""

import numpy as np
import pytest

from coviews import CoviewsError
from coviews.searching.parzen import FIRST, Trial, _inverse, _kernels, _log_density, propose

CHOICES, SHAPE = 6, (2, 2)


def loss(trial):
    """Least where every operation is the third, applied always, at the level 0.2."""
    return float(np.mean((trial.ops != 2) + np.abs(1 - trial.probabilities) + np.abs(trial.levels - 0.2)))


def searched(seed, count, guided=True):
    trials, losses = [], []
    for i in range(count):
        generator = np.random.default_rng([seed, i])
        known = (trials, losses) if guided else ([], [])
        trials.append(propose(*known, generator, choices=CHOICES, shape=SHAPE))
        losses.append(loss(trials[-1]))
    return trials, losses


def test_it_finds_what_is_known_to_be_good():
    guided, by_chance = ([min(searched(seed, 120, guided)[1]) for seed in range(3)] for guided in (True, False))
    assert max(guided) < min(by_chance)
    assert np.mean(guided) < 0.6 * np.mean(by_chance)
    late = searched(0, 120)[1][-30:]
    assert np.mean(late) < 0.6 * np.mean(searched(0, 120, guided=False)[1])


def test_the_same_draws_give_the_same_trials():
    one, other = (searched(3, FIRST + 5)[0] for _ in range(2))
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a.ops, b.ops)
        assert np.array_equal(a.probabilities, b.probabilities)
        assert np.array_equal(a.levels, b.levels)
    assert one[-1].ops.shape == one[-1].levels.shape == SHAPE
    assert 0 <= one[-1].levels.min() <= one[-1].levels.max() <= 1


def test_densities_have_the_mass_1():
    values = np.array([0.0, 0.1, 0.11, 0.9])
    at = (np.arange(20_000) + 0.5) / 20_000
    assert np.exp(_log_density(at, *_kernels(values))).mean() == pytest.approx(1, abs=1e-6)
    assert _inverse(np.array([0.5]))[0] == 0


def test_a_trial_without_a_loss_is_an_error():
    trial = Trial(np.zeros(SHAPE, int), np.zeros(SHAPE), np.zeros(SHAPE))
    with pytest.raises(CoviewsError, match="need a loss each"):
        propose([trial], [], np.random.default_rng(0), choices=CHOICES, shape=SHAPE)
