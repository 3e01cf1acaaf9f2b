"""Shards that are copied to this machine while they are needed: a few at a time, some ahead, in the background."""

import errno
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from coviews.data.picture_reader import reason
from coviews.errors import CoviewsError

WAITS = (1.0, 4.0, 15.0)  # seconds before a failed fetch is tried again
_KEPT = 16  # shards, where nobody has said which are needed
_AT_ONCE = 2  # fetches
_PART = 1 << 20  # bytes that are copied at once
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Result = TypeVar("Result")


class Places(NamedTuple):
    """Where the images of a shard are in its file."""

    starts: NDArray[np.int64]  # bytes
    sizes: NDArray[np.uint32]


class OpenedShard:
    """The file of a shard with the places of its images; it has no name, and its space is freed after its last use."""

    def __init__(self, file: IO[bytes], places: Places) -> None:
        self._file, self._places, self._turn = file, places, threading.Lock()

    def read(self, row: int, most: int) -> bytes:
        """The bytes of an image, or the first so many; fewer if the file ends before."""
        return self.read_at(int(self._places.starts[row]), min(int(self._places.sizes[row]), most))

    def read_at(self, start: int, size: int) -> bytes:
        """A part of the file."""
        with self._turn:
            self._file.seek(start)
            return self._file.read(size)

    def __len__(self) -> int:
        return len(self._places.starts)


class FetchedShards:
    """Fetches shards by their number, and keeps those that are needed.

    Args:
        fetch: writes a shard into a file, and says where its images are there; the function that it gets besides
            ends it by an error if the shard is not needed any more.
        folder: where the files are, without names.
    """

    def __init__(self, fetch: Callable[[int, IO[bytes], Callable[[], None]], Places], folder: Path) -> None:
        self._fetch, self._folder = fetch, folder
        self._shards: dict[int, Future[OpenedShard]] = {}  # the one used last is the last
        self._needed: frozenset[int] | None = None
        self._awaited: Counter[int] = Counter()  # how many threads wait for a shard
        self._turn = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False

    def __call__(self, shard: int) -> OpenedShard:
        """A shard, fetched if it is not here."""
        with self._turn:
            future = self._requested(shard)
            self._shards[shard] = self._shards.pop(shard)
            self._awaited[shard] += 1
            self._drop()
        try:
            return future.result()
        finally:
            with self._turn:
                self._awaited[shard] -= 1

    def plan(self, now: Iterable[int], later: Iterable[int]) -> None:
        """Fetch these shards in the background, and drop all others."""
        now, later = tuple(now), tuple(later)
        with self._turn:
            self._needed = frozenset((*now, *later))
            self._drop()
            for shard in (*now, *later):
                self._requested(shard)

    @property
    def kept(self) -> list[int]:
        """The numbers of the shards that are here, or on their way."""
        with self._turn:
            return sorted(self._shards)

    def close(self) -> None:
        """End what is going on, and drop all shards."""
        self._closed = True
        with self._turn:
            self._shards.clear()
            if self._pool is not None:
                self._pool.shutdown(cancel_futures=True)
                self._pool = None

    def _requested(self, shard: int) -> "Future[OpenedShard]":
        known = self._shards.get(shard)
        if known is None or (known.done() and known.exception() is not None):  # it may work by now
            self._pool = self._pool or ThreadPoolExecutor(_AT_ONCE, "shards")
            self._shards[shard] = self._pool.submit(self._open, shard)
        return self._shards[shard]

    def _drop(self) -> None:
        if self._needed is not None:
            unneeded = [shard for shard in self._shards if shard not in self._needed]
        else:
            unneeded = list(self._shards)[:-_KEPT]
        for shard in unneeded:
            if not self._awaited[shard]:
                self._shards.pop(shard).cancel()  # whoever reads from it still has it

    def _open(self, shard: int) -> OpenedShard:
        def check() -> None:
            if self._closed:
                raise CoviewsError("the shards are closed")

        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = TemporaryFile(dir=self._folder)  # noqa: SIM115 - it is closed with the shard
        except OSError as error:
            raise CoviewsError(
                f"cannot keep shards in {self._folder}: {error.strerror}; choose another --cache"
            ) from error
        try:
            return OpenedShard(file, self._fetch(shard, file, check))
        except OSError as error:
            file.close()
            if error.errno in _FULL:
                raise CoviewsError(
                    f"there is no room for shards in {self._folder}: choose a --cache on another disk, or fewer "
                    "images a shard"
                ) from error
            raise
        except BaseException:
            file.close()
            raise


def tried_again(work: Callable[[], Result], what: str) -> Result:
    """The result of work on another machine, which is tried again if it fails; what is not there is not.

    what: what is done, for the error.
    """
    for wait in (*WAITS, None):
        try:
            return work()
        except (CoviewsError, FileNotFoundError):
            raise
        except Exception as error:  # libraries for URLs raise anything
            if getattr(error, "errno", None) in _FULL:
                raise
            if wait is None:
                raise CoviewsError(
                    f"cannot {what}: {reason(error)} ({len(WAITS) + 1} attempts); a run can be continued with --resume"
                ) from error
            time.sleep(wait)
    raise AssertionError("unreachable")


def copy_file(system: Any, path: str, file: IO[bytes], check: Callable[[], None]) -> None:
    """Copy a file of another machine, from its beginning to its end."""

    def copy() -> None:
        file.seek(0)
        file.truncate()
        with system.open(path, "rb") as remote:
            while part := remote.read(_PART):
                check()
                file.write(part)
        file.flush()
        file.seek(0)

    tried_again(copy, f"fetch {path}")
