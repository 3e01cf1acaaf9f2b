"""Parquet files with a column of image files, as Hugging Face keeps data sets: here, behind URLs or on the hub.

A file is read from its beginning to its end, and its images are kept in a file without a name while they are needed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from coviews.boundary.json_text import parse_json
from coviews.data.fetched_shards import FetchedShards, Places, tried_again
from coviews.data.packed_images import LARGEST, Looked, PackedImages, cache_folder, packed_images
from coviews.data.parallel import parallel_map
from coviews.data.picture_reader import reason
from coviews.data.remote import is_url, remote_file
from coviews.data.shards import last_part, opened_file, shard_stamp
from coviews.errors import CoviewsError

PARQUET = ".parquet"
LABELS = ("label", "labels", "class", "target", "fine_label")
_ROWS = 64  # that are read at once


class ParquetPack:
    """Parquet files, of which it is known how many images they have."""

    fetched = True

    def __init__(self, names: Sequence[str], column: str, folder: Path) -> None:
        self.names, self._column = names, column
        self._shards = FetchedShards(self._fetch, folder)

    def read(self, shard: int, row: int, most: int) -> bytes:
        """The bytes of an image file, or the first so many."""
        return self._shards(shard).read(row, most)

    def name(self, shard: int, row: int) -> str:
        """The file and the row in it."""
        return f"{last_part(self.names[shard])}#{row}"

    def plan(self, now: Iterable[int], later: Iterable[int]) -> None:
        """Read these files in the background."""
        self._shards.plan(now, later)

    def stamp(self) -> list[str]:
        """The names, sizes and times of the files."""
        return [shard_stamp(name) for name in self.names]

    def close(self) -> None:
        """Drop what was read."""
        self._shards.close()

    @property
    def kept(self) -> list[int]:
        """The files whose images are kept."""
        return self._shards.kept

    def _fetch(self, shard: int, file: IO[bytes], check: Callable[[], None]) -> Places:
        name = self.names[shard]

        def copy() -> Places:
            file.seek(0)
            file.truncate()
            with _opened(name) as table:
                return written(_images(table, self._column), file, check)

        return tried_again(copy, f"read {name}") if is_url(name) else copy()


def written(contents: Iterable[bytes | None], file: IO[bytes], check: Callable[[], None]) -> Places:
    """Write image files one after the other; None, or one that is too large for an image, takes no bytes."""
    sizes = []
    for content in contents:
        check()
        kept = content if content is not None and len(content) <= LARGEST else b""
        file.write(kept)
        sizes.append(len(kept))
    file.flush()
    ends = np.cumsum(sizes, dtype=np.int64)
    return Places(ends - sizes, np.array(sizes, np.uint32))


def open_parquet(where: str, names: Sequence[str], cache: Path, title: str, frames: str | None = None) -> PackedImages:
    """Find the column of images, and the number of images and the labels of all files."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise CoviewsError("a .parquet file needs pyarrow: pip install 'coviews[parquet]'") from error
    looks = parallel_map(_look, names, title)
    columns = {column for column, _ in looks if column is not None}
    if len(columns) > 1:
        raise CoviewsError(f"the files of {where} have their images in different columns: {', '.join(sorted(columns))}")
    pack = ParquetPack(names, columns.pop() if columns else "", cache_folder(cache))
    return packed_images(where, pack, [look for _, look in looks], frames)


def _look(name: str) -> tuple[str | None, Looked]:
    """The column of images of a file, and what else is known of it."""

    def look() -> tuple[str | None, Looked]:
        with _opened(name) as table:
            schema = table.schema_arrow
            column = _image_column(schema)
            if column is None:
                names = ", ".join(schema.names[:8])
                raise CoviewsError(f"{name} has no column of images: an image is its file's bytes (it has {names})")
            count = table.metadata.num_rows
            labels = _labels(table, schema)
            return column, Looked(count) if labels is None else Looked.of(labels)

    try:
        return tried_again(look, f"read {name}") if is_url(name) else look()
    except CoviewsError:
        raise
    except Exception as error:  # of damaged files, and FileNotFoundError
        return None, Looked(0, problem=reason(error))


@contextmanager
def _opened(name: str) -> Iterator[Any]:
    import pyarrow.parquet as pq

    if is_url(name):
        system, path = remote_file(name)
        with system.open(path, "rb") as file:
            yield pq.ParquetFile(file)
    else:
        with opened_file(name) as file:
            yield pq.ParquetFile(file)


def _image_column(schema: Any) -> str | None:
    """The first column of bytes, or of bytes with a path, as Hugging Face writes images."""
    import pyarrow as pa

    def is_bytes(kind: Any) -> bool:
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))

    for field in schema:
        if pa.types.is_struct(field.type):
            inner = field.type.get_field_index("bytes")
            if inner >= 0 and is_bytes(field.type.field(inner).type):
                return str(field.name)
    return next((str(field.name) for field in schema if is_bytes(field.type)), None)


def _images(table: Any, column: str) -> Iterator[bytes | None]:
    for batch in table.iter_batches(batch_size=_ROWS, columns=[column]):
        for value in batch.column(0).to_pylist():
            yield value.get("bytes") if isinstance(value, dict) else value


def _labels(table: Any, schema: Any) -> list[str | None] | None:
    """The label of each row as text; None if there is no column of labels."""
    import pyarrow as pa

    kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)
    column = next((n for n in LABELS if n in schema.names and any(is_a(schema.field(n).type) for is_a in kinds)), None)
    if column is None:
        return None
    classes = _class_names(schema, column)
    return [label_text(value, classes) for value in table.read(columns=[column]).column(0).to_pylist()]


def label_text(value: Any, classes: Sequence[str]) -> str | None:
    """A label as text: the name of its class if it has one; None for no label, which data sets also write as -1."""
    if value is None or (isinstance(value, int) and value < 0):
        return None
    return classes[value] if isinstance(value, int) and value < len(classes) else str(value)


def _class_names(schema: Any, column: str) -> list[str]:
    """The names of the classes, which Hugging Face keeps beside the columns."""
    about = (schema.metadata or {}).get(b"huggingface")
    if about is None:
        return []
    try:
        features: Any = parse_json(about, dict[str, Any], "what a file says of its columns")
        names = features["info"]["features"][column]["names"]
    except (CoviewsError, KeyError, TypeError):
        return []
    known = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if known and len(set(names)) == len(names) else []
