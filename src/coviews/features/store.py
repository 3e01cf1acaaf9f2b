"""Features as one file, .npz or .parquet, written part by part, with one part in memory."""

import importlib.util
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from coviews.boundary.arrays import open_arrays
from coviews.data.load import ImageSet
from coviews.encoders.features import Features
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole

_ROWS = 4096  # names written at once


def check_feature_file(path: Path, overwrite: bool) -> None:
    """Raise an error if the file cannot be written."""
    suffix = path.suffix.lower()
    if suffix not in _WRITERS:
        raise CoviewsError(f"cannot write features as {str(path)!r}: name it .npz or .parquet")
    if suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise CoviewsError("a .parquet file needs pyarrow: pip install 'coviews[parquet]', or name it .npz")
    if path.is_dir():
        raise CoviewsError(f"cannot write {path}: it is a folder")
    if path.exists() and not overwrite:
        raise CoviewsError(f"{path} is there already: choose another --out, or --overwrite")


def write_features(path: Path, parts: Iterable[Features], width: int, images: ImageSet, about: dict[str, Any]) -> None:
    """Write features (N, width) with the names and labels of their images, complete or not at all.

    Args:
        path: the file; its extension is the format.
        parts: the features in consecutive parts.
        width: the number of features of one image.
        images: their names, labels and classes are written too.
        about: the encoder and the normalisation, written as JSON.
    """
    text = json.dumps(about, sort_keys=True)
    write = _WRITERS[path.suffix.lower()]
    write_whole(path, lambda file: write(file, parts, width, images, text))


def read_features(path: Path) -> Features:
    """The features (N, D) of a file that `write_features` wrote."""
    if path.suffix.lower() == ".npz":
        with open_arrays(path, "file of features") as arrays:
            return arrays.read("features")
    import pyarrow.parquet as pq

    column = pq.read_table(path, columns=["features"])["features"].combine_chunks()
    return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)


def _write_npz(file: BinaryIO, parts: Iterable[Features], width: int, images: ImageSet, about: str) -> None:
    n = len(images)
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:

        def add(name: str, shape: tuple[int, ...], dtype: Any, rows: Iterable[NDArray[Any]]) -> None:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                _write_npy(member, shape, np.dtype(dtype), rows)

        add("features", (n, width), "<f4", parts)
        if images.labels is not None:
            add("labels", (n,), "<i8", [images.labels])
        for name, texts in (("classes", images.classes), ("names", images.names), ("about", (about,))):
            if texts is not None:
                kind = f"<U{max(1, max(map(len, texts), default=1))}"
                blocks = (np.array(texts[i : i + _ROWS], kind) for i in range(0, len(texts), _ROWS))
                add(name, () if name == "about" else (len(texts),), kind, blocks)


def _write_npy(member: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any], rows: Iterable[NDArray[Any]]) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(member, header)
    for block in rows:
        member.write(np.ascontiguousarray(block, dtype).tobytes())


def _write_parquet(file: BinaryIO, parts: Iterable[Features], width: int, images: ImageSet, about: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields: list[tuple[str, Any]] = [("name", pa.string())] if images.names is not None else []
    fields += [("label", pa.int64())] if images.labels is not None else []
    fields += [("class", pa.string())] if images.labels is not None and images.classes is not None else []
    fields += [("features", pa.list_(pa.float32(), width))]
    schema = pa.schema(fields).with_metadata({"coviews": about})
    with pq.ParquetWriter(file, schema) as writer:
        for rows, part in _numbered(parts):
            columns: list[Any] = []
            if images.names is not None:
                columns.append(pa.array([_encodable(name) for name in images.names[rows]], pa.string()))
            if images.labels is not None:
                columns.append(pa.array(images.labels[rows]))
                if images.classes is not None:
                    classes = [_encodable(images.classes[label]) for label in images.labels[rows]]
                    columns.append(pa.array(classes, pa.string()))
            values = pa.array(np.ascontiguousarray(part).reshape(-1))
            columns.append(pa.FixedSizeListArray.from_arrays(values, width))
            writer.write_table(pa.table(columns, schema=schema))


def _numbered(parts: Iterable[Features]) -> Iterator[tuple[slice, Features]]:
    done = 0
    for part in parts:
        yield slice(done, done + len(part)), part
        done += len(part)


def _encodable(name: str) -> str:
    """The name without bytes that are not text, which the name of a file may have."""
    return name.encode("utf-8", "backslashreplace").decode()


_WRITERS: dict[str, Callable[[BinaryIO, Iterable[Features], int, ImageSet, str], None]] = {
    ".npz": _write_npz,
    ".parquet": _write_parquet,
}
