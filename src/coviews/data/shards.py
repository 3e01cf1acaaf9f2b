"""Shards: image files in many tar archives, as WebDataset writes them, on this machine or behind URLs.

The files of one image have one name up to the first point, and stand together: `0017.jpg`, and `0017.cls` with its
label. Nothing is unpacked: the archives are looked through once, and images are then read from their places in them.
"""

import io
import itertools
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from coviews.boundary.regular import regular_file
from coviews.data.class_labels import Labels, labels_of_texts
from coviews.data.image_reader import extensions, header_or_reason, read_image
from coviews.data.imageset import Broken
from coviews.data.levels import Target
from coviews.data.parallel import parallel_map
from coviews.data.picture_reader import Header, reason
from coviews.data.remote import is_url, remote_file
from coviews.errors import CoviewsError

SUFFIX = ".tar"
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}|\{([^{}]*,[^{}]*)\}")
_MOST_SHARDS = 1_000_000
_LARGEST = 100_000_000  # bytes of one image file; a larger one would be an attack on the memory
_LONGEST_LABEL = 1000  # bytes
_DIGITS = 15  # of a number in a range
_LONGEST_NAME = 1 << 20  # bytes of a name, and of all else that an archive says of a file
_LABEL = "cls"


class Member(NamedTuple):
    """Where the file of an image is."""

    shard: int
    name: str
    start: int  # bytes
    size: int
    label: str | None


@dataclass(frozen=True, eq=False)
class ShardImages:
    """The images of some shards, in the order in which they stand there."""

    where: str
    shards: Sequence[str]  # paths or URLs
    members: Sequence[Member]
    stamps: Sequence[str]  # by shard: what changes with it
    unreadable: Sequence[Broken] = ()
    frames: str | None = None
    in_threads: bool = True

    @cached_property
    def names(self) -> list[str]:
        """The shard and the file in it, of each image."""
        return [f"{last_part(self.shards[m.shard])}/{m.name}" for m in self.members]

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def _labels(self) -> Labels:
        """The labels of all images, -1 for those without."""
        labelled = [(i, m.label) for i, m in enumerate(self.members) if m.label is not None]
        labels = labels_of_texts([text for _, text in labelled])
        values = np.full(len(self.members), -1, np.int64)
        values[[i for i, _ in labelled]] = labels.values
        return Labels(values, labels.classes)

    def known_labels(self) -> Labels | None:
        """The labels of all images, if each has one."""
        return self.labels_of(np.arange(len(self)))

    def labels_of(self, indices: NDArray[np.int64]) -> Labels | None:
        """The labels of some images, if each of them has one."""
        labels = self._labels.of(indices)
        return labels if len(labels.values) and labels.values.min() >= 0 else None

    def identity(self, indices: NDArray[np.int64]) -> list[str]:
        """Names and places, with the size and time of their shards."""
        chosen = (self.members[i] for i in indices.tolist())
        return [f"{self.stamps[m.shard]}\0{m.name}\0{m.start}\0{m.size}\0{self.frames or ''}" for m in chosen]

    def headers(self, indices: NDArray[np.int64], title: str) -> list[Header | str]:
        """The size, channels and depth of each image, or why it cannot be read."""
        return parallel_map(self._header, indices.tolist(), title)

    def read(self, index: int, target: Target) -> tuple[NDArray[Any], bool]:
        """One image decoded, upright."""
        return read_image(self._content(index), target, self.frames)

    def _content(self, index: int, most: int = _LARGEST) -> IO[bytes]:
        """The bytes of an image file, or the first so many."""
        member = self.members[index]
        if not member.size:
            raise ValueError("an empty file")
        if member.size > _LARGEST:
            raise ValueError("too large for an image")
        size = min(member.size, most)
        content = bytes_of(self.shards[member.shard], member.start, size)
        if len(content) < size:
            raise ValueError("the shard ends before the file does")
        return io.BytesIO(content)

    def _header(self, index: int) -> Header | str:
        return header_or_reason(partial(self._content, index), self.frames)


def shard_names(data: str, suffix: str | tuple[str, ...] = SUFFIX) -> list[str] | None:
    """The shards that a path, a URL, a range such as `shards/{000..127}.tar` or a folder of .tar files means.

    None if it means something else.
    """
    if data.lower().endswith(suffix):
        names = expanded_ranges(data if is_url(data) else os.path.expanduser(data))
        return names if is_url(data) or len(names) > 1 or os.path.isfile(names[0]) else None
    if is_url(data) or not os.path.isdir(folder := os.path.expanduser(data)):
        return None
    names = [name for name in os.listdir(folder) if not name.startswith(".")]
    shards = [os.path.join(folder, name) for name in sorted(names) if name.lower().endswith(suffix)]
    if not any(map(os.path.isfile, shards)) or any(Path(name).suffix.lower() in extensions() for name in names):
        return None
    return [shard for shard in shards if os.path.isfile(shard)]


