"""Decoded images on the disk, for what does not fit into memory: found again, and there whole or not at all."""

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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError

_FORMAT = 1  # to be raised when the same files are decoded to other pixels
_DRAFT = ".draft-"
_STALE = 24 * 3600.0  # seconds after which a draft belongs to a process that was killed
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Stored(NamedTuple):
    """Decoded images, and what became of the others."""

    images: NDArray[np.uint8]  # (kept, H, W, C)
    failures: dict[int, str]  # by its place among those that were wanted: why it could not be read
    resized: int  # how many were of another size


def default_cache() -> Path:
    """The folder `coviews` in the user's cache folder."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given if os.path.isabs(given) else os.path.expanduser("~/.cache")) / "coviews"


def memory_for_images() -> int | None:
    """Half of the memory that is free now, in bytes; None if the system does not say."""
    limits = [bytes for bytes in (_free_memory(), _memory_of_container()) if bytes is not None]
    return min(limits) // 2 if limits else None


def cache_key(identity: Iterable[str], size: tuple[int, int] | None, channels: int | None) -> str:
    """The name of an entry: another one if an image, the size or the colours are other ones."""
    digest = hashlib.sha256(repr((_FORMAT, size, channels)).encode())
    for line in identity:
        digest.update(b"\n" + line.encode("utf-8", "backslashreplace"))
    return digest.hexdigest()[:32]


def find_stored(folder: Path, key: str) -> Stored | None:
    """What an earlier load has decoded, mapped from the file; None if there is nothing, or nothing whole."""
    entry = folder / key
    try:
        about = json.loads((entry / "about.json").read_bytes())
        images = np.load(entry / "images.npy", mmap_mode="r", allow_pickle=False)
        failures = {int(place): str(why) for place, why in about["failures"]}
        kept, resized = int(about["kept"]), int(about["resized"])
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None
    if images.dtype != np.uint8 or images.ndim != 4 or not 0 < kept <= len(images):
        return None
    return Stored(images[:kept], failures, resized)


class Draft:
    """An array on the disk that is being filled."""

    def __init__(self, images: "np.memmap[tuple[int, ...], np.dtype[np.uint8]]", entry: Path | None, home: Path):
        self.images, self._entry, self._home = images, entry, home

    def finished(self, stored: Stored) -> Stored:
        """Give the entry its name, now that all is in it, and map it from there for reading only."""
        if self._entry is None:
            stored.images.flags.writeable = False
            return stored
        self.images.flush()
        about = {"kept": len(stored.images), "failures": list(stored.failures.items()), "resized": stored.resized}
        with open(self._home / "about.json", "w", encoding="utf-8") as file:
            json.dump(about, file)
            file.flush()
            os.fsync(file.fileno())
        folder, key = self._entry.parent, self._entry.name
        if find_stored(folder, key) is None:
            shutil.rmtree(self._entry, ignore_errors=True)  # a damaged one
        with contextlib.suppress(OSError):  # another process may have been faster: its entry is as good
            os.rename(self._home, self._entry)
        found = find_stored(folder, key)
        if found is None:
            raise CoviewsError(f"cannot keep the decoded images in {folder}: choose another folder for the cache")
        return found


@contextmanager
def draft(folder: Path, key: str | None, shape: tuple[int, ...]) -> Iterator[Draft]:
    """A place on the disk to decode images into, removed again if that does not come to an end.

    Without a key nobody will find it again: the file loses its name at once, and its place when it is not used.
    """
    need = int(np.prod(shape, dtype=np.int64))
    home = folder / f"{_DRAFT}{key or 'unnamed'}-{uuid.uuid4().hex[:12]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_stale(folder)
        home.mkdir()
        images = _allocated(home / "images.npy", shape, need)
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
    """A number of bytes for people."""
    if count < 1000:
        return f"{count} bytes"
    amount, units = count / 1000, ["kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:.1f} {units[0]}"


def _allocated(path: Path, shape: tuple[int, ...], need: int) -> "np.memmap[tuple[int, ...], np.dtype[np.uint8]]":
    """A mapped file that has its place on the disk: writing to one that has not would end the process."""
    if shutil.disk_usage(path.parent).free < need:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    images = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
    if hasattr(os, "posix_fallocate"):
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
    return images


def _no_room(folder: Path, need: int) -> str:
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    return (
        f"the decoded images need {need:,} bytes ({in_words(need)}) in {folder}, where {in_words(free)} are free: "
        "choose a cache folder on another disk, a subset, or a smaller size"
    )


def _remove_stale(folder: Path) -> None:
    """Remove what processes left behind that were killed while they decoded."""
    for old in folder.glob(f"{_DRAFT}*"):
        with contextlib.suppress(OSError):
            newest = max(path.stat().st_mtime for path in (old, *old.iterdir()))
            if time.time() - newest > _STALE:
                shutil.rmtree(old, ignore_errors=True)


def _free_memory() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _memory_of_container() -> int | None:
    """What a container may use in all, where there is such a limit."""
    try:
        return int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):  # "max" means no limit
        return None
