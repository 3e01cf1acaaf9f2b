"""The few labelled images that pilots are judged by."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from coviews.choosing.options import ChooseOptions
from coviews.data.imageset import ImageSet
from coviews.data.load import load_images
from coviews.errors import CoviewsError

FEWEST = 2  # labelled images of a class: one is judged by the others
NONE = "none"


def labelled_images(options: ChooseOptions, images: ImageSet, labels: Any) -> ImageSet | None:
    """The labelled images, of the size of the others; None if there are none.

    Args:
        options: where they are, and how many of a class are used.
        images: all images; those of class folders are labelled.
        labels: from Python, the class of each of the images, None or -1 for those that have none.
    """
    if labels is not None:
        labelled: ImageSet | None = _with_labels(images, labels)
    elif options.labels is None:
        labelled = images if images.labels is not None else None
    elif options.labels == NONE:
        labelled = None
    else:
        _, height, width, channels = images.images.shape
        labelled = load_images(
            options.labels, size=(height, width), channels=channels, root=options.data_root, cache=options.cache,
            max_broken=0.0,
        )  # fmt: skip
        if labelled.labels is None:
            raise CoviewsError(
                f"{options.labels} has no labels: give a table with the columns file and label, or class folders"
            )
    return None if labelled is None else _usable(labelled, options)


def _with_labels(images: ImageSet, labels: Any) -> ImageSet:
    values = list(labels)
    if len(values) != len(images):
        raise CoviewsError(f"{len(values)} labels for {len(images)} images: give one for each, or None")
    known = [i for i, value in enumerate(values) if value is not None and value != -1]
    if not known:
        raise CoviewsError("none of the labels is known: leave them out, or label a few images")
    names = sorted({str(values[i]) for i in known})
    numbers = np.array([names.index(str(values[i])) for i in known], np.int64)
    subset = images.subset(known)
    return ImageSet(subset.images, numbers, tuple(names), subset.names)


def _usable(labelled: ImageSet, options: ChooseOptions) -> ImageSet:
    """Of each class at most as many as asked for; an error where there are too few to tell anything."""
    assert labelled.labels is not None
    generator = np.random.default_rng(options.seed)
    order = generator.permutation(len(labelled))
    taken: Counter[int] = Counter()
    rows = []
    for i in order.tolist():
        label = int(labelled.labels[i])
        if options.per_class is None or taken[label] < options.per_class:
            taken[label] += 1
            rows.append(i)
    kept = labelled.subset(np.sort(np.array(rows)))
    enough = [label for label, count in taken.items() if count >= FEWEST]
    if len(taken) < 2:
        raise CoviewsError("all labels are of one class: label some images of another one, to be told apart from it")
    if len(enough) < 2:
        missing = sum(FEWEST - count for count in taken.values() if count < FEWEST)
        raise CoviewsError(
            f"too few labels: two classes with {FEWEST} images each are the least, and 5 a class say more; "
            f"label {missing} more"
        )
    return kept


def describe(labelled: ImageSet | None, source: str) -> str:
    """What pilots are judged by, in words."""
    if labelled is None or labelled.labels is None:
        return "no labels"
    counts = Counter(labelled.labels.tolist()).values()
    each = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return f"{len(labelled):,} labelled images of {len(counts)} classes ({each} a class), from {Path(source).name}"
