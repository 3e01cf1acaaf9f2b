"""Arrays of numbers in MATLAB's files of version 5, as SVHN has them.

SciPy's reader ends the whole process on some damaged files; this one checks every length before it is used.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

_HEADER = 128  # bytes
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {
    1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8",
}  # fmt: skip
_CLASSES = {
    6: "<f8", 7: "<f4", 8: "i1", 9: "u1", 10: "<i2", 11: "<u2", 12: "<i4", 13: "<u4", 14: "<i8", 15: "<u8",
}  # fmt: skip
_MOST_AXES = 8


def read_mat(file: BinaryIO, most: int) -> dict[str, NDArray[np.generic]]:
    """The arrays of numbers in an open file, by their names.

    Args:
        file: at its beginning.
        most: bytes of an array at most, which is checked while it is decompressed.

    Raises:
        ValueError: it is another file, or is damaged.
    """
    header = file.read(_HEADER)
    if len(header) < _HEADER or header[126:128] != b"IM" or header[125] != 1:
        raise ValueError("no MATLAB file of version 5")
    size, arrays = os.fstat(file.fileno()).st_size, {}
    while tag := file.read(8):
        kind, length = struct.unpack("<II", _whole(tag, 8))
        content = _whole(file.read(min(length, size)), length)
        if kind == _COMPRESSED:
            content = _decompressed(content, most)
            kind, length = struct.unpack("<II", _whole(content[:8], 8))
            content = _whole(content[8:], length)
        if kind == _MATRIX and (named := _array(content)) is not None:
            arrays[named[0]] = named[1]
    return arrays


def _decompressed(content: bytes, most: int) -> bytes:
    try:
        stream = zlib.decompressobj()
        whole = stream.decompress(content, most)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not stream.eof:
        raise ValueError("an array is cut off, or larger than a file of this size should hold")
    return whole


def _array(content: bytes) -> tuple[str, NDArray[np.generic]] | None:
    """The name and the values of a matrix; None if they are not plain numbers."""
    parts = _elements(content)
    flags, dimensions, name, *values = (next(parts, (0, b"")) for _ in range(4))
    if len(flags[1]) != 8 or flags[1][1] & 0b1000:  # complex
        return None
    shape = np.frombuffer(_whole(dimensions[1], len(dimensions[1]) // 4 * 4), "<i4")
    kind = _CLASSES.get(flags[1][0])
    if kind is None or values[0][0] not in _NUMBERS:
        return None
    numbers = np.frombuffer(values[0][1], _NUMBERS[values[0][0]])
    if not 1 <= len(shape) <= _MOST_AXES or (shape < 0).any():
        raise ValueError(f"an array has the shape {shape[:_MOST_AXES].tolist()}")
    return name[1].decode("ascii", "replace"), numbers.reshape(shape.tolist(), order="F").astype(kind, copy=False)


def _elements(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The type and the bytes of each element of a matrix."""
    place = 0
    while place < len(content):
        kind, length = struct.unpack("<II", _whole(content[place : place + 8], 8))
        if kind >> 16:  # a short one, within its own tag
            kind, length = kind & 0xFFFF, kind >> 16
            yield kind, _whole(content[place + 4 : place + 4 + min(length, 4)], length)
            place += 8
        else:
            yield kind, _whole(content[place + 8 : place + 8 + length], length)
            place += 8 + (length + 7) // 8 * 8


def _whole(content: bytes, length: int) -> bytes:
    if len(content) != length:
        raise ValueError("it is cut off")
    return content
