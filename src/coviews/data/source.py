"""The interface of everything that images are read from: folders, lists, archives, arrays, data sets."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from coviews.data.class_labels import Labels
from coviews.data.imageset import Broken
from coviews.data.levels import Target
from coviews.data.picture_reader import Header


class Source(Protocol):
    """Images that are read one by one, by their index."""

    @property
    def where(self) -> str:
        """The name of the source in messages."""

    @property
    def names(self) -> Sequence[str] | None:
        """The names of the images, if they have names."""

    @property
    def unreadable(self) -> Sequence[Broken]:
        """What is known to be unreadable but is not an image, such as a folder without read permission."""

    @property
    def in_threads(self) -> bool:
        """Whether images may be read in several threads at once."""

    def __len__(self) -> int: ...

    def known_labels(self) -> Labels | None:
        """The labels of all images before they are read, to balance a subset."""

    def labels_of(self, indices: NDArray[np.int64]) -> Labels | None:
        """The labels of images that have been read."""

    def identity(self, indices: NDArray[np.int64]) -> list[str] | None:
        """Lines of text that change when one of these images changes; None if the source cannot tell."""

    def headers(self, indices: NDArray[np.int64], title: str) -> Sequence[Header | str | None]:
        """The size, channels and depth of each image, or why it cannot be read, or None if it has to be read first."""

    def read(self, index: int, target: Target) -> tuple[NDArray[Any], bool]:
        """One image (H, W, C) as the target says, and whether it was resized.

        A CoviewsError means that the whole source is wrong; any other exception, that this image is broken.
        """
