"""What images can be read from: the one thing that folders, lists, archives, arrays and data sets have in common."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coviews.data.imageset import Broken
from coviews.data.labels import Labels
from coviews.data.pictures import Header


class Source(Protocol):
    """Images that are read one by one, by their index."""

    @property
    def where(self) -> str:
        """How messages call it."""

    @property
    def names(self) -> Sequence[str] | None:
        """How the images are called, if they have names."""

    @property
    def unreadable(self) -> Sequence[Broken]:
        """What is known to be broken without having been an image, such as folders that may not be entered."""

    @property
    def in_threads(self) -> bool:
        """Whether several may be read at once."""

    def __len__(self) -> int: ...

    def known_labels(self) -> Labels | None:
        """The labels of all images before they are read, to choose a subset by."""

    def labels_of(self, chosen: NDArray[np.int64]) -> Labels | None:
        """The labels of images that have been read."""

    def identity(self, chosen: NDArray[np.int64]) -> list[str] | None:
        """Text that is another one once these images are other ones; None if nobody can tell."""

    def headers(self, chosen: NDArray[np.int64], title: str) -> Sequence[Header | str | None]:
        """What each is like, or why it cannot be read, or None if only reading it tells."""

    def read(self, index: int, height: int, width: int, channels: int) -> tuple[NDArray[np.uint8], bool]:
        """One image (H, W, C) as it is wanted, and whether it had to be resized; any exception means it is broken.

        A CoviewsError means that the whole source is wrong.
        """
