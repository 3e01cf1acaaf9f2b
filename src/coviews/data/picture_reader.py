"""Reading one picture with Pillow: its size without decoding it, and its pixels."""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageFile, ImageOps, UnidentifiedImageError

from coviews.data.levels import MAX_PIXELS, OtherChannels, Target, fitted_array, widened

_DEEP_MODES = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")
_GREY_MODES = ("1", "L", "LA", "La", *_DEEP_MODES)
_NOT_DECODED = ("EPS", "MPEG")  # a program for Ghostscript, and films
_COMMON = ("JPEG", "PNG")
_TURNED = (5, 6, 7, 8)  # EXIF orientations that swap width and height
_MOST_BYTES = 8 * MAX_PIXELS  # of a file, and of the pixels of one image: several formats are read at once
_TIFF, _PNG, _JPEG = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), b"\x89PNG\r\n\x1a\n", b"\xff\xd8"  # how they begin
_PORTABLE, _REMARKS = 2**16, 100  # bytes of the header, and remarks in it, of a file of PPM's family
_SCAN = 0xDA  # the marker of a JPEG file after which its pixels follow
_DESCRIPTION = 16 * 2**20  # bytes besides the pixels, such as EXIF and colour profiles


warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # there is a limit of our own


class Header(NamedTuple):
    """The size, channels and depth of an image, known before it is decoded."""

    height: int
    width: int
    channels: int
    depth: int | None = 8  # bits of its levels; None for values that have to be scaled by the range of the data set
    remark: str = ""  # what is said of files like it, such as how their pages are read
    reducible: bool = False  # whether it can be decoded at a half, a quarter or an eighth of its sides

    @property
    def bytes(self) -> int:
        """That its pixels take while they are decoded, about."""
        return self.height * self.width * max(self.channels, 3) * (1 if self.depth == 8 else 4)

    def within(self, max_pixels: int) -> "Header | str":
        """The same as it will be decoded, or why it is too large."""
        pixels = self.height * self.width
        if pixels <= max_pixels:
            return self
        scale = reduction(pixels, max_pixels) if self.reducible else None
        if scale is None:
            return f"{pixels:,} pixels, more than the {max_pixels:,} of --max-pixels"
        return self._replace(height=-(-self.height // scale), width=-(-self.width // scale))


def reduction(pixels: int, max_pixels: int) -> int | None:
    """By how much each side is reduced so that there are not too many pixels; None if no decoder can."""
    return next((scale for scale in (1, 2, 4, 8) if pixels <= max_pixels * scale**2), None)


def picture_header(file: IO[bytes]) -> Header:
    """The header of an image file that Pillow reads, without decoding it."""
    _check_length(file)
    file.seek(0)
    start = file.read(26)
    file.seek(0)
    with Image.open(file, formats=_formats()) as picture:
        if any(tile[0] == "fits_gzip" for tile in picture.tile):  # Pillow would inflate it without a limit
            raise ValueError("a compressed FITS image: save it uncompressed")
        width, height = picture.size
        if _is_turned(picture):
            width, height = height, width
        reduced = picture.format == "PNG" and start[24] == 16 and picture.mode not in _DEEP_MODES
        remark = "of the 16 bits of a colour in PNG files 8 are kept; TIFF files keep all" if reduced else ""
        reducible = picture.format == "JPEG"
        return header_of(picture)._replace(height=height, width=width, remark=remark, reducible=reducible)


def header_of(picture: Image.Image) -> Header:
    """The header of a Pillow image, as it lies."""
    depth = None if picture.mode in _DEEP_MODES else 8
    return Header(picture.height, picture.width, 1 if picture.mode in _GREY_MODES else 3, depth)


def upright_picture(file: IO[bytes], max_pixels: int) -> Image.Image:
    """An image file as a Pillow image, upright; reduced if it has too many pixels and its format can be.

    Pillow must not get the file's name: it would map a plain TIFF file, and garble a rotated one.
    """
    _check_length(file)
    file.seek(0)
    with Image.open(file, formats=_formats()) as picture:
        width, height = picture.size
        scale = reduction(width * height, max_pixels) if picture.format == "JPEG" else 1
        if scale is not None and scale > 1:
            picture.draft(None, (width // scale, height // scale))
        picture.load()
        return ImageOps.exif_transpose(picture) if _orientation(picture) != 1 else picture


def _check_length(file: IO[bytes]) -> None:
    """An error for a file that is longer than its pixels can be: Pillow reads some formats whole, and all metadata."""
    size = file.seek(0, 2)
    file.seek(0)
    start = file.read(8)
    if size > _MOST_BYTES and not start.startswith(_TIFF):
        raise ValueError(f"a file of {size:,} bytes is too large for an image")
    if start[:1] == b"P" and start[1:2] in b"123456fFy":
        _check_portable(file, size)
    lengths: Iterator[int] = iter(())
    if size > _DESCRIPTION and start == _PNG:
        lengths = _png_description(file)
    elif size > _DESCRIPTION and start.startswith(_JPEG):
        lengths = _jpeg_description(file)
    total = 0
    for length in lengths:
        total += length
        if total > _DESCRIPTION:
            raise ValueError(f"it has more than {_DESCRIPTION:,} bytes besides its pixels")


def _check_portable(file: IO[bytes], size: int) -> None:
    """An error for a file of PPM's family that Pillow would read byte by byte for minutes."""
    file.seek(0)
    lines = file.read(_PORTABLE).split(b"\n")
    words = b" ".join(line.partition(b"#")[0] for line in lines).split(None, 4)
    if size > _PORTABLE and len(words) < 4:
        raise ValueError("its header does not end")
    if words[0][1:2] in b"123":  # numbers as text
        file.seek(0)
        if size > _DESCRIPTION or file.read().count(b"#") > _REMARKS:
            raise ValueError("pixels as text with too many of them, or too many remarks: save it as another format")


def _png_description(file: IO[bytes]) -> Iterator[int]:
    """The length of each chunk of a PNG file that is not of pixels."""
    place = len(_PNG)
    while True:
        file.seek(place)
        head = file.read(8)
        if len(head) < 8:
            return
        length = int.from_bytes(head[:4], "big")
        place += length + 12
        if head[4:] not in (b"IDAT", b"fdAT"):
            yield length + 12


def _jpeg_description(file: IO[bytes]) -> Iterator[int]:
    """The length of each segment of a JPEG file before its pixels."""
    place = 2
    while True:
        file.seek(place)
        head = file.read(4)
        if len(head) < 4 or head[0] != 0xFF or head[1] == _SCAN:
            return
        length = 2 + int.from_bytes(head[2:], "big") if head[1] != 0xFF else 1  # a byte that only fills
        place += length
        yield length


def picture_array(picture: Image.Image, target: Target) -> tuple[NDArray[Any], bool]:
    """A Pillow image as the target says, and whether it was resized."""
    if picture.mode in _DEEP_MODES:
        return fitted_array(np.asarray(picture)[..., None], target)
    if target.channels not in (1, 3):
        raise OtherChannels(header_of(picture).channels, target.channels)
    picture = converted(picture, target.channels)
    levels = fitted(picture, target.height, target.width)
    return widened(levels, target.dtype), picture.size != (target.width, target.height)


def check_room(height: int, width: int, channels: int, bytes_per_value: int) -> None:
    """An error for an image that has no pixels, or is far too large: a damaged header may say anything."""
    if height < 1 or width < 1:
        raise ValueError(f"an image of {height} x {width} pixels")
    size = bytes_per_value if bytes_per_value == 1 else max(bytes_per_value, 4)  # deep ones become floats of 32 bits
    if height * width * channels * size > _MOST_BYTES:
        raise ValueError(f"an image of {height:,} x {width:,} pixels is too large")


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
def picture_extensions() -> frozenset[str]:
    """The file name extensions of all formats that Pillow can decode."""
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
