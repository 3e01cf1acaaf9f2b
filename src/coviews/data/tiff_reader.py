"""Reading TIFF files that are more than a picture of 8 bits: deep values, many channels, several pages."""

import logging
import math
import zlib
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from coviews.data.frames import Axes, Stack, choose_frames
from coviews.data.picture_reader import Header, check_room

if TYPE_CHECKING:
    from tifffile import TiffFile, TiffPage, TiffPageSeries

_COLOURS = {2: 3, 5: 4, 6: 3, 8: 3, 9: 3, 10: 3}  # samples of a photometric interpretation, if not one
_WHITE_IS_ZERO, _PALETTE = 0, 3
_ALPHA = (1, 2)
_PLAIN, _DEFLATE, _PACKBITS = (1,), (8, 32946), (32773,)
_BY_CODECS = (5,)  # LZW: by imagecodecs, where it is installed
_NOT_APART = "its pages cannot be told apart"
_LEAST = 18  # bytes of the list of a page's tags
_CHECKED = 1 << 20  # bytes that are inflated at once to find out how large compressed data are
_GROWTH, _SMALL = 1032, 64 << 20  # times that deflate can grow, at most; bytes that need not be found out before

logging.getLogger("tifffile").addHandler(logging.NullHandler())  # it logs to the console what is wrong with files


def is_tiff(start: bytes) -> bool:
    """Whether a file begins like a TIFF file."""
    return start[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def tiff_header(file: IO[bytes], frames: str | int | None) -> Header | None:
    """The header of a TIFF file; None for a picture of 8 bits, which Pillow reads."""
    with _opened(file) as tiff:
        series, page = tiff.series[0], _first_page(tiff.series[0])
        if _is_single_picture(series):
            return None
        stack = _stack(series, frames)
        return Header(page.imagelength, page.imagewidth, stack.channels, _depth(page), stack.remark)


def tiff_pixels(file: IO[bytes], frames: str | int | None) -> NDArray[Any] | None:
    """The pixels (H, W, C) of a TIFF file, upright; None for a picture of 8 bits, which Pillow reads."""
    with _opened(file) as tiff:
        series, page = tiff.series[0], _first_page(tiff.series[0])
        if _is_single_picture(series):
            return None
        parts = [_page_pixels(file, series, index) for index in _stack(series, frames).pages]
        return _upright(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2), _orientation(page))


def tiff_frames(file: IO[bytes]) -> int:
    """The number of pages of equal shape in a TIFF file."""
    with _opened(file) as tiff:
        count = _page_count(tiff.series[0])
        if count > len(tiff.series[0].pages):  # its description may say anything
            raise ValueError(_NOT_APART)
        return count


def _is_single_picture(series: "TiffPageSeries") -> bool:
    return _is_picture(_first_page(series)) and _page_count(series) == 1


def _opened(file: IO[bytes]) -> "TiffFile":
    from tifffile import TiffFile

    length = file.seek(0, 2)
    file.seek(0)
    tiff = TiffFile(file, _multifile=False)  # the file must not name others to be read
    if len(tiff.pages) > length // _LEAST:  # to count them first also ends a chain that leads back to an earlier page
        tiff.close()
        raise ValueError(_NOT_APART)
    return tiff


def _first_page(series: "TiffPageSeries") -> "TiffPage":
    page: Any = series.keyframe
    kind = "complex" if page.sampleformat in (5, 6) else None
    if kind or page.dtype is None:
        raise ValueError(f"pixels of {kind or 'an unknown'} type")
    return page


def _is_picture(page: "TiffPage") -> bool:
    """Whether Pillow reads the page as it is: 8 bits at most, and no channels besides colours and alpha."""
    extra = page.samplesperpixel - _COLOURS.get(page.photometric, 1)
    alpha = all(sample in _ALPHA for sample in page.extrasamples)
    return page.bitspersample <= 8 and page.sampleformat == 1 and (extra <= 0 or (extra == 1 and alpha))


def _depth(page: "TiffPage") -> int | None:
    return 8 if page.dtype == np.uint8 else None


def _page_count(series: "TiffPageSeries") -> int:
    return math.prod(size for axis, size in zip(series.axes, series.shape, strict=True) if axis not in "YXS")


def _samples(page: "TiffPage") -> int:
    """The channels of a page, without alpha."""
    return page.samplesperpixel - sum(sample in _ALPHA for sample in page.extrasamples)


