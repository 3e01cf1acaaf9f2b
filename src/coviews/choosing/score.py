"""Scores of pilots: how well few labels are recognised, with the uncertainty of that."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from coviews.choosing.model import Observations
from coviews.policies.factors import Family

Numbers = NDArray[np.float64]

_LEAST_ERROR = 0.5  # points: no few labels are surer
_SLOPES = (1.0, 3.0)  # points of accuracy for a point of chance, at least and at most


def observed(families: Sequence[Family], judged: Sequence[Numbers]) -> Observations:
    """The accuracy of each pilot in points, and the covariance (n, n) of their errors as differences.

    Pilots differ less by chance in the chances that probes give to classes than in their hits: so their differences
    are those of the chances, on the scale of the hits. The labelled images are a sample: families that do well on the
    same images are misjudged alike. What all pilots have in common says nothing of their differences and is left out.

    Args:
        families: of the pilots.
        judged: for each pilot, how well each labelled image was recognised (2, images), in 0..1: hits and chances.
    """
    hits, chances = 100 * np.stack(judged, 1)  # (n, images) each
    accuracies, means = hits.mean(1), chances.mean(1)
    apart = means - means.mean()
    slope = np.clip(apart @ accuracies / max(float(apart @ apart), 1e-9), *_SLOPES)
    table = accuracies.mean() + slope * (chances - means.mean())
    n, images = table.shape
    differences = table - table.mean(0)
    centred = differences - differences.mean(1, keepdims=True)
    covariance = centred @ centred.T / (images * max(images - 1, 1))
    return Observations(tuple(families), table.mean(1), covariance + _LEAST_ERROR**2 * np.eye(n))
