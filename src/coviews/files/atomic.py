"""Writing files atomically: a file is complete or absent, whenever the process is killed."""

import contextlib
import glob
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from coviews.errors import CoviewsError


def write_whole(path: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file in one move: after a kill or on a full disk, it is the old one or the new one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                content(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise CoviewsError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def remove_partials(path: Path) -> None:
    """Delete what kills left of a file that nobody else writes now: call it under the lock that guards the file."""
    for partial in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        with contextlib.suppress(OSError):
            partial.unlink()


def _sync_folder(folder: Path) -> None:
    """Write the new name to the disk, not only the content."""
    with contextlib.suppress(OSError):  # not every system can open a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
