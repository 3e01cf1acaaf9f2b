"""Reading DICOM files through pydicom, an optional dependency."""

import warnings
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from coviews.data.frames import Axes, Stack, choose_frames
from coviews.data.picture_reader import Header, check_room
from coviews.errors import CoviewsError

warnings.filterwarnings("ignore", module=r"pydicom\.")  # what is wrong with a file is said by us, in a line
DICOM = (".dcm", ".dicom")
_ITEM = 8  # bytes before each compressed frame
_HEADER, _META = 64 << 20, 1 << 16  # bytes before the pixels, and of the part that says how they are stored
_MOST_PIXELS = 1 << 30  # bytes of all frames of a file
_DEFLATED = b"1.2.840.10008.1.2.1.99"  # the whole file is compressed: how large it gets is not known beforehand


def is_dicom(start: bytes, name: str) -> bool:
    """Whether a file begins like a DICOM file, or is called so."""
    return start[128:132] == b"DICM" or name.lower().endswith(DICOM)


def dicom_header(file: IO[bytes], frames: str | int | None) -> Header:
    """The header of a DICOM file."""
    content = _read(file, pixels=False)
    stack = _stack(file, content, frames)
    height, width = _number(content, "Rows"), _number(content, "Columns")
    check_room(height, width, stack.channels, _number(content, "BitsAllocated") // 8)
    plain = _number(content, "BitsAllocated") <= 8 and not _number(content, "PixelRepresentation", 0)
    return Header(height, width, stack.channels, 8 if plain and _rescale(content) == (1, 0) else None, stack.remark)


def dicom_pixels(file: IO[bytes], frames: str | int | None) -> NDArray[Any]:
    """The values (H, W, C) of a DICOM file, rescaled to the units that it names, such as Hounsfield."""
    dicom_header(file, frames)  # the checks of its size
    content = _read(file, pixels=True, most=_HEADER + min(file.seek(0, 2), _MOST_PIXELS))
    from pydicom.pixels import pixel_array

    stack = _stack(file, content, frames)
    samples = _number(content, "SamplesPerPixel", 1)
    parts = [np.asarray(pixel_array(content, index=index)) for index in stack.pages]
    pixels = np.concatenate([part.reshape(*part.shape[:2], samples) for part in parts], axis=2)
    if content.get("PhotometricInterpretation") == "MONOCHROME1" and not _number(content, "PixelRepresentation", 0):
        pixels = 2 ** _number(content, "BitsStored") - 1 - pixels
    slope, intercept = _rescale(content)
    return pixels if (slope, intercept) == (1, 0) else pixels.astype(np.float32) * slope + intercept


def dicom_frames(file: IO[bytes]) -> int:
    """The number of frames of a DICOM file."""
    return _frame_count(file, _read(file, pixels=False))


class _Bounded:
    """A file of which only so much is read: an element may claim any length, or none."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self.name, self._file, self._left = str(getattr(file, "name", "")), file, most
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(content)
        if self._left < 0:
            raise ValueError("a DICOM file with too much besides its pixels")
        return content


def _read(file: IO[bytes], *, pixels: bool, most: int = _HEADER) -> Any:
    try:
        import pydicom
    except ImportError as error:
        raise CoviewsError("DICOM files need pydicom: pip install 'coviews[dicom]'") from error
    try:
        file.seek(0)
        if _DEFLATED in file.read(_META):
            raise ValueError("a deflated DICOM file: save it in another transfer syntax")
        file.seek(0)
        content = pydicom.dcmread(cast(Any, _Bounded(file, most)), stop_before_pixels=not pixels)
    except pydicom.errors.InvalidDicomError as error:
        raise ValueError("not a DICOM file") from error
    if "Rows" not in content or "Columns" not in content:
        raise ValueError("a DICOM file without pixels")
    if pixels and "PixelData" not in content and "FloatPixelData" not in content:
        raise ValueError("a DICOM file without pixels")
    if content.get("PhotometricInterpretation") == "PALETTE COLOR":
        raise ValueError("DICOM with a palette of colours")
    return content


def _frame_count(file: IO[bytes], content: Any) -> int:
    """The number of frames; an error if the file is too short for as many."""
    count = max(1, _number(content, "NumberOfFrames", 1))
    syntax = content.file_meta.get("TransferSyntaxUID") if "file_meta" in vars(content) else None
    bits = _number(content, "Rows") * _number(content, "Columns") * _number(content, "BitsAllocated")
    least = _ITEM if syntax is not None and syntax.is_compressed else max(1, bits // 8)
    if count > max(1, file.seek(0, 2) // least):
        raise ValueError(f"{count:,} frames, more than the file can hold")
    return count


def _stack(file: IO[bytes], content: Any, frames: str | int | None) -> Stack:
    count = _frame_count(file, content)
    return choose_frames(Axes(("I",), (count,)), _number(content, "SamplesPerPixel", 1), frames)


def _rescale(content: Any) -> tuple[float, float]:
    return float(content.get("RescaleSlope") or 1), float(content.get("RescaleIntercept") or 0)


def _number(content: Any, name: str, default: int | None = None) -> int:
    value = content.get(name)
    if value is None or value == "":
        if default is None:
            raise ValueError(f"a DICOM file without {name}")
        return default
    return int(value)
