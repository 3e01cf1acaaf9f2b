"""A folder of images on object storage, such as s3://bucket/folder: listed once, each image fetched when it is read."""

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from coviews.data.class_labels import Labels
from coviews.data.fetched_shards import tried_again
from coviews.data.image_files import labels_of_folders
from coviews.data.image_reader import extensions, header_or_reason, read_image
from coviews.data.imageset import Broken
from coviews.data.levels import Target
from coviews.data.packed_images import LARGEST
from coviews.data.parallel import parallel_map
from coviews.data.picture_reader import Header
from coviews.data.remote import remote_file
from coviews.errors import CoviewsError

_CHANGES = ("ETag", "etag", "mtime", "LastModified", "created")  # what tells that a file has changed


@dataclass(frozen=True, eq=False)
class RemoteFiles:
    """Image files by name, relative to a folder of another machine."""

    where: str
    system: Any  # of fsspec
    folder: str
    names: Sequence[str]
    stamps: Sequence[str]  # by file: what changes with it
    labels: Labels | None = None
    unreadable: Sequence[Broken] = ()
    in_threads: bool = True
    frames: str | None = None

    def __len__(self) -> int:
        return len(self.names)

    def known_labels(self) -> Labels | None:
        """The labels of all files."""
        return self.labels

    def labels_of(self, indices: NDArray[np.int64]) -> Labels | None:
        """The labels of some files."""
        return None if self.labels is None else self.labels.of(indices)

    def identity(self, indices: NDArray[np.int64]) -> list[str]:
        """Names, sizes and times."""
        return [f"{self.where}\0{self.names[i]}\0{self.stamps[i]}\0{self.frames or ''}" for i in indices.tolist()]

    def headers(self, indices: NDArray[np.int64], title: str) -> list[Header | str]:
        """The size, channels and depth of each file, or why it cannot be read."""
        return parallel_map(self._header, indices.tolist(), title)

    def read(self, index: int, target: Target) -> tuple[NDArray[Any], bool]:
        """One file decoded, upright."""
        return read_image(self._content(index), target, self.frames)

    def _content(self, index: int, most: int = LARGEST + 1) -> IO[bytes]:
        path = f"{self.folder}/{self.names[index]}"
        content = tried_again(lambda: self.system.cat_file(path, start=0, end=most), f"fetch {path}")
        if not content:
            raise ValueError("an empty file")
        if len(content) > LARGEST:
            raise ValueError("too large for an image")
        return io.BytesIO(content)

    def _header(self, index: int) -> Header | str:
        return header_or_reason(partial(self._content, index), self.frames)


class RemoteListing:
    """What is in a folder of another machine, and in all folders below it."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.system, self.folder = remote_file(self.url)
        try:
            files = tried_again(lambda: self.system.find(self.folder, detail=True), f"list {url}")
        except FileNotFoundError as error:
            raise CoviewsError(f"there is no folder {url}") from error
        self._files = {path: about for path, about in sorted(files.items()) if "/." not in path[len(self.folder) :]}

    def urls(self, suffix: str) -> list[str]:
        """The files that end with this suffix."""
        return [self.system.unstrip_protocol(path) for path in self._files if path.lower().endswith(suffix)]

    def images(self, frames: str | None = None) -> RemoteFiles:
        """Its image files; its sub folders are the classes, if there are several and every image is in one."""
        images = {p: a for p, a in self._files.items() if os.path.splitext(p)[1].lower() in extensions()}
        names = [path[len(self.folder) :].lstrip("/") for path in images]
        stamps = [
            f"{about.get('size')}\0{next((about[name] for name in _CHANGES if name in about), '')}"
            for about in images.values()
        ]
        return RemoteFiles(
            self.url, self.system, self.folder, names, stamps, labels_of_folders(names), frames=frames
        )  # fmt: skip
