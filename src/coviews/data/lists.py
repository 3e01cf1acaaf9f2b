"""Lists of image files: one path per line, or a table with a column of paths."""

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path, PurePath

from coviews.boundary.regular import read_bounded
from coviews.data.class_labels import labels_of_texts
from coviews.data.image_files import ImageFiles
from coviews.data.image_reader import extensions
from coviews.data.splits import folder_splits
from coviews.errors import CoviewsError

LISTS = (".txt", ".csv", ".tsv")
TABLES = (".csv", ".tsv")  # those that can have labels
_PATHS = ("path", "file", "filename", "image")
_LABELS = ("label", "class", "target")
_LARGEST = 256 * 2**20  # bytes: millions of paths
_NAMED = 3  # missing files that a message names
_MOST_CELLS = 4_000_000  # and lines: each takes a hundred bytes of memory and more
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def listed_images(path: Path, notes: list[str], frames: str | None = None) -> ImageFiles:
    """The files in a list, relative to its folder, with labels if the list has any."""
    names, texts = listed_files(path)
    missing = sum(not text for text in texts)
    if 0 < missing < len(texts):
        notes.append(f"{missing} of {len(texts)} rows of {path} have no label: no labels are used")
    labels = None if missing or not texts else labels_of_texts(texts)
    return ImageFiles(str(path), path.parent, names, labels, frames=frames)


def labelled_images(path: Path, data: str, frames: str | None = None) -> ImageFiles:
    """The files of a table that have a label; they are in its folder, or in that of the data."""
    names, texts = listed_files(path)
    rows = [row for row, text in enumerate(texts) if text]
    if not rows:
        raise CoviewsError(f"{path} has no labels: give a table with the columns file and label")
    folders = [path.parent]
    if os.path.isdir(folder := os.path.expanduser(data)):
        splits = folder_splits(Path(folder))
        folders += [Path(folder), *([] if splits is None else [splits.train])]
    files = {row: next((f / names[row] for f in folders if os.path.isfile(f / names[row])), None) for row in rows}
    if missing := [names[row] for row, file in files.items() if file is None]:
        where = " or ".join(str(folder) for folder in folders)
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise CoviewsError(
            f"{len(missing)} of the {len(rows)} files that {path} labels are not in {where}: "
            f"{', '.join(missing[:_NAMED])}{more}"
        )
    labels = labels_of_texts([texts[row] for row in rows])
    return ImageFiles(str(path), Path(), [str(files[row]) for row in rows], labels, frames=frames)


def listed_files(path: Path) -> tuple[list[str], list[str]]:
    """The files in a list, and their labels as texts: an empty text where a row has no label, none for a .txt file."""
    try:
        text = read_bounded(path, _LARGEST, "list").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CoviewsError(f"cannot read the list {path}: it is not text in UTF-8") from error
    if sum(text.count(end) for end in "\n\r,\t") > _MOST_CELLS:
        raise CoviewsError(f"the list {path} has more than {_MOST_CELLS:,} lines and cells: name a folder of images")
    if path.suffix.lower() == ".txt":
        lines = [line.strip() for line in text.split("\n")]
        return [line for line in lines if line and not line.startswith("#")], []
    return _columns(path, _rows(path, text))


def _rows(path: Path, text: str) -> list[tuple[int, list[str]]]:
    """The rows of a table that are not empty, each with its line number."""
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=_DELIMITERS[path.suffix.lower()], skipinitialspace=True
    )
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise CoviewsError(f"cannot read line {reader.line_num} of {path}: {error}") from error
    return [(line, row) for line, row in rows if any(row)]


def _columns(path: Path, rows: Sequence[tuple[int, list[str]]]) -> tuple[list[str], list[str]]:
    """The paths, and the labels as texts; an empty text where a row has no label."""
    header = [cell.lower() for cell in rows[0][1]] if _has_header(rows) else []
    paths = _place(header, _PATHS)
    labels = _place(header, _LABELS)
    if labels is None and (not header or len(header) == 2):
        labels = 1 - paths if paths in (0, 1) else 1
    names, texts = [], []
    for line, row in rows[1:] if header else rows:
        name = row[paths or 0] if (paths or 0) < len(row) else ""
        if not name:
            raise CoviewsError(f"line {line} of {path} has no path of an image")
        names.append(name)
        texts.append(row[labels] if labels is not None and labels < len(row) else "")
    return names, texts


def _has_header(rows: Sequence[tuple[int, list[str]]]) -> bool:
    """Whether the first row is a header: it has a known name, or no image file where the second row has one."""
    if not rows:
        return False
    first = rows[0][1]
    if {cell.lower() for cell in first} & {*_PATHS, *_LABELS}:
        return True
    return len(rows) > 1 and not _has_image(first) and _has_image(rows[1][1])


def _has_image(row: Sequence[str]) -> bool:
    return any(PurePath(cell).suffix.lower() in extensions() for cell in row)


def _place(header: Sequence[str], names: Sequence[str]) -> int | None:
    """The column with one of these names; earlier names take precedence."""
    return next((header.index(name) for name in names if name in header), None)
