"""The few labelled images that pilots are judged by."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.boundary.arrays import map_array
from coviews.choosing.options import ChooseOptions
from coviews.data.class_labels import labels_of_texts
from coviews.data.imageset import ImageSet
from coviews.data.levels import MAX_PIXELS, Target
from coviews.data.lists import TABLES
from coviews.data.lists import labelled_images as labels_in_table
from coviews.data.load import load_images
from coviews.data.parallel import parallel_map
from coviews.data.picture_reader import Header, reason
from coviews.errors import CoviewsError

FEWEST = 2  # labelled images of a class: one is judged by the others
MOST = 2000  # labelled images in all: more would take long, and say little more
NONE = "none"
_LONGEST_LABEL = 4096  # bytes


def labelled_images(options: ChooseOptions, images: ImageSet, labels: Any, data: str) -> ImageSet | None:
    """The labelled images, of the size of the others; None if there are none.

    Args:
        options: where they are, and how many of a class are used.
        images: all images; those of class folders are labelled.
        labels: from Python, the class of each of the images, None or -1 for those that have none.
        data: the name of the images: files in a table may be in its folder.
    """
    o = options
    if labels is None and o.labels == NONE:
        return None
    if labels is None and o.labels is None:
        return None if images.labels is None else _usable(images, o)
    if labels is None and Path(str(o.labels)).suffix.lower() in TABLES:
        return _of_table(Path(os.path.expanduser(str(o.labels))), images, data, o)
    if labels is None and Path(str(o.labels)).suffix.lower() == ".npy":
        labels = _array_of_labels(Path(os.path.expanduser(str(o.labels))), len(images))
    if labels is not None:
        return _usable(_with_labels(images, labels), o)
    _, height, width, channels = images.images.shape
    labelled = load_images(
        str(o.labels), size=(height, width), channels=channels, depth=images.depth, values=images.values,
        root=o.data_root, cache=o.cache, max_broken=0.0,
    )  # fmt: skip
    if labelled.labels is None:
        raise CoviewsError(f"{o.labels} has no labels: give a table with the columns file and label, or class folders")
    return _usable(labelled, o)


def _of_table(path: Path, images: ImageSet, data: str, options: ChooseOptions) -> ImageSet:
    """The labelled files of a table, in its folder or in that of the images; rows without a label are skipped."""
    files = labels_in_table(path, data)
    assert files.labels is not None
    chosen = _chosen(files.labels.values, options)
    _, height, width, channels = images.images.shape

    target = Target(height, width, channels, images.images.dtype, images.values)

    def read(i: int) -> NDArray[Any]:
        try:
            header = files.headers(np.array([i]), "")[0]
            allowed = header.within(MAX_PIXELS) if isinstance(header, Header) else header
            if isinstance(allowed, str):
                raise ValueError(allowed)
            return files.read(i, target)[0]
        except Exception as error:  # decoders of damaged files raise anything
            raise CoviewsError(f"cannot read {files.names[i]}, which {path} labels: {reason(error)}") from error

    pixels = np.stack(parallel_map(read, chosen.tolist(), "reading labelled images" if options.progress else ""))
    labels = files.labels.of(chosen)
    return ImageSet(pixels, labels.values, labels.classes, tuple(files.names[i] for i in chosen))


def _array_of_labels(path: Path, images: int) -> Sequence[Any]:
    values = map_array(path, "array of labels")
    if values.ndim == 1 and len(values) != images:
        raise CoviewsError(f"{path} has {len(values):,} labels for {images:,} images: give one for each")
    if values.ndim != 1 or values.dtype.kind not in "iuU" or values.itemsize > _LONGEST_LABEL:
        raise CoviewsError(f"{path} must hold one label for each image, whole numbers or texts, -1 for those without")
    return list(values.tolist())


def _with_labels(images: ImageSet, labels: Any) -> ImageSet:
    values = list(labels)
    if len(values) != len(images):
        raise CoviewsError(f"{len(values)} labels for {len(images)} images: give one for each, or None")
    known = [i for i, value in enumerate(values) if _is_known(value)]
    if not known:
        raise CoviewsError("none of the labels is known: leave them out, or label a few images")
    numbers = labels_of_texts([str(values[i]) for i in known])
    subset = images.subset(known)
    return ImageSet(subset.images, numbers.values, numbers.classes, subset.names)


def _is_known(value: Any) -> bool:
    """None, -1, an empty text and NaN, which is not itself, are no labels."""
    return value is not None and value == value and str(value) not in ("-1", "-1.0", "")


def _usable(labelled: ImageSet, options: ChooseOptions) -> ImageSet:
    assert labelled.labels is not None
    return labelled.subset(_chosen(labelled.labels, options))


def _chosen(labels: NDArray[np.int64], options: ChooseOptions) -> NDArray[np.int64]:
    """Which labelled images are used: of each class at most as many as asked for, none of classes that have one only.

    An error where there are too few to tell anything.
    """
    counts = Counter(labels.tolist())
    if len(counts) < 2:
        raise CoviewsError("all labels are of one class: label some images of another one, to be told apart from it")
    enough = {label for label, count in counts.items() if count >= FEWEST}
    if len(enough) < 2:
        missing = sum(max(0, FEWEST - count) for _, count in counts.most_common(2))
        raise CoviewsError(
            f"too few labels: two classes with {FEWEST} images each are the least, and ten a class are a good start; "
            f"label {missing} more at least"
        )
    most = min(options.per_class or MOST, max(FEWEST, MOST // len(enough)))
    taken: Counter[int] = Counter()
    rows = []
    for i in np.random.default_rng(options.seed).permutation(len(labels)).tolist():
        label = int(labels[i])
        if label in enough and taken[label] < most:
            taken[label] += 1
            rows.append(i)
    return np.sort(np.array(rows, np.int64))


def describe(labelled: ImageSet | None, source: str) -> str:
    """What pilots are judged by, in words."""
    if labelled is None or labelled.labels is None:
        return "no labels"
    counts = Counter(labelled.labels.tolist()).values()
    each = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return f"{len(labelled):,} labelled images of {len(counts)} classes ({each} a class), from {Path(source).name}"
