"""Data sets of the library `datasets`: those that lie on a disk, and those that are streamed."""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from coviews.boundary.regular import regular_file
from coviews.data.class_labels import Labels
from coviews.data.fetched_shards import FetchedShards, Places, tried_again
from coviews.data.image_reader import read_header, read_image
from coviews.data.imageset import Broken
from coviews.data.levels import Target
from coviews.data.packed_images import LARGEST, Looked, PackedImages, cache_folder, packed_images
from coviews.data.parallel import parallel_map
from coviews.data.parquet_pack import LABELS, label_text, written
from coviews.data.picture_reader import Header, reason
from coviews.errors import CoviewsError

_MODULE = "datasets."


def hugging_face_kind(data: Any) -> str | None:
    """The name of the type of a data set of Hugging Face's library; None if it is something else."""
    kind = type(data)
    names = ("Dataset", "IterableDataset", "DatasetDict", "IterableDatasetDict")
    return kind.__name__ if kind.__module__.startswith(_MODULE) and kind.__name__ in names else None


class HuggingFaceImages:
    """The rows of a `datasets.Dataset`, whose files are mapped into memory; images are decoded when they are read."""

    names: Sequence[str] | None = None
    unreadable: Sequence[Broken] = ()
    in_threads = True

    def __init__(self, dataset: Any, frames: str | None = None) -> None:
        self.where, self._frames = "the data set", frames
        self._column, self._label = _columns(dataset)
        self._rows = _undecoded(dataset, self._column).with_format(None)
        self._classes = _class_names(dataset, self._label)

    def __len__(self) -> int:
        return len(self._rows)

    def known_labels(self) -> Labels | None:
        """The labels of all rows."""
        return self.labels_of(np.arange(len(self)))

    def labels_of(self, indices: NDArray[np.int64]) -> Labels | None:
        """The labels of some rows, if each of them has one."""
        if self._label is None or not len(indices):
            return None
        look = Looked.of([label_text(value, self._classes) for value in self._rows.select(indices)[self._label][:]])
        if look.codes is None or look.codes.min() < 0:
            return None
        named = set(look.classes) <= set(self._classes)
        classes = self._classes if named else sorted(look.classes)
        places = np.array([classes.index(name) for name in look.classes], np.int64)
        return Labels(places[look.codes], tuple(classes))

    def identity(self, indices: NDArray[np.int64]) -> list[str] | None:
        """The data set's own fingerprint, and the rows."""
        fingerprint = getattr(self._rows, "_fingerprint", None)
        return None if fingerprint is None else [str(fingerprint), str(indices.tolist()), self._frames or ""]

    def headers(self, indices: NDArray[np.int64], title: str) -> list[Header | str]:
        """The size, channels and depth of each image, or why it cannot be read."""
        return parallel_map(self._header, indices.tolist(), title)

    def read(self, index: int, target: Target) -> tuple[NDArray[Any], bool]:
        """One row's image decoded, upright."""
        return read_image(self._content(index), target, self._frames)

    def _content(self, index: int) -> IO[bytes]:
        content = _content(self._rows[index][self._column])
        if not content:
            raise ValueError("there is no image in this row")
        return io.BytesIO(content)

    def _header(self, index: int) -> Header | str:
        try:
            return read_header(self._content(index), self._frames)
        except CoviewsError:
            raise
        except Exception as error:  # decoders of damaged files raise anything
            return reason(error)


