"""Reading an image file of any kind: by Pillow, as TIFF or as DICOM."""

import contextlib
from collections.abc import Callable
from functools import cache
from typing import IO, Any

from numpy.typing import NDArray

from coviews.data.dicom_reader import DICOM, dicom_frames, dicom_header, dicom_pixels, is_dicom
from coviews.data.levels import Target, fitted_array
from coviews.data.picture_reader import (
    Header,
    picture_array,
    picture_extensions,
    picture_header,
    reason,
    upright_picture,
)
from coviews.data.tiff_reader import is_tiff, tiff_frames, tiff_header, tiff_pixels
from coviews.errors import CoviewsError

_START = 132  # bytes that tell the kind of a file
_JPEG, _PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"  # the first bytes of files that tell their size early
_HEAD = 1 << 16  # bytes within which they do


def read_header(file: IO[bytes], frames: str | int | None = None) -> Header:
    """The header of an image file, without decoding it.

    frames: how a file of several pages is read, see `choose_frames`.
    """
    kind = _kind(file)
    if kind == "DICOM":
        return dicom_header(file, frames)
    header = tiff_header(file, frames) if kind == "TIFF" else None
    return header or picture_header(file)


def header_or_reason(content: Callable[..., IO[bytes]], frames: str | None) -> Header | str:
    """The header of a file that is read from an archive or another machine, or why it cannot be read.

    content: gives the whole file, or with a number only its first bytes, which are enough for most photos.
    """
    with contextlib.suppress(Exception):  # the rest may be needed after all
        first = content(_HEAD)
        if first.read(len(_PNG)).startswith((_JPEG, _PNG)):
            return read_header(first, frames)
    try:
        return read_header(content(), frames)
    except CoviewsError:  # such as a library that is not installed
        raise
    except Exception as error:  # decoders of damaged files raise anything
        return reason(error)


def read_image(file: IO[bytes], target: Target, frames: str | int | None = None) -> tuple[NDArray[Any], bool]:
    """An image file decoded as the target says, upright; and whether it was resized."""
    kind = _kind(file)
    if kind == "DICOM":
        return fitted_array(dicom_pixels(file, frames), target)
    pixels = tiff_pixels(file, frames) if kind == "TIFF" else None
    return (
        picture_array(upright_picture(file, target.max_pixels), target)
        if pixels is None
        else fitted_array(pixels, target)
    )


def frame_count(file: IO[bytes]) -> int:
    """The number of pages of a file."""
    kind = _kind(file)
    return dicom_frames(file) if kind == "DICOM" else tiff_frames(file) if kind == "TIFF" else 1


@cache
def extensions() -> frozenset[str]:
    """The file name extensions of all formats that can be decoded."""
    return picture_extensions() | set(DICOM)


def _kind(file: IO[bytes]) -> str:
    file.seek(0)
    start = file.read(_START)
    if is_tiff(start):
        return "TIFF"
    return "DICOM" if is_dicom(start, str(getattr(file, "name", ""))) else "picture"
