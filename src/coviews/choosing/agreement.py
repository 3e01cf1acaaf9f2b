"""Agreement: how far each pilot names unlabelled images as the other pilots do, all taught by the same few labels.

Three labels a class hardly tell pilots apart. Together, pilots name unlabelled images better than each alone, and those
that name them as the others do are the better ones.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Numbers = NDArray[np.float64]

FEWEST = 3  # pilots: two agree with each other equally
_LEAST = 1e-6  # chance of a class, to a pilot


def agreements(chances: Sequence[Numbers]) -> Numbers | None:
    """The share of images (pilots,) to which each pilot gives the class that the others give; None for few pilots.

    What the others give is the class of the highest geometric mean of their chances.

    Args:
        chances: of each pilot, the chance (images, classes) that it gives to each class.
    """
    if len(chances) < FEWEST:
        return None
    logarithms = np.log(np.stack(chances) + _LEAST)
    others = logarithms.sum(0) - logarithms
    return np.asarray((others.argmax(2) == logarithms.argmax(2)).mean(1))


def weight(labels: NDArray[np.int64]) -> float:
    """What agreement counts in a score, 0..1: half with three labels a class, less with more."""
    each = float(stats.gmean(np.unique(labels, return_counts=True)[1]))
    return 3 / (3 + each)
