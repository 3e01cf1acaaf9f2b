"""Scores of pilots: how well few labels are recognised, with the uncertainty of that."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from coviews.choosing.model import Observations
from coviews.policies.factors import Family

Numbers = NDArray[np.float64]

_LEAST_ERROR = 0.5  # points: no few labels are surer


def observed(families: Sequence[Family], hits: Sequence[Numbers]) -> Observations:
    """The accuracy of each pilot in points, and the covariance (n, n) of their errors as differences.

    The labelled images are a sample: families that do well on the same images are misjudged alike. What all pilots
    have in common says nothing of their differences and is left out.

    Args:
        families: of the pilots.
        hits: for each pilot, how well each labelled image was recognised, in 0..1.
    """
    table = 100 * np.stack(hits)  # (n, images)
    n, images = table.shape
    differences = table - table.mean(0)
    centred = differences - differences.mean(1, keepdims=True)
    covariance = centred @ centred.T / (images * max(images - 1, 1))
    return Observations(tuple(families), table.mean(1), covariance + _LEAST_ERROR**2 * np.eye(n))
