"""Reading files: only regular ones, and only as much of them as is expected."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from coviews.errors import CoviewsError


def open_regular(path: str | Path, kind: str = "file") -> BinaryIO:
    """Open a regular file for reading; a folder, a pipe or a device is an error at once.

    kind: what the file is, for the error.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise CoviewsError(f"the {kind} {path} is a folder or a device, not a regular file")
        # it may have been replaced in between: a pipe without a writer would block
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        file = os.fdopen(os.open(path, flags), "rb")
    except FileNotFoundError as error:
        raise CoviewsError(f"there is no {kind} {path}") from error
    except OSError as error:
        raise CoviewsError(f"cannot read the {kind} {path}: {error.strerror or error}") from error
    except ValueError as error:  # such as a null character in its name
        if isinstance(error, CoviewsError):
            raise
        raise CoviewsError(f"cannot read the {kind} {path}: {error}") from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise CoviewsError(f"the {kind} {path} is a folder or a device, not a regular file")
    return file


def read_bounded(path: str | Path, most: int, kind: str = "file") -> bytes:
    """The bytes of a regular file; more than `most` of them are an error."""
    try:
        with open_regular(path, kind) as file:
            content = file.read(most + 1)
    except OSError as error:
        raise CoviewsError(f"cannot read the {kind} {path}: {error.strerror or error}") from error
    if len(content) > most:
        raise CoviewsError(f"the {kind} {path} is too large: at most {most:,} bytes are read")
    return content
