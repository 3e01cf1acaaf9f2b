"""Agreement: how far each pilot names unlabelled images as the other pilots do, all taught by the same few labels.

Three labels a class hardly tell pilots apart. Together, pilots name unlabelled images better than each alone, and those
that name them as the others do are the better ones (docs/results.md).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from coviews.policies.factors import Family

Numbers = NDArray[np.float64]

FEWEST = 3  # families: two agree with each other equally
_LEAST = 1e-6  # chance of a class, to a pilot


def agreements(families: Sequence[Family], chances: Sequence[Numbers]) -> Numbers | None:
    """The share of images (pilots,) to which each pilot gives the class that the others give; None for few families.

    The others are the pilots of other families. What they give is the class of the highest geometric mean of their
    chances. Each family counts once, however often it was tried.

    Args:
        families: of the pilots.
        chances: of each pilot, the chance (images, classes) that it gives to each class.
    """
    different = list(dict.fromkeys(families))
    if len(different) < FEWEST or not len(chances[0]):
        return None
    logarithms = np.log(np.stack(chances) + _LEAST)
    place = np.array([different.index(family) for family in families])
    by_family = np.stack([logarithms[place == i].mean(0) for i in range(len(different))])
    others = by_family.sum(0) - by_family
    return np.asarray((others[place].argmax(2) == logarithms.argmax(2)).mean(1))


def weight(labels: NDArray[np.int64]) -> float:
    """What agreement counts in a score, 0..1: half with three labels a class, less with more."""
    each = float(stats.gmean(np.unique(labels, return_counts=True)[1]))
    return 3 / (3 + each)
