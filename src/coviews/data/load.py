"""Where images come from: a folder, a file, an array or the built-in set, all as one array."""

import difflib
import os
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from coviews.data.files import Broken, converted, decode_files, find_images, fitted
from coviews.data.shapes import SHAPE_CLASSES, make_shapes
from coviews.errors import CoviewsError, unknown
from coviews.images import LARGEST, check_images

BUILT_IN = ("shapes",)
SHAPES_COUNT = 5000
_NAMED = 3  # how many broken files a warning names


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images of one size in one array, with what is known about them."""

    images: NDArray[np.uint8]  # (N, H, W, C)
    labels: NDArray[np.int64] | None = None  # (N,), indices into classes
    classes: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None  # the files, relative to the folder
    broken: tuple[Broken, ...] = ()  # the files that were skipped, and why

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def mean(self) -> tuple[int, int, int]:
        """The mean colour: red, green and blue, which are equal where the images are grey."""
        n, height, width, channels = self.images.shape
        total = self.images.reshape(n, -1).sum(axis=0, dtype=np.uint64).reshape(-1, channels).sum(axis=0)
        red, green, blue = np.rint(np.resize(total, 3) / (n * height * width)).astype(int).tolist()
        return red, green, blue


def load_images(
    data: str | os.PathLike[str] | NDArray[np.uint8],
    *,
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    limit: int | None = None,
    progress: bool = False,
) -> ImageSet:
    """Load images from wherever they are.

    Args:
        data: a folder of image files in any nesting (its sub folders are the classes, if there are several
            and every image is in one), an image file, a uint8 array (N, H, W) or (N, H, W, C), or the name of
            the built-in set: "shapes", or "shapes:2000" for as many.
        size: the side of the images, or (height, width); otherwise their own, or the most common one.
        channels: 1 for grey, 3 for colour; otherwise grey only if all images are.
        limit: load at most this many, spread evenly over all there are.
        progress: show a progress bar if it takes long.
    """
    wanted = _check_size(size)
    if channels not in (None, 1, 3):
        raise CoviewsError(f"channels must be 1 for grey or 3 for colour, not {channels!r}")
    if limit is not None and limit < 1:
        raise CoviewsError(f"the limit must be at least 1 image, not {limit}")
    try:
        if isinstance(data, np.ndarray):
            return _from_array(data, wanted, channels, limit)
        if isinstance(data, str) and data.split(":")[0] in BUILT_IN:
            return _from_shapes(data, wanted, channels, limit)
        if isinstance(data, str | os.PathLike):
            return _from_files(_existing(os.fspath(data)), wanted, channels, limit, progress)
    except MemoryError as error:
        raise CoviewsError(f"not enough memory: {error}; choose a smaller size, or fewer by a limit") from error
    raise CoviewsError(f"images must be a folder, a file, a uint8 array or 'shapes', not {type(data).__name__}")


def _from_shapes(name: str, size: tuple[int, int] | None, channels: int | None, limit: int | None) -> ImageSet:
    _, colon, digits = name.partition(":")
    if colon and not (digits.isdecimal() and int(digits) > 0):
        raise CoviewsError(f"write {name!r} with a number of images, such as 'shapes:2000'")
    count = int(digits) if colon else SHAPES_COUNT
    images, labels = make_shapes(min(count, limit or count), size or 32)
    return ImageSet(_converted(images, channels), labels, SHAPE_CLASSES)


def _from_array(array: NDArray[Any], size: tuple[int, int] | None, channels: int | None, limit: int | None) -> ImageSet:
    images = check_images(array)
    if limit is not None:
        images = images[_spread(len(images), limit)]
    images = _converted(images, channels)
    if size is not None and images.shape[1:3] != size:
        resized = np.empty((len(images), *size, images.shape[3]), np.uint8)
        for image, target in zip(images, resized, strict=True):
            picture = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
            target[:] = fitted(picture, *size).reshape(target.shape)
        images = resized
    return ImageSet(images)


def _from_files(
    path: Path, size: tuple[int, int] | None, channels: int | None, limit: int | None, progress: bool
) -> ImageSet:
    folder, (names, broken) = (path, find_images(path)) if path.is_dir() else (path.parent, ([path.name], []))
    classes = _classes(names)
    if limit is not None:
        names = [names[i] for i in _spread(len(names), limit)]
    if not names and not broken:
        raise CoviewsError(f"there is no image in {path}")
    decoded = decode_files(folder, names, size=size, channels=channels, progress=progress)
    broken = [*broken, *decoded.broken]
    if not len(decoded.images):
        if not path.is_dir():
            raise CoviewsError(f"cannot read the image {path}: {broken[0][1]}")
        raise CoviewsError(f"there is no readable image in {path}: {_listed(broken)}")
    if broken:
        warnings.warn(f"{len(broken)} broken and skipped in {path}: {_listed(broken)}", stacklevel=3)
    height, width = decoded.images.shape[1:3]
    if decoded.resized and size is None:
        warnings.warn(
            f"{decoded.resized} of {len(names)} images are not of the most common size, {height} x {width}: "
            "they are resized and cropped to it (give a size to choose another)",
            stacklevel=3,
        )
    kept = [names[i] for i in decoded.kept]
    index = {name: i for i, name in enumerate(classes or ())}
    labels = np.array([index[name.split("/")[0]] for name in kept], np.int64) if classes else None
    return ImageSet(decoded.images, labels, classes, tuple(kept), tuple(broken))


def _classes(names: list[str]) -> tuple[str, ...] | None:
    """The first-level sub folders, if every file is in one and there are several."""
    firsts = {name.split("/")[0] for name in names}
    return tuple(sorted(firsts)) if len(firsts) > 1 and all("/" in name for name in names) else None


def _converted(images: NDArray[np.uint8], channels: int | None) -> NDArray[np.uint8]:
    """(N, H, W, C) with as many channels as wanted, grey as Pillow makes it."""
    if channels is None or channels == images.shape[3]:
        return images
    if channels == 3:
        return np.repeat(images, 3, axis=3)
    grey = np.empty((*images.shape[:3], 1), np.uint8)
    for image, target in zip(images, grey, strict=True):
        target[..., 0] = np.asarray(converted(Image.fromarray(image), 1))
    return grey


def _spread(n: int, limit: int) -> NDArray[np.int64]:
    """At most `limit` of n indices, evenly apart: the first ones of a sorted folder are all of one class."""
    return np.arange(min(n, limit)) * n // min(n, limit) if n else np.empty(0, np.int64)


def _check_size(size: Any) -> tuple[int, int] | None:
    if size is None:
        return None
    pair = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(pair) != 2 or not all(isinstance(s, int | np.integer) and 0 < s <= LARGEST for s in pair):
        raise CoviewsError(
            f"the size must be a whole number of 1 to {LARGEST} pixels, or (height, width), not {size!r}"
        )
    return int(pair[0]), int(pair[1])


def _existing(name: str) -> Path:
    path = Path(name).expanduser()
    if name and os.path.exists(path):
        return path
    if difflib.get_close_matches(name.lower(), BUILT_IN, cutoff=0.6):
        raise unknown("folder, file or data set", name, BUILT_IN)
    raise CoviewsError(f"there is no file or folder {name!r}; for images to try things out, write 'shapes'")


def _listed(broken: list[Broken]) -> str:
    named = ", ".join(f"{name} ({why})" for name, why in broken[:_NAMED])
    return named + (f" and {len(broken) - _NAMED} more" if len(broken) > _NAMED else "")
