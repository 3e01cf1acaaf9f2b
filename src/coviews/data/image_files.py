"""Image files: finding them in folders, and reading those of a folder or a list."""

import os
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coviews.boundary.regular import regular_file
from coviews.data.class_labels import Labels
from coviews.data.image_reader import extensions, frame_count, read_header, read_image
from coviews.data.imageset import Broken
from coviews.data.levels import Target
from coviews.data.parallel import parallel_map
from coviews.data.picture_reader import Header, reason
from coviews.errors import CoviewsError

_KINDS = 6  # kinds of skipped files that a remark names


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """Image files by name, relative to a folder; or the pages of such files."""

    where: str
    folder: Path
    names: Sequence[str]
    labels: Labels | None = None
    unreadable: Sequence[Broken] = ()
    in_threads: bool = True
    frames: str | None = None  # how files of several pages are read
    pages: Sequence[tuple[str, int]] | None = None  # the file and page of each image, if read page by page

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
        places = [self._place(i) for i in indices.tolist()]
        return [f"{file_stamp(self.folder, name)}\0{frames or ''}" for name, frames in places]

    def headers(self, indices: NDArray[np.int64], title: str) -> list[Header | str]:
        """The size, channels and depth of each file, or why it cannot be read."""
        return parallel_map(lambda i: _header(self.folder, *self._place(i)), indices.tolist(), title)

    def read(self, index: int, target: Target) -> tuple[NDArray[Any], bool]:
        """One file decoded, upright."""
        name, frames = self._place(index)
        with regular_file(self.folder / name) as file:
            return read_image(file, target, frames)

    def each_page(self, title: str) -> "ImageFiles":
        """The same files, with every page an image."""
        counts = parallel_map(lambda name: _page_count(self.folder / name), self.names, title)
        rows = [i for i, count in enumerate(counts) for _ in range(count)]
        pages = [(name, page) for name, count in zip(self.names, counts, strict=True) for page in range(count)]
        names = [f"{name}#{page}" if counts[i] > 1 else name for i, (name, page) in zip(rows, pages, strict=True)]
        return replace(self, names=names, labels=self.labels_of(np.array(rows, np.int64)), pages=pages)

    def _place(self, index: int) -> tuple[str, str | int | None]:
        return (self.names[index], self.frames) if self.pages is None else self.pages[index]


class Listing(NamedTuple):
    """What is in a folder and its sub folders."""

    names: list[str]  # of image files, sorted, relative to the folder with forward slashes
    unreadable: list[Broken]  # folders that cannot be read
    others: Counter[str]  # files that are no images, counted by their extension

    @property
    def remark(self) -> str:
        """What is said of the files that are no images; empty if there are none."""
        count = self.others.total()
        if not count:
            return ""
        kinds = [f"{n} {extension or 'without an extension'}" for extension, n in self.others.most_common(_KINDS)]
        more = ", ..." if len(self.others) > _KINDS else ""
        files = "1 file that is not an image" if count == 1 else f"{count} files that are not images"
        return f"skipped {files}: {', '.join(kinds)}{more}"


def folder_images(folder: Path, remarks: list[str], frames: str | None = None) -> ImageFiles:
    """The images of a folder; its sub folders are the classes, if there are several and every image is in one."""
    listing = find_images(folder)
    names = listing.names
    if listing.remark and names:
        remarks.append(listing.remark)
    return ImageFiles(str(folder), folder, names, labels_of_folders(names), listing.unreadable, frames=frames)


def labels_of_folders(names: Sequence[str]) -> Labels | None:
    """The first-level folders of image files as their classes, if there are several and every file is in one."""
    firsts = [name.split("/")[0] for name in names]
    classes = sorted(set(firsts))
    if len(classes) < 2 or not all("/" in name for name in names):
        return None
    place = {name: i for i, name in enumerate(classes)}
    return Labels(np.array([place[first] for first in firsts], np.int64), tuple(classes))


def find_images(folder: Path) -> Listing:
    """All image files below a folder, folders that cannot be read, and what other files there are.

    Hidden names are left out. Links are followed, but no folder is entered twice, so loops end.
    """
    names: list[str] = []
    unreadable: list[Broken] = []
    others: Counter[str] = Counter()
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
            else:
                others[os.path.splitext(entry.name)[1].lower()] += 1
    return Listing(sorted(names), unreadable, others)


def file_stamp(folder: Path, name: str) -> str:
    """A file's name, size and time of change, in one line."""
    try:
        info = os.stat(folder / name)
    except (OSError, ValueError):
        return f"{name}\0missing"
    return f"{name}\0{info.st_size}\0{info.st_mtime_ns}"


def _header(folder: Path, name: str, frames: str | int | None) -> Header | str:
    """The header of an image without decoding it, or why it cannot be read."""
    try:
        with regular_file(folder / name) as file:
            if os.fstat(file.fileno()).st_size == 0:
                return "an empty file"
            return read_header(file, frames)
    except CoviewsError:  # such as a library that is not installed
        raise
    except Exception as error:  # decoders of damaged files raise anything
        return reason(error)


def _page_count(path: Path) -> int:
    """The pages of a file; 1 if it cannot be read, which is found out when it is."""
    try:
        with regular_file(path) as file:
            return frame_count(file)
    except CoviewsError:
        raise
    except Exception:
        return 1
