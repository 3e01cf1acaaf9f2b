"""A search over lists of subpolicies by tree-structured Parzen estimators, from the losses of earlier trials.

Bergstra et al., Algorithms for Hyper-Parameter Optimization, NeurIPS 2011; Fast AutoAugment and SelfAugment search with
it. Earlier trials are split into a few good ones and the rest. Every number of a new trial (an operation, a
probability, a level) is chosen by itself: of some candidates that the density of the good trials draws, the one that is
most likely under the good ones compared with the rest.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError

FIRST = 20  # trials at random before the densities are used
CANDIDATES = 24
MOST_GOOD = 25  # trials
_DIGITS = 4  # decimals of probabilities and levels: a file has no more
_PRIOR = 1.0  # the weight of the uniform density beside the trials, each of which has 1

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trial:
    """Some subpolicies: what stands at `[i, s]` belongs to step s of subpolicy i."""

    ops: NDArray[np.int64]  # (subpolicies, steps), of `choices` operations
    probabilities: Numbers  # (subpolicies, steps), 0..1
    levels: Numbers  # (subpolicies, steps), 0..1


def propose(
    trials: Sequence[Trial],
    losses: Sequence[float],
    generator: np.random.Generator,
    *,
    choices: int,
    shape: tuple[int, int],
) -> Trial:
    """The next trial; the same trials and the same state of the generator give the same.

    Args:
        trials: all so far.
        losses: of each, the lower the better.
        generator: every draw comes from it.
        choices: how many operations there are.
        shape: the numbers of subpolicies and steps.
    """
    if len(trials) != len(losses):
        raise CoviewsError(f"{len(trials)} trials need a loss each, not {len(losses)}")
    if len(trials) < FIRST:
        return Trial(generator.integers(0, choices, shape), *(generator.random((2, *shape)).round(_DIGITS)))
    order = np.argsort(losses, kind="stable")
    good = min(math.ceil(0.25 * math.sqrt(len(trials))), MOST_GOOD)
    all_ops, probabilities, levels = (
        np.stack([getattr(trial, name) for trial in trials]).reshape(len(trials), -1)[order]
        for name in ("ops", "probabilities", "levels")
    )
    count = shape[0] * shape[1]
    ops = [_choice(all_ops[:good, i], all_ops[good:, i], choices, generator) for i in range(count)]
    numbers = [
        [_number(values[:good, i], values[good:, i], generator) for i in range(count)]
        for values in (probabilities, levels)
    ]
    return Trial(np.array(ops).reshape(shape), *(np.array(row).round(_DIGITS).reshape(shape) for row in numbers))


def _choice(good: NDArray[np.int64], rest: NDArray[np.int64], choices: int, generator: np.random.Generator) -> int:
    """One of several things."""
    good_density, rest_density = (
        (np.bincount(drawn, minlength=choices) + _PRIOR / choices) / (len(drawn) + _PRIOR) for drawn in (good, rest)
    )
    candidates = generator.choice(choices, CANDIDATES, p=good_density)
    return int(candidates[(good_density[candidates] / rest_density[candidates]).argmax()])


def _number(good: Numbers, rest: Numbers, generator: np.random.Generator) -> float:
    """A number of 0..1."""
    means, widths = _kernels(good)
    which = generator.integers(0, len(means), CANDIDATES)
    # truncated to 0..1, by the inverse of the distribution function
    low, high = (_below((edge - means[which]) / widths[which]) for edge in (0.0, 1.0))
    quantiles = low + (high - low) * generator.random(CANDIDATES)
    candidates = np.clip(means[which] + widths[which] * _inverse(quantiles), 0.0, 1.0)
    ratio = _log_density(candidates, means, widths) - _log_density(candidates, *_kernels(rest))
    return float(candidates[ratio.argmax()])


def _kernels(values: Numbers) -> tuple[Numbers, Numbers]:
    """The means and widths of the Gaussians of a density: one about each value, and a wide one as the prior.

    A Gaussian is as wide as the larger distance to its neighbours, but not narrower than a share of the whole range.
    """
    means = np.append(values, 0.5)
    order = np.argsort(means, kind="stable")
    ends = np.concatenate([[0.0], means[order], [1.0]])
    widths = np.empty(len(means))
    widths[order] = np.maximum(np.diff(ends)[:-1], np.diff(ends)[1:])
    widths = np.clip(widths, 1 / min(100, 1 + len(means)), 1.0)
    widths[-1] = 1.0  # of the prior
    return means, widths


def _log_density(at: Numbers, means: Numbers, widths: Numbers) -> Numbers:
    """The logarithm of the density of a mixture of Gaussians that are truncated to 0..1, at some points (n,)."""
    mass = _below((1.0 - means) / widths) - _below(-means / widths)
    z = (at[:, None] - means) / widths
    each = np.exp(-0.5 * z**2) / (widths * mass * math.sqrt(2 * math.pi))
    return np.log(each.mean(1) + 1e-300)


def _below(z: Numbers) -> Numbers:
    """The distribution function of the standard normal."""
    from scipy.special import ndtr

    return np.asarray(ndtr(z))


def _inverse(quantiles: Numbers) -> Numbers:
    """The inverse of `_below`."""
    from scipy.special import ndtri

    return np.asarray(ndtri(quantiles))
