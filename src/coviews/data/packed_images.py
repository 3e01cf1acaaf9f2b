"""Many images in few large files, with little memory for each: a number for its place, and none for its name."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from coviews.data.class_labels import Labels, labels_of_texts
from coviews.data.image_reader import header_or_reason, read_image
from coviews.data.imageset import Broken
from coviews.data.levels import Target
from coviews.data.parallel import parallel_map
from coviews.data.picture_reader import Header, reason
from coviews.errors import CoviewsError

LARGEST = 100_000_000  # bytes of one image file; a larger one would be an attack on the memory


class Looked(NamedTuple):
    """What is known of a shard once it has been looked through."""

    images: int  # how many it has
    classes: Sequence[str] = ()  # the distinct labels of its images
    codes: NDArray[np.int32] | None = None  # (images,) which of them each image has, -1 for none
    problem: str | None = None  # what is wrong with it

    @classmethod
    def of(cls, labels: Sequence[str | None], problem: str | None = None) -> "Looked":
        """From the label of each image."""
        numbers: dict[str, int] = {}
        codes = np.array([-1 if text is None else numbers.setdefault(text, len(numbers)) for text in labels], np.int32)
        return cls(len(labels), list(numbers), codes, problem)


class Pack(Protocol):
    """Shards of one kind."""

    @property
    def names(self) -> Sequence[str]:
        """Paths, URLs, or what the shards are called in messages."""

    @property
    def fetched(self) -> bool:
        """Whether a shard has to be fetched as a whole, before an image of it is read."""

    def read(self, shard: int, row: int, most: int) -> bytes:
        """The bytes of an image file, or the first so many."""

    def name(self, shard: int, row: int) -> str:
        """What an image is called."""

    def plan(self, now: Iterable[int], later: Iterable[int]) -> None:
        """Fetch these shards in the background, and no others, where they have to be fetched."""

    def stamp(self) -> list[str] | None:
        """Lines that change with the shards; None if that cannot be told."""

    def close(self) -> None:
        """Drop what was fetched."""


class PackedLabels(NamedTuple):
    """The label of each image as a small number."""

    codes: NDArray[np.int32]  # (N,), -1 for none
    classes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class PackedImages:
    """The images of some shards, in the order in which they stand there."""

    where: str
    pack: Pack
    bounds: NDArray[np.int64]  # (S + 1,) the first image of each shard, and the number of all
    labels: PackedLabels | None = None
    unreadable: Sequence[Broken] = ()
    frames: str | None = None
    in_threads: bool = True

    def __len__(self) -> int:
        return int(self.bounds[-1])

    @cached_property
    def names(self) -> Sequence[str]:
        """The shard and the file in it, of each image; read when asked for."""
        return _Names(self)

    def place(self, index: int) -> tuple[int, int]:
        """The shard of an image, and its row there."""
        shard = int(np.searchsorted(self.bounds, index, "right")) - 1
        return shard, index - int(self.bounds[shard])

    def known_labels(self) -> Labels | None:
        """The labels of all images, if each has one."""
        return self.labels_of(np.arange(len(self)))

    def labels_of(self, indices: NDArray[np.int64]) -> Labels | None:
        """The labels of some images, if each of them has one."""
        if self.labels is None or not len(indices):
            return None
        codes = self.labels.codes[indices]
        return Labels(codes.astype(np.int64), self.labels.classes) if codes.min() >= 0 else None

    def identity(self, indices: NDArray[np.int64]) -> list[str] | None:
        """The stamps of the shards, and the indices."""
        stamp = self.pack.stamp()
        return None if stamp is None else [*stamp, str(indices.tolist()), self.frames or ""]

    def headers(self, indices: NDArray[np.int64], title: str) -> list[Header | str]:
        """The size, channels and depth of each image, or why it cannot be read."""
        return parallel_map(self._header, indices.tolist(), title)

    def read(self, index: int, target: Target) -> tuple[NDArray[Any], bool]:
        """One image decoded, upright."""
        return read_image(self._content(index), target, self.frames)

    def _content(self, index: int, most: int = LARGEST + 1) -> IO[bytes]:
        shard, row = self.place(index)
        try:
            content = self.pack.read(shard, row, most)
        except OSError as error:
            raise CoviewsError(f"cannot read the shard {self.pack.names[shard]}: {reason(error)}") from error
        if not content:
            raise ValueError("an empty file")
        if len(content) > LARGEST:
            raise ValueError("too large for an image")
        return io.BytesIO(content)

    def _header(self, index: int) -> Header | str:
        return header_or_reason(partial(self._content, index), self.frames)


class _Names(Sequence[str]):
    def __init__(self, images: PackedImages) -> None:
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self._images.pack.name(*self._images.place(int(index)))


def packed_images(where: str, pack: Pack, looks: Sequence[Looked], frames: str | None = None) -> PackedImages:
    """The images of shards that have been looked through."""
    unreadable = [(pack.names[i], look.problem) for i, look in enumerate(looks) if look.problem is not None]
    bounds = np.concatenate([[0], np.cumsum([look.images for look in looks], dtype=np.int64)])
    if unreadable and not bounds[-1]:
        raise CoviewsError(f"cannot read the shard {unreadable[0][0]}: {unreadable[0][1]}")
    return PackedImages(where, pack, bounds, _packed_labels(looks), unreadable, frames)


def _packed_labels(looks: Sequence[Looked]) -> PackedLabels | None:
    """The labels of all images, the classes sorted; None if no image has one."""
    classes = sorted({name for look in looks for name in look.classes})
    if not classes:
        return None
    labels = labels_of_texts(classes)
    place = dict(zip(classes, labels.values.tolist(), strict=True))
    parts = []
    for look in looks:
        places = np.array([*(place[name] for name in look.classes), -1], np.int32)  # -1 stays
        parts.append(np.full(look.images, -1, np.int32) if look.codes is None else places[look.codes])
    return PackedLabels(np.concatenate(parts), labels.classes)


def cache_folder(cache: Path) -> Path:
    """Where shards are fetched to, and what is known of them is kept."""
    return cache / "streams"
