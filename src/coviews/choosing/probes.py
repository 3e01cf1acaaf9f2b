"""Accuracies from few labels: each labelled image is judged by others, by ridge regression and by neighbours.

Ridge regression leaves one image out in closed form, so nothing depends on how folds are drawn. Many labels are judged
both all at once and in groups of few: all at once, images that are nearly the same can make all views look equally
good; in groups alone, what needs many labels is not seen. Both together ranked families best (docs/results.md).
"""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]

STRENGTHS = (0.03, 0.1, 0.3, 1.0)  # of the ridge penalty, times the mean eigenvalue; the accuracy is the mean over all
NEIGHBOURS = (1, 3, 5)
GROUP = 10  # images of a class that are judged by each other


def leave_one_out(features: NDArray[np.floating], labels: Labels) -> Numbers:
    """How well each image is classified by all others and by those of its group (n,), in 0..1: the mean of both.

    A class with a single image cannot be recognised: its image counts as wrong.
    """
    x, group = standardised(features), groups(labels)
    alone = np.zeros(len(x))
    for some in (np.flatnonzero(group == g) for g in range(group.max() + 1)):
        alone[some] = _hits(x[some], labels[some])
    return (_hits(x, labels) + alone) / 2 if group.any() else alone


def _hits(x: Numbers, labels: Labels) -> Numbers:
    """How well each image is classified by all others: the mean over probes of both kinds."""
    ridge = [ridge_hits(x, labels, strength) for strength in STRENGTHS]
    near = [neighbour_hits(x, labels, k) for k in NEIGHBOURS if k < len(x)]
    return (np.mean(ridge, 0) + np.mean(near, 0)) / 2


def groups(labels: Labels) -> Labels:
    """The group of each image (n,): at most GROUP images of a class in each, images that follow each other apart.

    A class with fewer images is in fewer groups.
    """
    group = np.zeros(len(labels), np.int64)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        group[rows] = np.arange(len(rows)) % -(-len(rows) // GROUP)
    return group


def standardised(features: NDArray[np.floating]) -> Numbers:
    """Each image's features with length 1, then each feature with mean 0 and standard deviation 1."""
    x = np.asarray(features, np.float64)
    x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    spread = x.std(0)
    return (x - x.mean(0)) / np.where(spread > 1e-9, spread, 1.0)


def ridge_hits(x: Numbers, labels: Labels, strength: float) -> Numbers:
    """Whether ridge regression on all other images names the class of each image, 0 or 1.

    strength: of the penalty, as a multiple of the mean eigenvalue of the features' covariance.
    """
    targets = (labels[:, None] == np.unique(labels)).astype(np.float64)
    targets -= targets.mean(0)
    n, d = x.shape
    penalty = strength * max(float((x**2).sum()) / min(n, d), 1e-12)
    # hat = x (x'x + penalty)^-1 x', by the smaller of the two Gram matrices
    if n <= d:
        gram = x @ x.T
        hat = gram @ np.linalg.inv(gram + penalty * np.eye(n))
    else:
        hat = x @ np.linalg.solve(x.T @ x + penalty * np.eye(d), x.T)
    left_out = np.diag(hat)[:, None]
    scores = (hat @ targets - left_out * targets) / np.maximum(1 - left_out, 1e-9)
    return (np.unique(labels)[scores.argmax(1)] == labels).astype(np.float64)


def neighbour_hits(x: Numbers, labels: Labels, k: int) -> Numbers:
    """Whether the k nearest other images, by cosine, vote for the class of each image, 0 or 1; the nearest counts most.

    A vote weighs exp(similarity / 0.07), as in the kNN of `evaluate`.
    """
    unit = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -np.inf)
    nearest = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(similarity, nearest, 1)
    weights = np.exp((values - values[:, :1]) / 0.07)
    names = np.unique(labels)
    votes = ((labels[nearest][:, :, None] == names) * weights[:, :, None]).sum(1)
    return (names[votes.argmax(1)] == labels).astype(np.float64)