def expanded_ranges(text: str) -> list[str]:
    """Every text that ranges `{000..127}` and choices `{a,b}` stand for; numbers keep their leading zeros."""
    parts: list[list[str]] = []
    end, count = 0, 1
    for match in _RANGE.finditer(text):
        first, last, choices = match.groups()
        wrong = CoviewsError(f"the range {match[0]} must go up, and have at most {_MOST_SHARDS:,} shards")
        if choices is None:
            if max(len(first), len(last)) > _DIGITS:
                raise wrong
            low, high, width = int(first), int(last), len(first)
            if high < low or (high - low) * count >= _MOST_SHARDS:
                raise wrong
            options = [str(number).zfill(width) for number in range(low, high + 1)]
        else:
            options = choices.split(",")
            if len(options) * count > _MOST_SHARDS:
                raise wrong
        parts += [[text[end : match.start()]], options]
        end, count = match.end(), count * len(options)
    return ["".join(words) for words in itertools.product(*parts, [text[end:]])]


def open_shards(where: str, shards: Sequence[str], title: str, frames: str | None = None) -> ShardImages:
    """Look through all shards for images and labels; those that cannot be read are named in `unreadable`."""
    looked = parallel_map(lambda i: _look_through(shards[i], i), range(len(shards)), title)
    members: list[Member] = []
    unreadable: list[Broken] = []
    stamps = []
    for shard, (found, stamp, problem) in zip(shards, looked, strict=True):
        members += found
        stamps.append(stamp)
        if problem is not None:
            unreadable.append((shard, problem))
    if unreadable and not members:
        raise CoviewsError(f"cannot read the shard {unreadable[0][0]}: {unreadable[0][1]}")
    return ShardImages(where, shards, members, stamps, unreadable, frames)


def _look_through(shard: str, number: int) -> tuple[list[Member], str, str | None]:
    """The images of a shard, what changes with it, and what is wrong with it."""
    try:
        with opened_file(shard) as file:
            stamp = shard_stamp(shard)
            found, problem = look_into(file, number)
            return found, stamp, problem
    except CoviewsError:
        raise
    except Exception as error:  # libraries for URLs raise anything
        return [], shard, reason(error)


def look_into(file: IO[bytes], number: int = 0) -> tuple[list[Member], str | None]:
    """The images in the file of a shard of this number, and what is wrong with it."""
    found: list[Member] = []
    group: list[tarfile.TarInfo] = []  # the files of one image
    try:
        try:
            for entry in _files(file):
                if group and _key(entry.name) != _key(group[0].name):
                    found += _images(file, group, number)
                    group = []
                group.append(entry)
        finally:
            found += _images(file, group, number)
    except tarfile.ReadError as error:
        compressed = "; a compressed one has to be unpacked to a plain .tar" if "header" in str(error) else ""
        return found, f"{reason(error)}{compressed}"
    except Exception as error:  # libraries for URLs raise anything
        return found, reason(error)
    return found, None


class _Headers:
    """A file of which headers are read, with names of any length that memory allows."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.seek, self.tell = file, file.seek, file.tell

    def read(self, size: int) -> bytes:
        if size > _LONGEST_NAME:
            raise tarfile.ReadError(f"the name of a file in it has {size:,} bytes")
        return self._file.read(size)


def _files(file: IO[bytes]) -> Iterator[tarfile.TarInfo]:
    with tarfile.open(fileobj=cast(Any, _Headers(file)), mode="r:") as archive:
        while (entry := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined] # it would keep all
            if entry.isfile() and not entry.sparse:
                yield entry
        file.seek(archive.offset)
        if file.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:  # tarfile takes any end for the end
            raise tarfile.ReadError("it is cut off, or damaged from there on")


def _images(file: IO[bytes], entries: Sequence[tarfile.TarInfo], shard: int) -> list[Member]:
    """The images among the files of one name, with the label that stands beside them."""
    label = None
    for entry in entries:
        if entry.name == f"{_key(entry.name)}.{_LABEL}" and entry.size <= _LONGEST_LABEL:
            file.seek(entry.offset_data)  # tarfile knows where it was
            label = file.read(entry.size).decode("utf-8", "replace").strip()
    return [
        Member(shard, entry.name, entry.offset_data, entry.size, label)
        for entry in entries
        if os.path.splitext(entry.name)[1].lower() in extensions()
    ]


def _key(name: str) -> str:
    """The name of a file up to the first point, with its folder."""
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}{last.partition('.')[0]}"


def last_part(shard: str) -> str:
    """The last part of a path or URL."""
    return shard.rstrip("/").rpartition("/")[2]


def opened_file(shard: str) -> Any:
    """The file of a shard, open for reading."""
    if not is_url(shard):
        return regular_file(shard)
    system, path = remote_file(shard)
    return system.open(path, "rb")


def bytes_of(shard: str, start: int, size: int) -> bytes:
    """A part of a shard; fewer bytes if it ends before."""
    if not is_url(shard):
        with regular_file(shard) as file:
            file.seek(start)
            return file.read(size)
    system, path = remote_file(shard)
    content = system.cat_file(path, start=start, end=start + size)
    if len(content) > size:
        raise CoviewsError(f"the server of {shard} sends only whole files: copy the shards to this machine")
    return content


def shard_stamp(shard: str) -> str:
    """The name, size and time of change of a shard, in one line; a moved folder keeps them."""
    if not is_url(shard):
        info = os.stat(shard)
        return f"{last_part(shard)}\0{info.st_size}\0{info.st_mtime_ns}"
    system, path = remote_file(shard)
    about = system.info(path)
    changed = next((about[name] for name in ("ETag", "etag", "mtime", "LastModified") if name in about), "")
    return f"{shard}\0{about.get('size')}\0{changed}"
