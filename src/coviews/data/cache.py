"""Decoded images on the disk, for data that does not fit into memory; an entry is complete or absent."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from coviews.boundary.arrays import map_array
from coviews.boundary.json_text import read_json
from coviews.boundary.schema import Count, Schema
from coviews.compat import free_memory
from coviews.data.levels import ValueRange, checked_range
from coviews.errors import CoviewsError

_FORMAT = 2  # goes up when the same files are decoded to other pixels
_DRAFT = ".draft-"
_STALE = 24 * 3600.0  # seconds after which a draft was left by a killed process
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _About(Schema):
    """What an entry says of its images."""

    kept: Count
    failures: list[tuple[Count, str]]
    resized: Count
    values: ValueRange | None


class Stored(NamedTuple):
    """Decoded images, and the failures of the others."""

    images: NDArray[Any]  # (N, H, W, C), those that could be read
    failures: dict[int, str]  # by the position among the requested images: why one could not be read
    resized: int  # the number of images of another size
    values: ValueRange | None = None  # by which the images were scaled


def default_cache() -> Path:
    """The folder `coviews` in the user's cache folder."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    return Path(configured if os.path.isabs(configured) else os.path.expanduser("~/.cache")) / "coviews"


def memory_for_images() -> int | None:
    """Half of the memory that is free now, in bytes; None if the system does not tell."""
    free = free_memory()
    return None if free is None else free // 2


def cache_key(identity: Iterable[str], *choices: object) -> str:
    """The name of an entry; it changes with the images, and with the choices, such as their size."""
    digest = hashlib.sha256(repr((_FORMAT, *choices)).encode())
    for line in identity:
        digest.update(b"\n" + line.encode("utf-8", "backslashreplace"))
    return digest.hexdigest()[:32]


def find_stored(folder: Path, key: str) -> Stored | None:
    """The images that an earlier load decoded, mapped from the file; None if there is no complete entry."""
    entry = folder / key
    try:
        about = read_json(entry / "about.json", _About)
        images = map_array(entry / "images.npy")
        values = None if about.values is None else checked_range(about.values, images.shape[-1])
    except (ValueError, IndexError):
        return None
    if images.dtype not in (np.uint8, np.uint16) or images.ndim != 4 or not 0 < about.kept <= len(images):
        return None
    return Stored(images[: about.kept], dict(about.failures), about.resized, values)


class Draft:
    """An entry that is being written: an array on the disk, to be filled."""

    def __init__(self, images: "np.memmap[tuple[int, ...], np.dtype[Any]]", entry: Path | None, home: Path):
        self.images, self._entry, self._home = images, entry, home

    def finished(self, stored: Stored) -> Stored:
        """Move the complete entry to its place, and map it from there read-only."""
        if self._entry is None:
            stored.images.flags.writeable = False
            return stored
        self.images.flush()
        about = {
            "kept": len(stored.images), "failures": list(stored.failures.items()), "resized": stored.resized,
            "values": stored.values,
        }  # fmt: skip
        with open(self._home / "about.json", "w", encoding="utf-8") as file:
            json.dump(about, file)
            file.flush()
            os.fsync(file.fileno())
        folder, key = self._entry.parent, self._entry.name
        if find_stored(folder, key) is None:
            shutil.rmtree(self._entry, ignore_errors=True)  # a damaged one
        with contextlib.suppress(OSError):  # another process may have written the same entry
            os.rename(self._home, self._entry)
        entry = find_stored(folder, key)
        if entry is None:
            raise CoviewsError(f"cannot keep the decoded images in {folder}: choose another folder for the cache")
        return entry


@contextmanager
def draft(folder: Path, key: str | None, shape: tuple[int, ...], dtype: DTypeLike = np.uint8) -> Iterator[Draft]:
    """A new entry to decode images into; it is removed if the work is not finished.

    Without a key the entry cannot be found again: its file is deleted at once, and its space freed after its last use.
    """
    need = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    home = folder / f"{_DRAFT}{key or 'unnamed'}-{uuid.uuid4().hex[:12]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_stale(folder)
        home.mkdir()
        images = _allocated(home / "images.npy", shape, dtype, need)
        if key is None and os.name == "posix":
            shutil.rmtree(home)
        yield Draft(images, folder / key if key else None, home)
    except OSError as error:
        if error.errno in _FULL:
            raise CoviewsError(_no_room(folder, need)) from error
        raise CoviewsError(
            f"cannot keep decoded images in {folder}: {error.strerror or error}; choose another folder for the cache"
        ) from error
    finally:
        shutil.rmtree(home, ignore_errors=True)


def in_words(count: int) -> str:
    """A number of bytes as text, such as 1.5 GB."""
    if count < 1000:
        return f"{count} bytes"
    amount, units = count / 1000, ["kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:.1f} {units[0]}"


def _allocated(
    path: Path, shape: tuple[int, ...], dtype: DTypeLike, need: int
) -> "np.memmap[tuple[int, ...], np.dtype[Any]]":
    """A mapped file whose space on the disk is reserved: writing beyond a full disk would kill the process."""
    if shutil.disk_usage(path.parent).free < need:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    images = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    if hasattr(os, "posix_fallocate"):
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
    return images


def _no_room(folder: Path, need: int) -> str:
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    return (
        f"the decoded images need {need:,} bytes ({in_words(need)}) in {folder}, where {in_words(free)} are free: "
        "choose a cache folder on another disk, a subset, or a smaller size"
    )


def _remove_stale(folder: Path) -> None:
    """Remove the drafts of processes that were killed while decoding."""
    for old in folder.glob(f"{_DRAFT}*"):
        with contextlib.suppress(OSError):
            newest = max(path.stat().st_mtime for path in (old, *old.iterdir()))
            if time.time() - newest > _STALE:
                shutil.rmtree(old, ignore_errors=True)
