"""Images that are arrays already: given in Python, or in .npy and .npz files."""

import bisect
import itertools
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from coviews.data.decode import read_source
from coviews.data.files import file_stamp
from coviews.data.imageset import Broken, ImageSet
from coviews.data.labels import Labels, labels_of_numbers, labels_of_texts
from coviews.data.pictures import Header, converted, fitted
from coviews.data.request import Wanted
from coviews.errors import CoviewsError
from coviews.ops.images import check_images

ARRAYS = (".npy", ".npz")
_IMAGES = ("images", "x", "data")
_LABELS = ("labels", "y", "targets")


@dataclass(frozen=True, eq=False)
class ArrayImages:
    """Images in arrays (n, H, W, C) of one shape, one after the other; views into a mapped file stay such."""

    where: str
    parts: Sequence[NDArray[np.uint8]]
    labels: Labels | None = None
    names: Sequence[str] | None = None
    files: Sequence[Path] = ()  # where they come from, if from files
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

    def labels_of(self, chosen: NDArray[np.int64]) -> Labels | None:
        """The labels of some images."""
        return None if self.labels is None else self.labels.of(chosen)

    def identity(self, chosen: NDArray[np.int64]) -> list[str] | None:
        """The files and which of their images; of an array in memory nobody can tell."""
        if not self.files:
            return None
        return [*(file_stamp(path.parent, path.name) for path in self.files), str(chosen.tolist())]

    def headers(self, chosen: NDArray[np.int64], title: str) -> list[Header]:
        """All are alike."""
        _, height, width, channels = self.parts[0].shape
        return [Header(height, width, channels == 1)] * len(chosen)

    def read(self, index: int, height: int, width: int, channels: int) -> tuple[NDArray[np.uint8], bool]:
        """One image; as it is, if it is as wanted."""
        part = bisect.bisect_right(self.starts, index) - 1
        image = self.parts[part][index - self.starts[part]]
        if image.shape == (height, width, channels):
            return image, False
        picture = converted(Image.fromarray(image[..., 0] if image.shape[2] == 1 else image), channels)
        return fitted(picture, height, width), picture.size != (width, height)


def load_arrays(source: ArrayImages, want: Wanted, notes: list[str]) -> ImageSet:
    """The images of arrays; where nothing has to be changed the array itself, in memory or mapped from its file."""
    first = source.parts[0]
    same = want.size in (None, first.shape[1:3]) and want.channels in (None, first.shape[3])
    if not (same and len(source.parts) == 1 and first.flags.c_contiguous and len(want.chosen(source)) == len(first)):
        return read_source(source, want, notes)
    labels = source.labels
    return ImageSet(
        first,
        None if labels is None else labels.values,
        None if labels is None else labels.classes,
        None if source.names is None else tuple(source.names),
    )


def array_file(path: Path, notes: list[str]) -> ArrayImages:
    """The images of a .npy or .npz file, and the labels of the latter; nothing in it is executed."""
    images, labels = _read(path)
    try:
        batch = as_batch(images, str(path), notes)
        return ArrayImages(str(path), [batch], _as_labels(labels, len(batch)), files=[path])
    except CoviewsError as error:
        raise CoviewsError(f"{path}: {error}") from error


def as_batch(array: NDArray[Any], where: str, notes: list[str]) -> NDArray[np.uint8]:
    """An array as (N, H, W, C), or an error that says what is wrong with it; never a copy."""
    if array.ndim == 4 and array.shape[1] in (1, 3) and array.shape[3] not in (1, 3):
        array = array.transpose(0, 2, 3, 1)
        notes.append(f"the images in {where} are (N, C, H, W): they are read as such, and become (N, H, W, C)")
    if array.ndim == 0 or array.flags.c_contiguous:
        check_images(array)
    else:
        try:
            check_images(array[:1])  # one is enough: it would be copied
        except CoviewsError:
            check_images(array)  # for the message
    return array[..., None] if array.ndim == 3 else array


def _read(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The array of images of a file, and that of labels."""
    try:
        with open(path, "rb") as file:
            if not file.read(6).startswith((b"\x93NUMPY", b"PK")):
                raise CoviewsError(f"{path} is not a file of NumPy, or it is damaged")
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded, None
        with loaded as archive:
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
    """Which array has the images, and which the labels."""
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
    """Whole numbers or texts, one for each image."""
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
