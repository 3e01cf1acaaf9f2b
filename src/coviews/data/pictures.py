"""One picture: its size without decoding it, and its pixels as Pillow gives them."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageFile, ImageOps, UnidentifiedImageError

_GREY_MODES = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16B", "I;16L", "I;16N")
_NOT_DECODED = ("EPS", "MPEG")  # the one is a program for another program to run, the other is a film
_COMMON = ("JPEG", "PNG")
_TURNED = (5, 6, 7, 8)  # EXIF orientations that swap width and height


class Header(NamedTuple):
    """What is known of an image before it is decoded."""

    height: int
    width: int
    grey: bool


def read_header(file: IO[bytes]) -> Header:
    """Size and colour of an image file without decoding it."""
    with Image.open(file, formats=_formats()) as picture:
        width, height = picture.size
        if _is_turned(picture):
            width, height = height, width
        return Header(height, width, is_grey(picture))


def read_picture(file: IO[bytes], channels: int) -> Image.Image:
    """An image file as a Pillow image of mode L or RGB, upright.

    Never give Pillow the file's name: it maps a plain TIFF file that it knows by name, and garbles it where it is
    turned.
    """
    with Image.open(file, formats=_formats()) as picture:
        picture.load()
        upright = ImageOps.exif_transpose(picture) if _orientation(picture) != 1 else picture
        return converted(upright, channels)


def is_grey(picture: Image.Image) -> bool:
    """Whether a picture has no colours by its mode."""
    return picture.mode in _GREY_MODES


def converted(picture: Image.Image, channels: int) -> Image.Image:
    """The image as L or RGB, as Pillow converts it."""
    if channels == 1 or picture.mode in _GREY_MODES:
        picture = picture.convert("L")
    elif picture.mode == "P" and "transparency" in picture.info:
        picture = picture.convert("RGBA")  # Pillow warns otherwise; the colours are the same
    return picture.convert("L" if channels == 1 else "RGB")


def fitted(picture: Image.Image, height: int, width: int) -> NDArray[np.uint8]:
    """The image (H, W, C), resized until its shorter side fits, and the middle cropped."""
    if picture.size != (width, height):
        picture = ImageOps.fit(picture, (width, height), Image.Resampling.BILINEAR)
    return np.asarray(picture).reshape(height, width, -1)


def most_common_size(headers: Iterable[Header]) -> tuple[int, int]:
    """The most common (height, width); among equally common ones the one in the middle by area."""
    sizes = Counter((h.height, h.width) for h in headers)
    most = max(sizes.values())
    tied = sorted((s for s, n in sizes.items() if n == most), key=lambda s: (s[0] * s[1], s))
    return tied[(len(tied) - 1) // 2]


def reason(error: Exception) -> str:
    """Why an image cannot be read, in few words and without its path."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__


@cache
def extensions() -> frozenset[str]:
    """The file name extensions of what can be decoded."""
    known = _formats()
    return frozenset(ext for ext, name in Image.registered_extensions().items() if name in known)


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    stubs = (name for name, (opener, _) in Image.OPEN.items() if _is_stub(opener))
    left_out = {*stubs, *_NOT_DECODED}
    # Pillow tries one after the other: what is common comes first
    return tuple(name for name in dict.fromkeys((*_COMMON, *Image.OPEN)) if name not in left_out)


def _is_stub(opener: object) -> bool:
    """Whether Pillow knows the format by name only."""
    return isinstance(opener, type) and issubclass(opener, ImageFile.StubImageFile)


def _is_turned(picture: Image.Image) -> bool:
    """Whether width and height will be swapped once it is decoded and upright."""
    if picture.format == "TIFF":
        return False  # Pillow has swapped them already
    if picture.format == "PNG" and "exif" not in picture.info:
        return False  # Pillow would decode it to look behind the pixels
    return _orientation(picture) in _TURNED


def _orientation(picture: Image.Image) -> int:
    """The EXIF orientation; upright where the EXIF is damaged, for the image may be whole."""
    try:
        return int(picture.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:
        return 1