class IterablePack:
    """The shards of a `datasets.IterableDataset`: each is gone through from its first row to its last."""

    fetched = True

    def __init__(self, dataset: Any, column: str, folder: Path) -> None:
        self._dataset, self._column = dataset, column
        self._count = int(dataset.num_shards)
        self.names = [f"shard {i} of the data set" for i in range(self._count)]
        self._shards = FetchedShards(self._fetch, folder)

    def read(self, shard: int, row: int, most: int) -> bytes:
        """The bytes of an image file, or the first so many."""
        opened = self._shards(shard)
        if row >= len(opened):
            raise CoviewsError(f"{self.names[shard]} has fewer rows than before: it must give the same rows each time")
        return opened.read(row, most)

    def name(self, shard: int, row: int) -> str:
        """The shard and the row in it."""
        return f"shard {shard}, row {row}"

    def plan(self, now: Iterable[int], later: Iterable[int]) -> None:
        """Go through these shards in the background."""
        self._shards.plan(now, later)

    def stamp(self) -> None:
        """None: such a data set does not tell whether its images have changed."""
        return None

    def close(self) -> None:
        """Drop what was read."""
        self._shards.close()

    @property
    def kept(self) -> list[int]:
        """The shards whose images are kept."""
        return self._shards.kept

    def rows(self, shard: int) -> Iterator[Any]:
        """The rows of a shard."""
        return iter(self._dataset.shard(num_shards=self._count, index=shard))

    def _fetch(self, shard: int, file: IO[bytes], check: Callable[[], None]) -> Places:
        def copy() -> Places:
            file.seek(0)
            file.truncate()
            return written((_content(row[self._column]) for row in self.rows(shard)), file, check)

        return tried_again(copy, f"read {self.names[shard]}")


def open_iterable(dataset: Any, cache: Path, title: str, frames: str | None = None) -> PackedImages:
    """Go through a streamed data set once, to count its images and to know their labels."""
    column, label = _columns(dataset)
    classes = _class_names(dataset, label)
    pack = IterablePack(_undecoded(dataset, column), column, cache_folder(cache))

    def look(shard: int) -> Looked:
        if label is None:
            return Looked(sum(1 for _ in pack.rows(shard)))
        return Looked.of([label_text(row[label], classes) for row in pack.rows(shard)])

    def look_again(shard: int) -> Looked:
        return tried_again(lambda: look(shard), f"read {pack.names[shard]}")

    looks = parallel_map(look_again, range(len(pack.names)), title, in_threads=False)
    return packed_images("the data set", pack, looks, frames)


def _columns(dataset: Any) -> tuple[str, str | None]:
    """The column of images, and that of labels if there is one."""
    features = dataset.features
    if features is None:  # it is found out from the first row
        first: dict[str, Any] = next(iter(dataset), {})
        kinds = {name: type(value).__name__ for name, value in first.items()}
        images = [name for name, value in first.items() if isinstance(value, Image.Image)]
    else:
        kinds = {name: type(feature).__name__ for name, feature in features.items()}
        images = [name for name, kind in kinds.items() if kind == "Image"]
    if not images:
        raise CoviewsError(f"the data set has no column of images: it has {', '.join(kinds) or 'none'}")
    named = [name for name, kind in kinds.items() if kind == "ClassLabel"]
    return images[0], next((name for name in (*named, *LABELS) if name in kinds), None)


def _undecoded(dataset: Any, column: str) -> Any:
    """The same data set with the bytes of its image files."""
    if dataset.features is None:
        return dataset
    from datasets import Image as ImageFeature

    return dataset.cast_column(column, ImageFeature(decode=False))


def _class_names(dataset: Any, label: str | None) -> list[str]:
    feature = None if label is None or dataset.features is None else dataset.features[label]
    names = getattr(feature, "names", None)
    return list(names) if isinstance(names, list) else []


def _content(value: Any) -> bytes | None:
    """The bytes of an image file: as they are, of the file that is named, or made from an image in memory."""
    if isinstance(value, Image.Image):
        file = io.BytesIO()
        value.save(file, "TIFF" if value.mode in ("F", "I") else "PNG")
        return file.getvalue()
    if not isinstance(value, dict):
        return None
    if value.get("bytes") is not None:
        return bytes(value["bytes"])
    if value.get("path") is None:
        return None
    with regular_file(value["path"]) as file_here:
        return file_here.read(LARGEST + 1)
