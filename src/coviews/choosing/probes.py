"""Accuracies from few labels: each labelled image is judged by others, by ridge regression and by neighbours.

Ridge regression leaves one image out in closed form, so nothing depends on how folds are drawn. Many labels are judged
both all at once and in groups of few: all at once, images that are nearly the same can make all views look equally
good; in groups alone, what needs many labels is not seen. Both together ranked families best (docs/results.md).

The share of images that probes recognise is an accuracy, which people know. But ten labels a class are few to count by:
the chance that probes give to the class of each image tells two encoders apart with fewer of them.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]

STRENGTHS = (0.03, 0.1, 0.3, 1.0)  # of the ridge penalty, times the mean eigenvalue; the accuracy is the mean over all
NEIGHBOURS = (1, 3, 5)
WIDTHS = (0.05, 0.1, 0.2)  # of similarity, over which neighbours are weighed for chances
TEMPERATURES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)  # times the scores' spread
GROUP = 10  # images of a class that are judged by each other
_LEAST_SHARE = 1e-3  # of neighbours' votes, that each class has


def leave_one_out(features: NDArray[np.floating], labels: Labels) -> Numbers:
    """How well each image is classified by all others and by those of its group (2, n), in 0..1: the mean of both.

    The first row is the share of probes that name its class, the second the chance that they give to it. A class with
    a single image cannot be recognised: its image counts as wrong.
    """
    x, group = standardised(features), groups(labels)
    alone = np.zeros((2, len(x)))
    for some in (np.flatnonzero(group == g) for g in range(group.max() + 1)):
        alone[:, some] = _judged(x[some], labels[some])
    return (_judged(x, labels) + alone) / 2 if group.any() else alone


def _judged(x: Numbers, labels: Labels) -> Numbers:
    """Hits and chances of each image (2, n) by all others: the mean over probes of both kinds."""
    scores = [ridge_scores(x, labels, strength) for strength in STRENGTHS]
    hits = np.mean([_named(s, labels) for s in scores], 0)
    hits += np.mean([neighbour_hits(x, labels, k) for k in NEIGHBOURS if k < len(x)], 0)
    chances = np.mean([chance(s, labels) for s in scores], 0)
    chances += np.mean([chance(neighbour_scores(x, labels, width), labels) for width in WIDTHS], 0)
    return np.stack([hits, chances]) / 2


def chance(scores: Numbers, labels: Labels) -> Numbers:
    """The chance (n,) that scores (n, classes) give to each image's class.

    It is a softmax; its temperature is the one by which the labels are most likely.
    """
    own = np.searchsorted(np.unique(labels), labels)[:, None]
    given = softmax(scores / _temperature(scores, own), axis=1)
    return np.asarray(np.take_along_axis(given, own, 1)[:, 0])


def _temperature(scores: Numbers, own: Labels) -> float:
    """The temperature by which the classes (n, 1) are most likely."""
    spread = float(scores.std()) + 1e-12

    def likelihood(times: float) -> float:
        given = np.take_along_axis(softmax(scores / (times * spread), axis=1), own, 1)
        return float(np.log(np.maximum(given, 1e-9)).mean())

    return max(TEMPERATURES, key=likelihood) * spread


def class_chances(features: NDArray[np.floating], labels: Labels, others: NDArray[np.floating]) -> Numbers:
    """The chance (N, classes) that ridge regression on labelled images gives to each class, for others.

    Args:
        features: (n, D), of the labelled images.
        labels: (n,)
        others: (N, D), the features of the others.
    """
    n, x = len(labels), standardised(np.concatenate([features, others]))
    own = np.searchsorted(np.unique(labels), labels)[:, None]
    targets = (own == np.arange(own.max() + 1)).astype(np.float64)
    targets -= targets.mean(0)
    known, unknown = x[:n], x[n:]
    chances = np.zeros((len(unknown), targets.shape[1]))
    for strength in STRENGTHS:
        penalty = _penalty(known, strength)
        if n <= x.shape[1]:
            weights = known.T @ np.linalg.solve(known @ known.T + penalty * np.eye(n), targets)
        else:
            weights = np.linalg.solve(known.T @ known + penalty * np.eye(x.shape[1]), known.T @ targets)
        temperature = _temperature(ridge_scores(known, labels, strength), own)
        chances += softmax(unknown @ weights / temperature, axis=1) / len(STRENGTHS)
    return chances


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


def ridge_scores(x: Numbers, labels: Labels, strength: float) -> Numbers:
    """What ridge regression on all other images gives to each class (n, classes), for each image.

    strength: of the penalty, as a multiple of the mean eigenvalue of the features' covariance.
    """
    targets = (labels[:, None] == np.unique(labels)).astype(np.float64)
    targets -= targets.mean(0)
    n, d = x.shape
    penalty = _penalty(x, strength)
    # hat = x (x'x + penalty)^-1 x', by the smaller of the two Gram matrices
    if n <= d:
        gram = x @ x.T
        hat = gram @ np.linalg.inv(gram + penalty * np.eye(n))
    else:
        hat = x @ np.linalg.solve(x.T @ x + penalty * np.eye(d), x.T)
    left_out = np.diag(hat)[:, None]
    return np.asarray((hat @ targets - left_out * targets) / np.maximum(1 - left_out, 1e-9))


def _penalty(x: Numbers, strength: float) -> float:
    """As a multiple of the mean eigenvalue of the features' covariance."""
    return strength * max(float((x**2).sum()) / min(x.shape), 1e-12)


def _named(scores: Numbers, labels: Labels) -> Numbers:
    """Whether the class of each image has the highest of the scores (n, classes), 0 or 1."""
    return (np.unique(labels)[scores.argmax(1)] == labels).astype(np.float64)


def neighbour_scores(x: Numbers, labels: Labels, width: float) -> Numbers:
    """The logarithm of the share of votes that each class has (n, classes); a vote weighs exp(similarity / width)."""
    similarity = _similarity(x)
    weights = np.exp((similarity - similarity.max(1, keepdims=True)) / width)
    votes = weights @ (labels[:, None] == np.unique(labels))
    return np.asarray(np.log(votes / votes.sum(1, keepdims=True) + _LEAST_SHARE))


def _similarity(x: Numbers) -> Numbers:
    """Cosines (n, n) of all images with all others; an image is not like itself."""
    unit = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -np.inf)
    return np.asarray(similarity)


def neighbour_hits(x: Numbers, labels: Labels, k: int) -> Numbers:
    """Whether the k nearest other images, by cosine, vote for the class of each image, 0 or 1; the nearest counts most.

    A vote weighs exp(similarity / 0.07), as in the kNN of `evaluate`.
    """
    similarity = _similarity(x)
    nearest = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(similarity, nearest, 1)
    weights = np.exp((values - values[:, :1]) / 0.07)
    names = np.unique(labels)
    votes = ((labels[nearest][:, :, None] == names) * weights[:, :, None]).sum(1)
    return _named(votes, labels)
