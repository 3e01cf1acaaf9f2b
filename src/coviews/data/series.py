"""Series, such as sensor signals and recordings: an array in a file or in memory, as images of one row."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from coviews.console.progress import waiting
from coviews.data.arrays import ARRAYS, series_array, series_file
from coviews.data.format import Format
from coviews.data.request import ImageRequest
from coviews.data.source import Source
from coviews.errors import CoviewsError

PREFIX = "series:"


@dataclass(frozen=True, eq=False)
class Series:
    """Series of one length in memory: what `pretrain`, `load_images` and the others take as data.

    Each becomes an image of one row, whose width is time; values of floats become 65,536 levels.
    """

    values: NDArray[Any]  # (N, length) or (N, length, channels) with 1 to 16 channels
    labels: NDArray[Any] | None = None  # (N,), whole numbers or texts

    def __repr__(self) -> str:
        return f"Series({self.values.dtype} {self.values.shape}{'' if self.labels is None else ', with labels'})"


class SeriesFormat(Format):
    """Series in an array of NumPy."""

    about = f"series (N, length, channels) in an array ({', '.join(ARRAYS)}), or in Python a coviews.Series"
    examples = ("series:sensor.npy", "series:sensor.npz")

    def fits(self, data: Any) -> bool:
        """Whether the data are of this kind."""
        named = isinstance(data, str) and data.startswith(PREFIX) and not os.path.lexists(data)
        return named or isinstance(data, Series)

    def open(self, data: Any, request: ImageRequest) -> Source:
        """Its series."""
        if request.size is not None and request.size[0] != 1:
            raise CoviewsError("series keep their length: leave out --size")
        if isinstance(data, Series):
            return series_array(data.values, data.labels)
        path = Path(os.path.expanduser(data.removeprefix(PREFIX)))
        if path.suffix.lower() not in ARRAYS or not path.is_file():
            raise CoviewsError(f"there is no array of series {str(path)!r}: give a .npy or .npz file, as {PREFIX}FILE")
        with waiting(request.title("looking for series")):
            return series_file(path)
