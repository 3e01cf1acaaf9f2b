"""Arrays of NumPy in files (.npy, .npz): headers are checked before memory is allocated; nothing is executed."""

import math
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coviews.boundary.archives import open_zip
from coviews.boundary.regular import open_regular
from coviews.errors import CoviewsError

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 4096  # bytes
_DIMENSIONS = 16
_KINDS = "biufcSU"  # of types: numbers and texts
_ENTRY = r"""'descr':\s*'[^'\n]{1,40}'|'fortran_order':\s*(?:True|False)|'shape':\s*\([\d,\sL]*+\)"""
_HEADER = re.compile(rf"\{{\s*+(?:(?:{_ENTRY})\s*+,?\s*+){{3}}\}}\s*+")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those that NumPy writes
_RATIO, _SMALL = 200, 256 * 2**20  # more than so many times its size in the file, an array must not be larger than this
_AT_ONCE = 2**20  # bytes


class _Header(NamedTuple):
    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def map_array(path: str | Path, kind: str = "array") -> NDArray[Any]:
    """The array in a .npy file, mapped from it.

    kind: what the file is, for errors.
    """
    try:
        with open_regular(path, kind) as file:
            header = _header(file)
            start, size = file.tell(), os.fstat(file.fileno()).st_size
            if header.bytes > size - start:
                raise ValueError(f"it has {size - start:,} bytes of the {header.bytes:,} that its header tells")
            if not header.bytes:
                return np.empty(header.shape, header.dtype)
            order = "F" if header.by_columns else "C"
            return np.memmap(file, header.dtype, "r", start, header.shape, order)  # type: ignore[call-overload]
    except CoviewsError:
        raise
    except (OSError, ValueError, OverflowError) as error:
        raise CoviewsError(f"cannot read the {kind} {path}: {_reason(error)}") from error


class Arrays:
    """The arrays of an open .npz file."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}

    @property
    def names(self) -> list[str]:
        """Of all arrays."""
        return list(self._members)

    def read(self, name: str, most: int | None = None) -> NDArray[Any]:
        """One array, measured while it is read.

        most: bytes that it may have.
        """
        info = self._members[name]
        if info.compress_type not in _METHODS or info.flag_bits & 1:
            raise ValueError(f"{name} is encrypted, or compressed in a way that NumPy does not write")
        with self._archive.open(info) as member:
            header = _header(member)
            need = header.bytes
            if most is not None and need > most:
                raise ValueError(f"{name} needs {need:,} bytes of memory, and {most:,} are free for it")
            if need > info.file_size:
                raise ValueError(f"{name} has {info.file_size:,} bytes, fewer than its header tells")
            if need > max(_RATIO * info.compress_size, _SMALL):
                raise ValueError(f"{name} would grow from {info.compress_size:,} to {need:,} bytes, as no images do")
            flat = np.empty(math.prod(header.shape), header.dtype)
            self._fill(flat.view(np.uint8).data if need else memoryview(b""), member, name)
        return flat.reshape(header.shape, order="F" if header.by_columns else "C")

    @staticmethod
    def _fill(place: memoryview, member: IO[bytes], name: str) -> None:
        done = 0
        while done < len(place):
            block = member.read(min(_AT_ONCE, len(place) - done))
            if not block:
                raise ValueError(f"{name} is shorter than its header tells")
            place[done : done + len(block)] = block
            done += len(block)
        if member.read(1):  # also compares the checksum
            raise ValueError(f"{name} is longer than its header tells")


@contextmanager
def open_arrays(path: str | Path, kind: str = "array") -> Iterator[Arrays]:
    """The arrays of a .npz file, open for as long as they are read; what is wrong with it is an error."""
    try:
        with open_regular(path, kind) as file, open_zip(file) as archive:
            yield Arrays(archive)
    except CoviewsError:
        raise
    except (
        OSError, ValueError, EOFError, KeyError, OverflowError, RuntimeError, NotImplementedError, zipfile.BadZipFile,
        zlib.error,
    ) as error:  # fmt: skip
        raise CoviewsError(f"cannot read the {kind} {path}: {_reason(error)}") from error


def _header(file: IO[bytes]) -> _Header:
    """The shape and type of an array, or a ValueError."""
    start = file.read(8)
    if len(start) < 8 or not start.startswith(_MAGIC) or start[6] not in (1, 2, 3):
        raise ValueError("it is not a file of NumPy, or it is damaged")
    length = int.from_bytes(file.read(2 if start[6] == 1 else 4), "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"its header has {length:,} bytes")
    text = file.read(length).decode("latin-1")
    if "'|O'" in text or "'O'" in text:
        raise ValueError("it holds Python objects, which are not loaded because they can run code")
    if len(text) < length or not _HEADER.fullmatch(text):
        raise ValueError("its header is damaged, or of a type of several parts")
    entries = dict(re.findall(r"'(\w+)':\s*('[^']*'|True|False|\([^)]*\))", text))
    if len(entries) < 3:
        raise ValueError("its header is damaged")
    sides = [side.strip(" L") for side in entries["shape"].strip("()").split(",") if side.strip()]
    if len(sides) > _DIMENSIONS or not all(side.isdecimal() and len(side) < 16 for side in sides):
        raise ValueError("its shape is too large or damaged")
    try:
        dtype = np.dtype(entries["descr"].strip("'"))
    except (TypeError, ValueError, SyntaxError) as error:
        raise ValueError("its type is not one of NumPy's") from error
    if dtype.kind not in _KINDS or dtype.itemsize < 1:
        raise ValueError(f"its type is {dtype}: numbers or texts are needed")
    return _Header(tuple(int(side) for side in sides), entries["fortran_order"] == "True", dtype)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or "it is damaged"
