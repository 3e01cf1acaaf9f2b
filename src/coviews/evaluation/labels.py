"""Labels: predictions compared with them, classes matched by name, and balanced parts of a set."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError, one_line

Labels = NDArray[np.int64]  # (N,), indices of classes; -1 for one that is not known

_NAMED = 5  # how many classes a message names


def accuracy(truth: Labels, predicted: Labels) -> float:
    """The share of images that are predicted right; those of an unknown class, -1, are left out."""
    known = _known(truth, predicted)
    return float((np.asarray(predicted)[known] == np.asarray(truth)[known]).mean())


def confusion(truth: Labels, predicted: Labels, classes: int) -> NDArray[np.int64]:
    """How many images of each class (row) were taken for each class (column); without those of an unknown class."""
    known = _known(truth, predicted)
    rows = check_label_array(np.asarray(truth)[known], None, classes, "true")
    columns = check_label_array(np.asarray(predicted)[known], None, classes, "predicted")
    return np.bincount(rows * classes + columns, minlength=classes**2).reshape(classes, classes)


def per_class(matrix: NDArray[np.int64]) -> NDArray[np.float64]:
    """The accuracy of each class, from a confusion matrix; NaN where there is no image of it."""
    images = matrix.sum(1)
    return np.divide(matrix.diagonal(), images, out=np.full(len(matrix), np.nan), where=images > 0)


def match_classes(train_classes: Sequence[str], test_classes: Sequence[str], test_labels: Labels) -> Labels:
    """Test labels as indices of the training set's classes, by name; -1 where it has no class of that name."""
    labels = check_label_array(test_labels, None, len(test_classes), "test")
    index = {name: i for i, name in enumerate(train_classes)}
    return np.array([index.get(name, -1) for name in test_classes], np.int64)[labels]


def check_labels(
    train_labels: Labels,
    train_classes: Sequence[str] | None,
    test_labels: Labels,
    test_classes: Sequence[str] | None,
) -> Labels:
    """Test labels as indices of the training set's classes; -1, with a warning, where training has no such image.

    Those images are left out of every accuracy: no classifier could name their class, so to count them as errors
    would say something about the data and nothing about the encoder.
    """
    train = check_label_array(train_labels, None, _count(train_classes), "training")
    if train_classes is not None and test_classes is not None:
        matched = match_classes(train_classes, test_classes, test_labels)
        names = [str(name) for name in test_classes]
    else:  # numbers without names on one side: they mean the same on both
        matched = check_label_array(test_labels, None, None, "test").copy()
        names = [str(i) for i in range(int(matched.max()) + 1)]
    matched[~np.isin(matched, train)] = -1
    lost = matched == -1
    if not lost.any():
        return matched
    classes, counts = np.unique(np.asarray(test_labels)[lost], return_counts=True)
    listed = ", ".join(f"{names[i]} ({n})" for i, n in zip(classes[:_NAMED], counts[:_NAMED], strict=True))
    listed += f" and {len(classes) - _NAMED} more" if len(classes) > _NAMED else ""
    if lost.all():
        raise CoviewsError(f"training and test set have no class in common: the test set has {listed}")
    text = f"{lost.sum()} of {len(lost)} test images are left out, as no training image is of their class: {listed}"
    warnings.warn(one_line(text), stacklevel=2)
    return matched


def balanced_share(
    labels: Labels, share: float, generator: np.random.Generator, *, every_class: bool = False
) -> NDArray[np.int64]:
    """Indices, in order, of a share of the images that holds the classes in the proportions of the whole.

    Args:
        labels: (N,).
        share: in 0..1; at least one image is drawn.
        generator: draws which ones.
        every_class: at least one image of each class, even if that makes more than the share.
    """
    labels = check_label_array(labels, None, None, "image")
    if not 0 < share <= 1:
        raise CoviewsError(f"the share of the images must be above 0 and at most 1, not {share}")
    n = len(labels)
    count = max(1, round(n * share))
    order = np.lexsort((generator.random(n), labels))  # class by class, at random within each
    indices = order[((np.arange(count) + 0.5) * n / count).astype(np.int64)]  # evenly apart, so fair to all classes
    if every_class:
        _, firsts = np.unique(labels[order], return_index=True)
        missing = order[firsts][~np.isin(labels[order[firsts]], labels[indices])]
        indices = np.concatenate([indices, missing])
    return np.sort(indices)


def balanced_parts(labels: Labels, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Which of `count` parts of almost equal size each image belongs to (N,), fair to all classes."""
    part = np.empty(len(labels), np.int64)
    part[np.lexsort((generator.random(len(labels)), labels))] = np.arange(len(labels)) % count
    return part


def check_label_array(labels: Any, n: int | None, classes: int | None, name: str) -> Labels:
    """Labels as int64 (N,), or an error that says what is wrong with them."""
    array = np.asarray(labels)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "iu":
        raise CoviewsError(f"the {name} labels must be whole numbers (N,), not {array.dtype} {array.shape}")
    if n is not None and len(array) != n:
        raise CoviewsError(f"there are {len(array)} {name} labels for {n} images: one each is needed")
    low, high = int(array.min()), int(array.max())
    if low < 0 or (classes is not None and high >= classes):
        last = "" if classes is None else str(classes - 1)
        raise CoviewsError(f"the {name} labels must be 0..{last}, but reach from {low} to {high}")
    return np.require(array, np.int64, ["C", "W"])  # torch warns of arrays that are read-only


def _count(classes: Sequence[str] | None) -> int | None:
    return None if classes is None else len(classes)


def _known(truth: Labels, predicted: Labels) -> NDArray[np.bool_]:
    if np.shape(truth) != np.shape(predicted):
        raise CoviewsError(f"{np.shape(predicted)} predictions for {np.shape(truth)} labels: one each is needed")
    known = np.asarray(truth) >= 0
    if not known.any():
        raise CoviewsError("there is no image of a known class to measure an accuracy on")
    return known
