"""Images in arrays: arrays of Python, and .npy and .npz files."""

import bisect
import itertools
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from coviews.data.class_labels import Labels, labels_of_numbers, labels_of_texts
from coviews.data.decode import decode_images
from coviews.data.image_files import file_stamp
from coviews.data.imageset import Broken, ImageSet
from coviews.data.picture_reader import Header, converted, fitted
from coviews.data.request import ImageRequest
from coviews.errors import CoviewsError
from coviews.ops.images import check_images

ARRAYS = (".npy", ".npz")
_IMAGES = ("images", "x", "data")
_LABELS = ("labels", "y", "targets")


@dataclass(frozen=True, eq=False)
class ArrayImages:
    """Images in one or more arrays (n, H, W, C) of one height, width and number of channels."""

    where: str
    parts: Sequence[NDArray[np.uint8]]
    labels: Labels | None = None
    names: Sequence[str] | None = None
    files: Sequence[Path] = ()  # the files they were read from, if any
    skipped: Sequence[Broken] = ()  # images that an earlier load skipped
    unreadable: Sequence[Broken] = ()
    in_threads: bool = True
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
        return [Header(height, width, channels == 1)] * len(indices)

    def read(self, index: int, height: int, width: int, channels: int) -> tuple[NDArray[np.uint8], bool]:
        """One image; a view if its shape is right already."""
        part = bisect.bisect_right(self.starts, index) - 1
        image = self.parts[part][index - self.starts[part]]
        if image.shape == (height, width, channels):
            return image, False
        picture = converted(Image.fromarray(image[..., 0] if image.shape[2] == 1 else image), channels)
        return fitted(picture, height, width), picture.size != (width, height)


def load_arrays(source: ArrayImages, request: ImageRequest) -> ImageSet:
    """The images of arrays; the array itself, in memory or mapped from its file, if nothing has to be changed."""
    first = source.parts[0]
    same = request.size in (None, first.shape[1:3]) and request.channels in (None, first.shape[3])
    whole = len(source.parts) == 1 and first.flags.c_contiguous and len(request.indices(source)) == len(first)
    if not (same and whole):
        images = decode_images(source, request)
        return replace(images, broken=(*images.broken, *source.skipped))
    labels = source.labels
    return ImageSet(
        first,
        None if labels is None else labels.values,
        None if labels is None else labels.classes,
        None if source.names is None else tuple(source.names),
        tuple(source.skipped),
    )


def array_file(path: Path, notes: list[str]) -> ArrayImages:
    """The images of a .npy or .npz file, and the labels of the latter; no code in it is executed."""
    images, labels = _read(path)
    try:
        batch = as_batch(images, str(path), notes)
        return ArrayImages(str(path), [batch], _as_labels(labels, len(batch)), files=[path])
    except CoviewsError as error:
        raise CoviewsError(f"{path}: {error}") from error


def as_batch(array: NDArray[Any], where: str, notes: list[str]) -> NDArray[np.uint8]:
    """The array as (N, H, W, C) without a copy, or an error that says what is wrong with it."""
    if array.ndim == 4 and array.shape[1] in (1, 3) and array.shape[3] not in (1, 3):
        array = array.transpose(0, 2, 3, 1)
        notes.append(f"the images in {where} are (N, C, H, W): they are read as such, and become (N, H, W, C)")
    if array.ndim == 0 or array.flags.c_contiguous:
        check_images(array)
    else:
        try:
            check_images(array[:1])  # one image: the check copies what is not contiguous
        except CoviewsError:
            check_images(array)  # for the message
    return array[..., None] if array.ndim == 3 else array


def _read(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The array of images in a file, and the array of labels if there is one."""
    try:
        with open(path, "rb") as file:
            if not file.read(6).startswith((b"\x93NUMPY", b"PK")):
                raise CoviewsError(f"{path} is not a file of NumPy, or it is damaged")
        content = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(content, np.ndarray):
            return content, None
        with content as archive:
            images, labels = _keys(path, archive.files)
            return archive[images], archive[labels] if labels else None
    except (
        OSError,
        ValueError,
        EOFError,
        KeyError,
        SyntaxError,
        zipfile.BadZipFile,
        zlib.error,
        RuntimeError,
    ) as error:
        if isinstance(error, CoviewsError):
            raise
        raise CoviewsError(f"cannot read the array in {path}: {_reason(error)}") from error


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


def _reason(error: Exception) -> str:
    if "pickle" in str(error):
        return "it holds Python objects, which are not loaded because they can run code"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or "it is damaged"
