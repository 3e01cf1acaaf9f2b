"""Scores of pilots: how well few labels are recognised, and signals without labels, each with its uncertainty."""

from collections.abc import Mapping, Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from coviews.choosing.model import Observations
from coviews.policies.factors import Family

Numbers = NDArray[np.float64]

# What a signal says of the accuracy: points for each unit of the signal, from the study in docs/results
WEIGHTS: dict[str, float] = {"rotation": 0.15, "retrieval": 0.15, "rankme": 0.0}
UNSURE = 4.0  # points that signals may be off, as a standard deviation
_SHARED = 0.5  # of that variance: families that are alike are misjudged alike
_UNKNOWN = 100.0  # points: signals say nothing of the level of the accuracy, only of differences
_LEAST_ERROR = 0.5  # points: no few labels are surer


def label_scores(hits: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
    """The accuracy of each pilot in points (n,), and the covariance (n, n) of their errors as differences.

    The labelled images are a sample: families that do well on the same images are misjudged alike. What all pilots
    have in common says nothing of their differences and is left out.

    Args:
        hits: for each pilot, how well each labelled image was recognised, in 0..1.
    """
    table = 100 * np.stack(hits)  # (n, images)
    n, images = table.shape
    differences = table - table.mean(0)
    centred = differences - differences.mean(1, keepdims=True)
    covariance = centred @ centred.T / (images * max(images - 1, 1))
    return table.mean(1), covariance + _LEAST_ERROR**2 * np.eye(n)


def signal_scores(families: Sequence[Family], signals: Sequence[Mapping[str, float]]) -> tuple[Numbers, Numbers]:
    """The accuracy that signals suggest, in points from the mean (n,), and the covariance (n, n) of the errors."""
    total = np.zeros(len(signals))
    for name, weight in WEIGHTS.items():
        values = np.array([np.log(max(s[name], 1e-9)) if name == "rankme" else s[name] for s in signals])
        total += weight * (values - values.mean())
    names = [f.name for f in fields(Family)]
    alike = np.array([[np.mean([getattr(a, n) == getattr(b, n) for n in names]) for b in families] for a in families])
    shared = _SHARED * alike + (1 - _SHARED) * np.eye(len(families))
    return total, UNSURE**2 * shared + _UNKNOWN**2


def observed(
    families: Sequence[Family], hits: Sequence[Numbers] | None, signals: Sequence[Mapping[str, float]]
) -> Observations:
    """All that is known of some pilots: signals, and the recognised labels if there are any."""
    scores, errors = signal_scores(families, signals)
    if hits is None:
        return Observations(tuple(families), scores, errors)
    accuracies, label_errors = label_scores(hits)
    n = len(families)
    joint = np.zeros((2 * n, 2 * n))
    joint[:n, :n], joint[n:, n:] = label_errors, errors
    return Observations((*families, *families), np.concatenate([accuracies, scores]), joint)
