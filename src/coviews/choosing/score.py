"""Scores of pilots: how well few labels are recognised, and how far pilots agree; with the uncertainty of that."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from coviews.choosing.model import Observations
from coviews.policies.factors import Family

Numbers = NDArray[np.float64]

_LEAST_ERROR = 0.5  # points: no few labels are surer
_AGREEMENT_ERROR = 1.5  # points: how far agreement misjudges a pilot
_SLOPES = (1.0, 3.0)  # points of accuracy for a point of chance, at least and at most; of agreement, at most


def observed(
    families: Sequence[Family], judged: Sequence[Numbers], agreements: Numbers | None = None, weight: float = 0.0
) -> Observations:
    """The accuracy of each pilot in points, and the covariance (n, n) of their errors as differences.

    Pilots differ less by chance in the chances that probes give to classes than in their hits: so their differences
    are those of the chances, on the scale of the hits. The labelled images are a sample: families that do well on the
    same images are misjudged alike. What all pilots have in common says nothing of their differences and is left out.

    Args:
        families: of the pilots.
        judged: for each pilot, how well each labelled image was recognised (2, images), in 0..1: hits and chances.
        agreements: how far each pilot (n,) names unlabelled images as the others do, in 0..1. It tells pilots apart
            with few labels, but not how many points apart they are: that is taken from the labels.
        weight: of the agreements in the score, 0..1.
    """
    hits, chances = 100 * np.stack(judged, 1)  # (n, images) each
    accuracies, means = hits.mean(1), chances.mean(1)
    apart = means - means.mean()
    slope = np.clip(apart @ accuracies / max(float(apart @ apart), 1e-9), *_SLOPES)
    table = accuracies.mean() + slope * (chances - means.mean())
    n, images = table.shape
    differences = table - table.mean(0)
    centred = differences - differences.mean(1, keepdims=True)
    scores, errors = table.mean(1), centred @ centred.T / (images * max(images - 1, 1)) + _LEAST_ERROR**2 * np.eye(n)
    if agreements is not None:
        apart = 100 * (agreements - agreements.mean())
        slope = min(scores.std() / max(apart.std(), 1e-9), _SLOPES[1])
        scores = (1 - weight) * scores + weight * (accuracies.mean() + slope * apart)
        errors = (1 - weight) ** 2 * errors + weight**2 * _AGREEMENT_ERROR**2 * np.eye(n)
    return Observations(tuple(families), scores, errors)
