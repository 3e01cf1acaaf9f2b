"""Archives (zip): how long their list of members is, is known before it is read."""

import zipfile
from typing import BinaryIO

_LONGEST_LIST = 16 * 2**20  # bytes: some hundred thousand members
_END, _LONG_END = b"PK\x05\x06", b"PK\x06\x06"  # how the records begin that tell the length of the list
_TAIL = 2**16 + 256  # bytes at the end of a file in which they are


def open_zip(file: BinaryIO) -> zipfile.ZipFile:
    """An archive in an open file; a ValueError if its list of members would take much memory."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _TAIL))
    tail = file.read(_TAIL)
    lengths = [
        int.from_bytes(tail[place + first : place + first + count], "little")
        for start, first, count in ((_END, 12, 4), (_LONG_END, 40, 8))
        if (place := tail.rfind(start)) >= 0
    ]
    # a length that does not fit into four bytes stands in the long record, and all ones in its place
    if any(_LONGEST_LIST < length != 2**32 - 1 for length in lengths) or lengths == [2**32 - 1]:
        raise ValueError(f"its list of members has more than {_LONGEST_LIST:,} bytes, or is damaged")
    file.seek(0)
    return zipfile.ZipFile(file)