def _stack(series: "TiffPageSeries", frames: str | int | None) -> Stack:
    page = _first_page(series)
    if set(page.axes) - set("YXS"):
        raise ValueError(f"an image with the axes {page.axes}")
    axes = Axes(
        tuple(axis for axis in series.axes if axis not in "YXS"),
        tuple(size for axis, size in zip(series.axes, series.shape, strict=True) if axis not in "YXS"),
    )
    stack = choose_frames(axes, _samples(page), frames)
    size = np.dtype(page.dtype).itemsize
    check_room(page.imagelength, page.imagewidth, max(page.samplesperpixel * len(stack.pages), 1), size)
    return stack


def _page_pixels(file: IO[bytes], series: "TiffPageSeries", index: int) -> NDArray[Any]:
    """One page (H, W, C), without alpha."""
    if index >= len(series.pages):  # ImageJ writes stacks of more than 4 GB behind a single page
        raise ValueError(_NOT_APART)
    page: Any = series.pages[index]
    page = page.aspage()
    compression = int(page.compression)
    if compression in _BY_CODECS and page.samplesperpixel == 1:
        return _by_pillow(file, page.index)
    _check_segments(file, page, compression)
    try:
        return _last_channels(page.asarray(), page)
    except ValueError as error:
        if "imagecodecs" in str(error):
            name = getattr(page.compression, "name", compression)
            raise ValueError(f"compressed as {name}: pip install imagecodecs, or save it with deflate") from error
        raise


def _by_pillow(file: IO[bytes], index: int) -> NDArray[Any]:
    """A page of one sample, by Pillow's own libtiff."""
    file.seek(0)
    with Image.open(file, formats=("TIFF",)) as picture:
        picture.seek(index)
        return np.array(picture)[..., None]


def _last_channels(pixels: NDArray[Any], page: "TiffPage") -> NDArray[Any]:
    """The pixels of a page as (H, W, C), without alpha; black is the lowest value."""
    if page.axes == "SYX":
        pixels = pixels.transpose(1, 2, 0)
    pixels = pixels.reshape(page.imagelength, page.imagewidth, -1)
    extra = page.samplesperpixel - len(page.extrasamples)
    kept = [*range(extra), *(extra + i for i, sample in enumerate(page.extrasamples) if sample not in _ALPHA)]
    pixels = pixels[..., kept] if len(kept) < pixels.shape[2] else pixels
    if page.photometric == _PALETTE:
        raise ValueError("deep palette colours")
    if page.photometric == _WHITE_IS_ZERO and pixels.dtype.kind == "u":
        pixels = np.iinfo(pixels.dtype).max - pixels
    return pixels


def _check_segments(file: IO[bytes], page: Any, compression: int) -> None:
    """An error if the file is shorter than it should be, or decompressing it takes far more memory than it should."""
    if compression not in (*_PLAIN, *_DEFLATE, *_PACKBITS, *_BY_CODECS):
        name = getattr(page.compression, "name", compression)
        raise ValueError(f"compressed as {name}: save it uncompressed or with deflate")
    end, left = file.seek(0, 2), 2 * page.nbytes + _CHECKED
    for offset, count in zip(page.dataoffsets, page.databytecounts, strict=False):
        if offset + count > end:
            raise ValueError("the file is truncated")
    if compression in _DEFLATE and _GROWTH * sum(page.databytecounts) > max(left, _SMALL):
        for offset, count in zip(page.dataoffsets, page.databytecounts, strict=False):
            left -= _inflated(file, offset, count, left)


def _inflated(file: IO[bytes], offset: int, count: int, most: int) -> int:
    """The size of compressed data, which are not kept; an error if it is more than it should be."""
    file.seek(offset)
    inflate, total, rest = zlib.decompressobj(), 0, b""
    while count or rest:
        chunk = rest or file.read(min(count, _CHECKED))
        count -= 0 if rest else len(chunk)
        if not chunk:
            return total
        total += len(inflate.decompress(chunk, _CHECKED))
        rest = inflate.unconsumed_tail
        if total > most:
            raise ValueError("its compressed data are larger than its size says")
    return total


def _orientation(page: "TiffPage") -> int:
    tag = page.tags.get(274)
    return int(tag.value) if tag is not None and isinstance(tag.value, int) else 1


def _upright(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """The pixels (H, W, C) turned as the tag Orientation says."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels
