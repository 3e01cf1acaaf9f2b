"""Writing files atomically: a file is complete or absent, whenever the process is killed."""

import contextlib
import glob
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from coviews.errors import CoviewsError


def write_whole(path: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file in one move: after a kill or on a full disk, it is the old one or the new one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    if partial.is_dir():
        partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
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


@contextlib.contextmanager
def writing(path: Path, advice: str = "") -> Iterator[None]:
    """Turn errors of the disk into errors that name the place, and say what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise CoviewsError(f"cannot write to {path}: {reason}{'; ' if advice else ''}{advice}") from error
    except UnicodeEncodeError as error:  # some libraries take no other names
        raise CoviewsError(
            f"cannot write to {path}: its name is not text in UTF-8{'; ' * bool(advice)}{advice}"
        ) from error


def remove_partial(folder: Path) -> None:
    """Remove what a kill cut off, in a folder and all below it."""
    _remove(folder.rglob(".*.partial"))


def remove_partial_of(file: Path) -> None:
    """Remove what a kill cut off of one file; only while a lock says that nobody else is writing it."""
    _remove(file.parent.glob(f".{glob.escape(file.name)}.*.partial"))


def _remove(partials: Iterable[Path]) -> None:
    for partial in partials:
        if not partial.is_dir():  # a folder is not ours
            with writing(partial):
                partial.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Write the new name to the disk, not only the content."""
    with contextlib.suppress(OSError):  # not every system can open a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
