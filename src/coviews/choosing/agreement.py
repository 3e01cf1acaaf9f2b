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
_FEW = 10  # images that pilots name: agreement on so many counts half


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
    sums = {family: np.zeros_like(chances[0], np.float64) for family in different}
    for family, given in zip(families, chances, strict=True):
        sums[family] += np.log(given + _LEAST) / list(families).count(family)
    total = np.sum(list(sums.values()), axis=0)
    others = {family: (total - of_family).argmax(1) for family, of_family in sums.items()}
    return np.array([(others[f] == given.argmax(1)).mean() for f, given in zip(families, chances, strict=True)])


def weight(labels: NDArray[np.int64], named: int) -> float:
    """What agreement counts in a score, 0..1: half with three labels a class, less with more or with few named images.

    Args:
        labels: (n,)
        named: how many unlabelled images pilots name.
    """
    each = float(stats.gmean(np.unique(labels, return_counts=True)[1]))
    return 3 / (3 + each) * named / (_FEW + named)
