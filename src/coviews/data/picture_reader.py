"""Reading one picture with Pillow: its size without decoding it, and its pixels."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageFile, ImageOps, UnidentifiedImageError

_GREY_MODES = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16B", "I;16L", "I;16N")
_NOT_DECODED = ("EPS", "MPEG")  # a program for Ghostscript, and films
_COMMON = ("JPEG", "PNG")
_TURNED = (5, 6, 7, 8)  # EXIF orientations that swap width and height


class Header(NamedTuple):
    """The size and colours of an image, known before it is decoded."""

    height: int
    width: int
    grey: bool


def read_header(file: IO[bytes]) -> Header:
    """The header of an image file, without decoding it."""
    with Image.open(file, formats=_formats()) as picture:
        width, height = picture.size
        if _is_turned(picture):
            width, height = height, width
        return Header(height, width, is_grey(picture))


def read_picture(file: IO[bytes], channels: int) -> Image.Image:
    """An image file as a Pillow image of mode L or RGB, upright.

    Pillow must not get the file's name: it would map a plain TIFF file, and garble a rotated one.
    """
    with Image.open(file, formats=_formats()) as picture:
        picture.load()
        upright = ImageOps.exif_transpose(picture) if _orientation(picture) != 1 else picture
        return converted(upright, channels)


def is_grey(picture: Image.Image) -> bool:
    """Whether the mode of a picture has no colours."""
    return picture.mode in _GREY_MODES


def converted(picture: Image.Image, channels: int) -> Image.Image:
    """The picture converted to mode L or RGB by Pillow."""
    if channels == 1 or picture.mode in _GREY_MODES:
        picture = picture.convert("L")
    elif picture.mode == "P" and "transparency" in picture.info:
        picture = picture.convert("RGBA")  # Pillow warns otherwise; the colours are the same
    return picture.convert("L" if channels == 1 else "RGB")


def fitted(picture: Image.Image, height: int, width: int) -> NDArray[np.uint8]:
    """The picture as (H, W, C): resized to cover the size, then cropped to its middle."""
    if picture.size != (width, height):
        picture = ImageOps.fit(picture, (width, height), Image.Resampling.BILINEAR)
    return np.asarray(picture).reshape(height, width, -1)


def most_common_size(headers: Iterable[Header]) -> tuple[int, int]:
    """The most common (height, width); of several equally common ones, the one of median area."""
    sizes = Counter((h.height, h.width) for h in headers)
    most = max(sizes.values())
    tied = sorted((s for s, n in sizes.items() if n == most), key=lambda s: (s[0] * s[1], s))
    return tied[(len(tied) - 1) // 2]


def reason(error: Exception) -> str:
    """Why an image cannot be read, in a few words and without its path."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__


@cache
def extensions() -> frozenset[str]:
    """The file name extensions of all formats that can be decoded."""
    known = _formats()
    return frozenset(ext for ext, name in Image.registered_extensions().items() if name in known)


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    stubs = (name for name, (opener, _) in Image.OPEN.items() if _is_stub(opener))
    excluded = {*stubs, *_NOT_DECODED}
    # Pillow tries them in this order: common formats first
    return tuple(name for name in dict.fromkeys((*_COMMON, *Image.OPEN)) if name not in excluded)


def _is_stub(opener: object) -> bool:
    """Whether Pillow identifies the format but cannot decode it."""
    return isinstance(opener, type) and issubclass(opener, ImageFile.StubImageFile)


def _is_turned(picture: Image.Image) -> bool:
    """Whether the EXIF orientation swaps width and height."""
    if picture.format == "TIFF":
        return False  # Pillow has swapped them already
    if picture.format == "PNG" and "exif" not in picture.info:
        return False  # Pillow would decode the pixels to find it
    return _orientation(picture) in _TURNED


def _orientation(picture: Image.Image) -> int:
    """The EXIF orientation; 1 (upright) if the EXIF is damaged, since the image may still be readable."""
    try:
        return int(picture.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:
        return 1
