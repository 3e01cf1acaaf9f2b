"""Images in arrays: arrays of Python, and .npy and .npz files."""

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from coviews.boundary.arrays import map_array, open_arrays
from coviews.boundary.regular import open_regular
from coviews.data.cache import memory_for_images
from coviews.data.class_labels import Labels, labels_of_numbers, labels_of_texts
from coviews.data.decode import decode_images
from coviews.data.image_files import file_stamp
from coviews.data.imageset import Broken, ImageSet
from coviews.data.levels import (
    MOST_CHANNELS,
    Target,
    ValueRange,
    channels_come_first,
    fitted_array,
    is_plain,
)
from coviews.data.picture_reader import Header, picture_array
from coviews.data.request import ImageRequest
from coviews.errors import CoviewsError
from coviews.ops.images import LARGEST

ARRAYS = (".npy", ".npz")
_IMAGES = ("images", "x", "data", "series")
_LABELS = ("labels", "y", "targets")


@dataclass(frozen=True, eq=False)
class ArrayImages:
    """Images in one or more arrays (n, H, W, C) of one height, width and number of channels."""

    where: str
    parts: Sequence[NDArray[Any]]  # of uint8, of uint16 levels, or of values that have to be scaled
    labels: Labels | None = None
    names: Sequence[str] | None = None
    files: Sequence[Path] = ()  # the files they were read from, if any
    skipped: Sequence[Broken] = ()  # images that an earlier load skipped
    unreadable: Sequence[Broken] = ()
    in_threads: bool = True
    are_levels: bool = False  # deep arrays are levels already: nothing is scaled
    values: ValueRange | None = None  # by which they became levels
    starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", list(itertools.accumulate((len(part) for part in self.parts), initial=0)))

    def __len__(self) -> int:
        return self.starts[-1]

    def known_labels(self) -> Labels | None:
        """The labels of all images."""
        return self.labels

    def labels_of(self, indices: NDArray[np.int64]) -> Labels | None:
        """The labels of some images."""
        return None if self.labels is None else self.labels.of(indices)

    def identity(self, indices: NDArray[np.int64]) -> list[str] | None:
        """The stamps of the files and the indices; None for an array in memory, which may change at any time."""
        if not self.files:
            return None
        return [*(file_stamp(path.parent, path.name) for path in self.files), str(indices.tolist())]

    def headers(self, indices: NDArray[np.int64], title: str) -> list[Header]:
        """The same for all images."""
        _, height, width, channels = self.parts[0].shape
        return [Header(height, width, channels, self._depth)] * len(indices)

    @property
    def _depth(self) -> int | None:
        dtype = self.parts[0].dtype
        return 8 if is_plain(dtype) else 16 if self.are_levels else None

    def read(self, index: int, target: Target) -> tuple[NDArray[Any], bool]:
        """One image; a view if it is as the target says already."""
        part = bisect.bisect_right(self.starts, index) - 1
        image = self.parts[part][index - self.starts[part]]
        ready = image.dtype == target.dtype and (self.are_levels or image.dtype == np.uint8)
        if image.shape == target.shape and ready:
            return image, False
        if image.dtype == np.uint8 and image.shape[2] in (1, 3):
            return picture_array(Image.fromarray(image[..., 0] if image.shape[2] == 1 else image), target)
        return fitted_array(image, target)


def load_arrays(source: ArrayImages, request: ImageRequest) -> ImageSet:
    """The images of arrays; the array itself, in memory or mapped from its file, if nothing has to be changed."""
    first = source.parts[0]
    size = first.shape[1], first.shape[2]
    same = request.size_for(size) == size and request.channels in (None, first.shape[3])
    same = same and (first.dtype == np.uint8 or (source.are_levels and request.depth != 8))
    whole = len(source.parts) == 1 and first.flags.c_contiguous and len(request.indices(source)) == len(first)
    if not (same and whole):
        images = decode_images(source, request)
        return replace(images, broken=(*images.broken, *source.skipped), values=images.values or source.values)
    labels = source.labels
    return ImageSet(
        first,
        None if labels is None else labels.values,
        None if labels is None else labels.classes,
        None if source.names is None else tuple(source.names),
        tuple(source.skipped),
        source.values,
        tuple(request.remarks),
    )


def array_file(path: Path, notes: list[str]) -> ArrayImages:
    """The images of a .npy or .npz file, and the labels of the latter; no code in it is executed."""
    images, labels = _read(path)
    try:
        batch = as_batch(images, str(path), notes)
        return ArrayImages(str(path), [batch], _as_labels(labels, len(batch)), files=[path])
    except CoviewsError as error:
        raise CoviewsError(f"{path}: {error}") from error


