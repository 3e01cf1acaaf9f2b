"""A set of images in one array, with what is known about them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Broken = tuple[str, str]  # (what it is called, why it cannot be read)


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images of one size in one array, with what is known about them."""

    images: NDArray[np.uint8]  # (N, H, W, C), in memory or mapped from a file
    labels: NDArray[np.int64] | None = None  # (N,), indices into classes
    classes: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None  # the files, relative to the folder
    broken: tuple[Broken, ...] = ()  # what was skipped, and why

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def mean(self) -> tuple[int, int, int]:
        """The mean colour: red, green and blue, which are equal where the images are grey."""
        n, height, width, channels = self.images.shape
        total = self.images.reshape(n, -1).sum(axis=0, dtype=np.uint64).reshape(-1, channels).sum(axis=0)
        red, green, blue = np.rint(np.resize(total, 3) / (n * height * width)).astype(int).tolist()
        return red, green, blue

    def subset(self, indices: Any) -> "ImageSet":
        """Some of the images, in the order of the indices (or those where a boolean array is true).

        The pixels are copied into memory, but for images in a row, which stay where they are.
        """
        chosen = np.arange(len(self))[np.asarray(indices) if len(indices) else np.empty(0, np.int64)]
        in_a_row = len(chosen) > 0 and bool(np.all(np.diff(chosen) == 1))
        return ImageSet(
            self.images[int(chosen[0]) : int(chosen[-1]) + 1] if in_a_row else self.images[chosen],
            None if self.labels is None else self.labels[chosen],
            self.classes,
            None if self.names is None else tuple(self.names[i] for i in chosen),
            self.broken,
        )
