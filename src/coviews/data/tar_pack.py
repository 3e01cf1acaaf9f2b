"""Shards of WebDataset with a small index: 12 bytes for an image, and 4 for its label.

Shards of this machine are read in place. Those behind URLs are fetched one by one, from beginning to end, and once
more before, to find out what is in them; the index is kept in the cache.
"""

import contextlib
import os
import tarfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coviews.boundary.arrays import open_arrays
from coviews.data.cache import cache_key
from coviews.data.fetched_shards import FetchedShards, Places, copy_file, tried_again
from coviews.data.packed_images import Looked, PackedImages, PackedLabels, cache_folder, packed_images
from coviews.data.parallel import parallel_map
from coviews.data.picture_reader import reason
from coviews.data.remote import is_url, remote_file
from coviews.data.shards import Member, bytes_of, last_part, look_into, opened_file, shard_stamp
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole


class _Index(NamedTuple):
    """Where all images are, shard by shard."""

    bounds: NDArray[np.int64]  # (S + 1,)
    starts: NDArray[np.int64]  # (N,) bytes
    sizes: NDArray[np.uint32]  # (N,)
    labels: PackedLabels | None


class TarPack:
    """Tar archives, of which it is known where their images are."""

    def __init__(self, names: Sequence[str], index: _Index, stamps: Sequence[str], folder: Path) -> None:
        self.names, self._index, self._stamps = names, index, stamps
        self.fetched = any(map(is_url, names))
        self._shards = FetchedShards(self._fetch, folder)

    def read(self, shard: int, row: int, most: int) -> bytes:
        """The bytes of an image file, or the first so many."""
        places = self._places(shard)
        size = min(int(places.sizes[row]), most)
        content = self._bytes(shard, int(places.starts[row]), size)
        if len(content) < size:
            raise ValueError("the shard ends before the file does")
        return content

    def name(self, shard: int, row: int) -> str:
        """The shard and the file in it; the archive tells it before the file."""
        text = f"image {row}"
        with contextlib.suppress(tarfile.TarError, OSError, IndexError):
            block = self._bytes(shard, int(self._places(shard).starts[row]) - tarfile.BLOCKSIZE, tarfile.BLOCKSIZE)
            text = tarfile.TarInfo.frombuf(block, "utf-8", "replace").name
        return f"{last_part(self.names[shard])}/{text}"

    def plan(self, now: Iterable[int], later: Iterable[int]) -> None:
        """Fetch these shards in the background, those that are not on this machine."""
        self._shards.plan(*([i for i in shards if is_url(self.names[i])] for shards in (now, later)))

    def stamp(self) -> list[str]:
        """The names, sizes and times of the shards."""
        return list(self._stamps)

    def close(self) -> None:
        """Drop what was fetched."""
        self._shards.close()

    @property
    def kept(self) -> list[int]:
        """The shards that have been fetched."""
        return self._shards.kept

    def _places(self, shard: int) -> Places:
        part = slice(*self._index.bounds[shard : shard + 2].tolist())
        return Places(self._index.starts[part], self._index.sizes[part])

    def _bytes(self, shard: int, start: int, size: int) -> bytes:
        name = self.names[shard]
        return self._shards(shard).read_at(start, size) if is_url(name) else bytes_of(name, start, size)

    def _fetch(self, shard: int, file: IO[bytes], check: Callable[[], None]) -> Places:
        copy_file(*remote_file(self.names[shard]), file, check)
        places = self._places(shard)
        end = int((places.starts + places.sizes).max(initial=0))
        if file.seek(0, os.SEEK_END) < end:
            raise CoviewsError(f"the shard {self.names[shard]} is shorter than it was: begin a new run")
        return places


def open_tar_pack(where: str, names: Sequence[str], cache: Path, title: str, frames: str | None = None) -> PackedImages:
    """Look through all shards for images and labels, unless the cache knows them."""
    folder = cache_folder(cache)
    stamps = parallel_map(_stamp_or_problem, names, title)
    path = folder / f"{cache_key(stamps, 'tar')}.npz"
    if (index := _stored(path, len(names))) is not None:
        pack = TarPack(names, index, stamps, folder)
        return PackedImages(where, pack, index.bounds, index.labels, (), frames)
    looks = parallel_map(lambda name: _look(name, folder), names, title)
    places = [place for place, _ in looks]
    starts = np.concatenate([place.starts for place in places])
    sizes = np.concatenate([place.sizes for place in places])
    bounds = np.concatenate([[0], np.cumsum([len(place.starts) for place in places], dtype=np.int64)])
    pack = TarPack(names, _Index(bounds, starts, sizes, None), stamps, folder)
    images = packed_images(where, pack, [look for _, look in looks], frames)
    if not images.unreadable:
        _store(path, _Index(bounds, starts, sizes, images.labels))
    return images


def _look(name: str, folder: Path) -> tuple[Places, Looked]:
    """Where the images of a shard are, and their labels."""
    members: list[Member] = []
    problem: str | None = None
    try:
        if is_url(name):
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=folder) as copy:
                copy_file(*remote_file(name), copy, lambda: None)
                members, problem = look_into(copy)
        else:
            with opened_file(name) as file:
                members, problem = look_into(file)
    except OSError as error:
        problem = "it is not there" if isinstance(error, FileNotFoundError) else reason(error)
    starts, sizes = [m.start for m in members], [_size(m.size) for m in members]
    places = Places(np.array(starts, np.int64), np.array(sizes, np.uint32))
    return places, Looked.of([m.label for m in members], problem)


def _size(size: int) -> int:
    return min(size, 2**32 - 1)  # a larger one is no image, and refused when it is read


def _stamp_or_problem(name: str) -> str:
    try:
        return tried_again(lambda: shard_stamp(name), f"reach {name}") if is_url(name) else shard_stamp(name)
    except OSError as error:  # it is named as unreadable when it is looked through
        return f"{name}\0{reason(error)}"


def _store(path: Path, index: _Index) -> None:
    """Keep the index for the next run, where that is possible."""
    labels = {} if index.labels is None else {"codes": index.labels.codes, "classes": np.array(index.labels.classes)}
    with contextlib.suppress(CoviewsError, OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = {"bounds": index.bounds, "starts": index.starts, "sizes": index.sizes, **labels}
        write_whole(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]


def _stored(path: Path, shards: int) -> _Index | None:
    """The index that an earlier run kept; None if there is none, or it is damaged."""
    try:
        with open_arrays(path) as arrays:
            read = {name: arrays.read(name) for name in arrays.names}
        bounds, starts, sizes = read["bounds"], read["starts"], read["sizes"]
        count = int(bounds[-1])
        sound = (
            (bounds.dtype, starts.dtype, sizes.dtype) == (np.int64, np.int64, np.uint32)
            and bounds.shape == (shards + 1,) and bounds[0] == 0 and bool((np.diff(bounds) >= 0).all())
            and starts.shape == sizes.shape == (count,) and int(starts.min(initial=0)) >= 0
        )  # fmt: skip
        labels = None
        if sound and "codes" in read:
            codes, classes = read["codes"], tuple(read["classes"].tolist())
            labels = PackedLabels(codes, classes)
            sound = codes.dtype == np.int32 and codes.shape == (count,) and int(codes.min(initial=0)) >= -1
            sound = sound and int(codes.max(initial=-1)) < len(classes) and read["classes"].dtype.kind == "U"
        return _Index(bounds, starts, sizes, labels) if sound and count else None
    except (CoviewsError, KeyError, IndexError, ValueError, TypeError):
        return None
