"""Reading files: only regular ones, and only as much of them as is expected."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from coviews.errors import CoviewsError


def regular_file(path: str | Path) -> BinaryIO:
    """Open a regular file for reading; anything else is an OSError at once, such as a pipe that would block."""
    _check_mode(os.stat(path).st_mode)
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - the caller closes it
    try:
        _check_mode(os.fstat(file.fileno()).st_mode)  # it may have been replaced in between
    except OSError:
        file.close()
        raise
    return file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_mode(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file")


def open_regular(path: str | Path, kind: str = "file") -> BinaryIO:
    """The same with an error that says what to do.

    kind: what the file is, for the error.
    """
    try:
        return regular_file(path)
    except FileNotFoundError as error:
        raise CoviewsError(f"there is no {kind} {path}") from error
    except OSError as error:
        raise CoviewsError(f"cannot read the {kind} {path}: {error.strerror or error}") from error
    except ValueError as error:  # such as a null character in its name
        raise CoviewsError(f"cannot read the {kind} {path}: {error}") from error


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
