"""The classification task of an evaluation: images to learn from, images to judge, and their labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError
from coviews.evaluation.labels import Labels, balanced_share, check_label_array, check_labels
from coviews.ops.images import Images

HELD_OUT = 0.2  # of the training images, where there is no test set


class Labelled(Protocol):
    """Images with labels or without, such as an `ImageSet`."""

    @property
    def images(self) -> Images:
        """(N, H, W, C)."""
        ...

    @property
    def labels(self) -> Labels | None:
        """(N,), indices into classes."""
        ...

    @property
    def classes(self) -> Sequence[str] | None:
        """The names."""
        ...


@dataclass(frozen=True, eq=False)
class Task:
    """Two sets of images with labels of the same classes."""

    train: NDArray[np.int64]  # indices into the training set
    test: NDArray[np.int64]  # indices into the test set; without one, into the training set
    labels: Labels  # of train
    truth: Labels  # of test, -1 for a class that training lacks
    classes: tuple[str, ...]


def make_task(train: Labelled, test: Labelled | None, seed: int) -> Task | str:
    """The task, or the reason why there is none; without a test set, a fifth of the training images is held out."""
    if train.labels is None:
        return (
            "they need labels, and the training images have none: put them in a folder for each class, "
            "or give --labels TABLE with the columns file and label"
        )
    if test is not None and test.labels is None:
        return "they need labels, and the test images have none (a folder for each class gives them)"
    known = None if train.classes is None else len(train.classes)
    labels = check_label_array(train.labels, len(train.images), known, "training")
    classes = tuple(str(c) for c in (range(int(labels.max()) + 1) if train.classes is None else train.classes))
    if len(np.unique(labels)) < 2:
        return "they need labels of two classes at least, and all training images are of one"
    everything = np.arange(len(labels))
    if test is not None:
        assert test.labels is not None
        truth = check_labels(labels, train.classes, test.labels, test.classes)
        if len(truth) != len(test.images):
            raise CoviewsError(f"there are {len(truth)} test labels for {len(test.images)} images: one each is needed")
        return Task(everything, np.arange(len(truth)), labels, truth, classes)
    held_out = balanced_share(labels, HELD_OUT, np.random.default_rng([seed, 0]))
    rest = np.setdiff1d(everything, held_out)
    if not len(rest):
        return "they need a test set, and there are too few training images to hold some out"
    truth = check_labels(labels[rest], classes, labels[held_out], classes)
    return Task(rest, held_out, labels[rest], truth, classes)