def series_file(path: Path) -> ArrayImages:
    """The series of a .npy or .npz file, and the labels of the latter; no code in it is executed."""
    series, labels = _read(path)
    try:
        batch = as_series(series)
        return ArrayImages(str(path), [batch], _as_labels(labels, len(batch)), files=[path])
    except CoviewsError as error:
        raise CoviewsError(f"{path}: {error}") from error


def series_array(values: NDArray[Any], labels: NDArray[Any] | None) -> ArrayImages:
    """The series of arrays in memory."""
    batch = as_series(values)
    return ArrayImages("the series", [batch], _as_labels(labels, len(batch)))


def as_series(array: NDArray[Any]) -> NDArray[Any]:
    """Series (N, length) or (N, length, channels) as images of one row, (N, 1, length, channels), without a copy."""
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] > MOST_CHANNELS):
        raise CoviewsError(
            f"series must be (N, length) or (N, length, channels) with 1 to {MOST_CHANNELS} channels, which come last, "
            f"not of shape {array.shape}"
        )
    rows = array[:, None, :, None] if array.ndim == 2 else array[:, None]
    if 0 in rows.shape or rows.shape[2] > LARGEST:
        raise CoviewsError(f"series must have 1 to {LARGEST} values, not be of shape {array.shape}")
    try:
        is_plain(array.dtype)
    except ValueError as error:
        raise CoviewsError(f"an array with {error}") from error
    return rows


def as_batch(array: NDArray[Any], where: str, notes: list[str]) -> NDArray[Any]:
    """The array as (N, H, W, C) without a copy, or an error that says what is wrong with it."""
    if array.ndim == 4 and channels_come_first(array.shape[1], array.shape[3]):
        array = array.transpose(0, 2, 3, 1)
        notes.append(f"the images in {where} are (N, C, H, W): they are read as such, and become (N, H, W, C)")
    if array.ndim not in (3, 4) or (array.ndim == 4 and not 0 <= array.shape[3] <= MOST_CHANNELS):
        raise CoviewsError(
            f"images must be (N, H, W) or (N, H, W, C) with 1 to {MOST_CHANNELS} channels, not of shape {array.shape}"
        )
    if 0 in array.shape:
        raise CoviewsError(f"there is no image in an array of shape {array.shape}")
    if max(array.shape[1:3]) > LARGEST:
        raise CoviewsError(f"images of {array.shape[1:3]} are too large: at most {LARGEST} pixels a side")
    try:
        is_plain(array.dtype)
    except ValueError as error:
        raise CoviewsError(f"an array with {error}") from error
    return array[..., None] if array.ndim == 3 else array


def _read(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The array of images in a file, and the array of labels if there is one."""
    with open_regular(path, "array") as file:
        is_archive = file.read(2) == b"PK"
    if not is_archive:
        return map_array(path), None
    with open_arrays(path) as arrays:
        images, labels = _keys(path, arrays.names)
        memory = memory_for_images()
        return arrays.read(images, memory), arrays.read(labels, memory) if labels else None


def _keys(path: Path, keys: list[str]) -> tuple[str, str | None]:
    """The names of the array of images and of the array of labels."""
    lowered = {key.lower(): key for key in keys}
    images = next((lowered[name] for name in _IMAGES if name in lowered), None)
    labels = next((lowered[name] for name in _LABELS if name in lowered), None)
    others = [key for key in keys if key != labels]
    if images is None and len(others) == 1:
        images = others[0]
    if images is None:
        raise CoviewsError(
            f"{path} has the arrays {', '.join(keys) or 'none'}: call that of the images 'images' "
            "(and that of the labels 'labels')"
        )
    return images, labels


def _as_labels(labels: NDArray[Any] | None, n: int) -> Labels | None:
    """Labels from whole numbers or texts, one for each image."""
    if labels is None:
        return None
    if labels.shape not in ((n,), (n, 1)):
        raise CoviewsError(f"there are {n} images, but labels of shape {labels.shape}: one for each image is needed")
    labels = labels.reshape(-1)
    if labels.dtype.kind in "iu":
        return labels_of_numbers(labels)
    if labels.dtype.kind == "U":
        return labels_of_texts(labels.tolist())
    raise CoviewsError(f"labels must be whole numbers or texts, not {labels.dtype}")
