"""A set of images in one array, with their labels and names; and a varied selection of them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.data.levels import ValueRange

Broken = tuple[str, str]  # (name, why it cannot be read)


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images of one size in one array, with their labels and names where these are known."""

    images: NDArray[Any]  # (N, H, W, C) in uint8 or uint16, in memory or mapped from a file
    labels: NDArray[np.int64] | None = None  # (N,), indices into classes
    classes: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None  # the files, relative to the folder
    broken: tuple[Broken, ...] = ()  # the images that were skipped, and why
    values: ValueRange | None = None  # those that became the lowest and highest level, where images were scaled
    remarks: tuple[str, ...] = ()  # how the files were read, where there was a choice

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.images.shape[1:]))
        classes = f", {len(self.classes)} classes" if self.classes is not None else ""
        return f"ImageSet({len(self):,} images of {shape}, {self.images.dtype}{classes})"

    @property
    def depth(self) -> int:
        """Bits of a level: 8 or 16."""
        return 8 * self.images.dtype.itemsize

    @cached_property
    def mean(self) -> tuple[int, ...]:
        """The mean level of each channel; three equal ones for grey images."""
        n, height, width, channels = self.images.shape
        total = self.images.reshape(n, -1).sum(axis=0, dtype=np.uint64).reshape(-1, channels).sum(axis=0)
        count = 3 if channels == 1 else channels
        return tuple(np.rint(np.resize(total, count) / (n * height * width)).astype(int).tolist())

    def subset(self, indices: Any) -> "ImageSet":
        """The images at these indices, in their order (or those where a boolean array is true).

        The pixels are copied into memory; consecutive images are not copied.
        """
        rows = np.arange(len(self))[np.asarray(indices) if len(indices) else np.empty(0, np.int64)]
        consecutive = len(rows) > 0 and bool(np.all(np.diff(rows) == 1))
        return ImageSet(
            self.images[int(rows[0]) : int(rows[-1]) + 1] if consecutive else self.images[rows],
            None if self.labels is None else self.labels[rows],
            self.classes,
            None if self.names is None else tuple(self.names[i] for i in rows),
            self.broken,
            self.values,
        )


def varied(images: ImageSet, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """The indices of some images at random, from as many classes as possible."""
    order = generator.permutation(len(images))
    if images.labels is None:
        return order[:count]
    class_counts = np.zeros(len(images.classes or ()), np.int64)
    rank = np.empty(len(order), np.int64)  # of each image within its class
    for i, label in enumerate(images.labels[order]):
        rank[i], class_counts[label] = class_counts[label], class_counts[label] + 1
    return order[np.argsort(rank, kind="stable")][:count]
