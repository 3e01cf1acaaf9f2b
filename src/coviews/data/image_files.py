"""Image files: finding them in folders, and reading those of a folder or a list."""

import os
import stat
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coviews.data.class_labels import Labels
from coviews.data.imageset import Broken
from coviews.data.parallel import parallel_map
from coviews.data.picture_reader import Header, extensions, fitted, read_header, read_picture, reason


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """Image files by name, relative to a folder."""

    where: str
    folder: Path
    names: Sequence[str]
    labels: Labels | None = None
    unreadable: Sequence[Broken] = ()
    in_threads: bool = True

    def __len__(self) -> int:
        return len(self.names)

    def known_labels(self) -> Labels | None:
        """The labels of all files."""
        return self.labels

    def labels_of(self, indices: NDArray[np.int64]) -> Labels | None:
        """The labels of some files."""
        return None if self.labels is None else self.labels.of(indices)

    def identity(self, indices: NDArray[np.int64]) -> list[str]:
        """Names, sizes and times, without the folder: a moved folder keeps its identity."""
        return [file_stamp(self.folder, self.names[i]) for i in indices]

    def headers(self, indices: NDArray[np.int64], title: str) -> list[Header | str]:
        """The size and colours of each file, or why it cannot be read."""
        return parallel_map(lambda i: _header(self.folder / self.names[i]), indices.tolist(), title)

    def read(self, index: int, height: int, width: int, channels: int) -> tuple[NDArray[np.uint8], bool]:
        """One file decoded, upright."""
        with open(self.folder / self.names[index], "rb") as file:
            picture = read_picture(file, channels)
        return fitted(picture, height, width), picture.size != (width, height)


def folder_images(folder: Path) -> ImageFiles:
    """The images of a folder; its sub folders are the classes, if there are several and every image is in one."""
    names, unreadable = find_images(folder)
    firsts = [name.split("/")[0] for name in names]
    classes = sorted(set(firsts))
    labels = None
    if len(classes) > 1 and all("/" in name for name in names):
        place = {name: i for i, name in enumerate(classes)}
        labels = Labels(np.array([place[first] for first in firsts], np.int64), tuple(classes))
    return ImageFiles(str(folder), folder, names, labels, unreadable)


def find_images(folder: Path) -> tuple[list[str], list[Broken]]:
    """All image files below a folder, sorted, relative to it with forward slashes; and folders that cannot be read.

    Hidden names are left out. Links are followed, but no folder is entered twice, so loops end.
    """
    names: list[str] = []
    unreadable: list[Broken] = []
    entered: set[str] = set()
    queue = deque([(folder, "")])
    while queue:
        here, prefix = queue.popleft()
        real = os.path.realpath(here)
        if real in entered:
            continue
        entered.add(real)
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError as error:
            unreadable.append((prefix or str(folder), reason(error)))
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if os.path.isdir(entry.path):
                below = (here / entry.name, f"{prefix}{entry.name}/")
                if entry.is_symlink():
                    queue.append(below)  # last, so that a file reached twice keeps its real name
                else:
                    queue.appendleft(below)
            elif os.path.splitext(entry.name)[1].lower() in extensions():
                names.append(prefix + entry.name)
    return sorted(names), unreadable


def file_stamp(folder: Path, name: str) -> str:
    """A file's name, size and time of change, in one line."""
    try:
        info = os.stat(folder / name)
    except (OSError, ValueError):
        return f"{name}\0missing"
    return f"{name}\0{info.st_size}\0{info.st_mtime_ns}"


def _header(path: Path) -> Header | str:
    """The size and colours of an image without decoding it, or why it cannot be read."""
    try:
        info = os.stat(path)
        if not stat.S_ISREG(info.st_mode):
            return "not a regular file"
        if info.st_size == 0:
            return "an empty file"
        with open(path, "rb") as file:
            return read_header(file)
    except Exception as error:  # decoders of damaged files raise anything
        return reason(error)
