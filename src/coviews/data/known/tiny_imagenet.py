"""TinyImageNet in its original layout: its folder, or its archive, which is read without being unpacked."""

import io
import os
import re
import threading
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from coviews.boundary.archives import open_zip
from coviews.boundary.regular import read_bounded, regular_file
from coviews.data.class_labels import Labels
from coviews.data.image_files import ImageFiles, find_images
from coviews.data.image_reader import read_header, read_image
from coviews.data.imageset import Broken
from coviews.data.known.download import fetch
from coviews.data.known.sets import Download, split_names
from coviews.data.levels import Target
from coviews.data.parallel import parallel_map
from coviews.data.picture_reader import Header, reason
from coviews.errors import CoviewsError

NAME = "tinyimagenet"
SPLITS = ("train", "val")
DOWNLOAD = Download("http://cs231n.stanford.edu/tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de")
_FOLDER = "tiny-imagenet-200"
_IDS, _ANNOTATIONS = "wnids.txt", "val/val_annotations.txt"
_TRAIN = re.compile(r"train/([^/.][^/]*)/images/[^/]+\.jpe?g", re.IGNORECASE)
_LARGEST = 100_000_000  # bytes of one file; a larger one would be an attack on the memory


@dataclass(frozen=True, eq=False)
class ZippedImages:
    """Image files in an archive, by name, relative to a folder in it. Nothing is unpacked."""

    where: str
    archive: zipfile.ZipFile
    prefix: str
    names: Sequence[str]
    labels: Labels | None
    unreadable: Sequence[Broken] = ()
    in_threads: bool = True
    _entries: dict[str, zipfile.ZipInfo] = field(init=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_entries", {entry.filename: entry for entry in self.archive.infolist()})

    def __len__(self) -> int:
        return len(self.names)

    def known_labels(self) -> Labels | None:
        """The labels of all files."""
        return self.labels

    def labels_of(self, indices: NDArray[np.int64]) -> Labels | None:
        """The labels of some files."""
        return None if self.labels is None else self.labels.of(indices)

    def identity(self, indices: NDArray[np.int64]) -> list[str]:
        """Names, sizes and checksums, as the archive lists them."""
        entries = ((self.names[i], self._entries.get(self.prefix + self.names[i])) for i in indices)
        return [f"{name}\0{entry.file_size}\0{entry.CRC}" if entry else f"{name}\0missing" for name, entry in entries]

    def headers(self, indices: NDArray[np.int64], title: str) -> list[Header | str]:
        """The size and colours of each file, or why it cannot be read."""
        return parallel_map(self._header, indices.tolist(), title)

    def read(self, index: int, target: Target) -> tuple[NDArray[Any], bool]:
        """One file decoded."""
        return read_image(self._content(index), target)

    def _content(self, index: int) -> IO[bytes]:
        entry = self._entries.get(self.prefix + self.names[index])
        if entry is None:
            raise FileNotFoundError(2, "not in the archive")
        if entry.file_size > _LARGEST:
            raise ValueError("too large for an image")
        with self._lock:  # zipfile does not promise to be thread-safe
            return io.BytesIO(self.archive.read(entry))

    def _header(self, index: int) -> Header | str:
        try:
            return read_header(self._content(index))
        except Exception as error:  # decoders of damaged files raise anything
            return reason(error)


def is_tiny_imagenet(path: Path) -> bool:
    """Whether a folder has TinyImageNet's layout, or a file is an archive."""
    if os.path.isdir(path):
        return (path / _IDS).is_file() and (path / "train").is_dir()
    return path.suffix.lower() == ".zip" and os.path.isfile(path)


def known_tiny_imagenet(name: str, root: Path, *, download: bool, progress: bool) -> ImageFiles | ZippedImages:
    """The images of tinyimagenet, or tinyimagenet:SPLIT, in the root."""
    splits = split_names(name, SPLITS)
    folder, archive = root / _FOLDER, root / DOWNLOAD.name
    if is_tiny_imagenet(folder):
        return tiny_imagenet(folder, splits)
    if not archive.is_file() and download:
        fetch(DOWNLOAD.url, DOWNLOAD.md5, archive, progress=progress)
    if not archive.is_file():
        raise CoviewsError(
            f"{NAME} is not in {root}: there is no {_FOLDER} and no {DOWNLOAD.name}. "
            "Download it with --download (download=True), or put one of them into that folder"
        )
    return tiny_imagenet(archive, splits)


def tiny_imagenet(path: Path, splits: Sequence[str]) -> ImageFiles | ZippedImages:
    """The images of some splits of TinyImageNet in a folder or an archive."""
    if path.is_dir():
        train, unreadable = find_images(path / "train")[:2] if "train" in splits else ([], [])
        names, labels = _select(str(path), splits, [f"train/{name}" for name in train], _reader(path))
        unreadable = [(f"train/{name}", why) for name, why in unreadable]
        return ImageFiles(str(path), path, names, labels, unreadable)
    try:
        archive = open_zip(regular_file(path))
    except Exception as error:  # a damaged archive raises anything
        raise CoviewsError(f"cannot read the archive {path}: {getattr(error, 'strerror', None) or error}") from error
    prefix = _prefix(archive, path)
    train = [name.removeprefix(prefix) for name in archive.namelist() if name.startswith(f"{prefix}train/")]
    names, labels = _select(str(path), splits, sorted(train), _unzipper(archive, prefix, path))
    return ZippedImages(str(path), archive, prefix, names, labels)


def _select(
    where: str, splits: Sequence[str], train: Sequence[str], text: Callable[[str], str]
) -> tuple[list[str], Labels]:
    """The names and labels of the images of some splits; `text` returns the content of a file of the set."""
    pairs: list[tuple[str, str]] = []
    for split in splits:
        if split == "train":
            matches = ((name, _TRAIN.fullmatch(name)) for name in train)
            pairs += [(name, match[1]) for name, match in matches if match]
        else:
            rows = (line.split("\t") for line in text(_ANNOTATIONS).splitlines() if line.strip())
            for row in rows:
                if len(row) < 2 or "/" in row[0] or "\\" in row[0]:
                    raise CoviewsError(f"{_ANNOTATIONS} in {where} is damaged: 'name, tab, class' was expected")
                pairs.append((f"val/images/{row[0]}", row[1].strip()))
    # all listed classes, so that train and val have the same ones even if one of them has no image
    classes = sorted({*text(_IDS).split(), *(wnid for _, wnid in pairs)})
    position = {wnid: i for i, wnid in enumerate(classes)}
    return [name for name, _ in pairs], Labels(np.array([position[w] for _, w in pairs], np.int64), tuple(classes))


def _prefix(archive: zipfile.ZipFile, path: Path) -> str:
    """The folder of TinyImageNet within the archive."""
    names = archive.namelist()
    for name in names:
        prefix = name.removesuffix(_IDS)
        if prefix != name and prefix.count("/") <= 1 and any(other.startswith(f"{prefix}train/") for other in names):
            return prefix
    raise CoviewsError(f"{path} is not TinyImageNet's archive, the only one that is read as it is: unpack it first")


def _reader(folder: Path) -> Callable[[str], str]:
    def text(name: str) -> str:
        return read_bounded(folder / name, _LARGEST).decode("utf-8", "replace")

    return text


def _unzipper(archive: zipfile.ZipFile, prefix: str, path: Path) -> Callable[[str], str]:
    def text(name: str) -> str:
        try:
            if archive.getinfo(prefix + name).file_size > _LARGEST:
                raise CoviewsError(f"{name} in {path} is far too large")
            return archive.read(prefix + name).decode("utf-8", "replace")
        except CoviewsError:
            raise
        except Exception as error:  # a damaged archive raises anything
            raise CoviewsError(f"cannot read {name} in {path}: it is missing or damaged") from error

    return text
