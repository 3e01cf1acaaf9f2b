"""Results of many evaluations in one file, one JSON object a line: each is added, none is ever replaced."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from coviews.errors import CoviewsError

FILE = "evaluations.jsonl"  # in the folder of a run


def append_record(path: Path, record: dict[str, Any]) -> None:
    """Add a line; one that an earlier kill cut off stays as it is, and the new one starts on a line of its own."""
    line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    try:
        with open(path, "ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # two evaluations may end at the same moment
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise CoviewsError(f"cannot write {path}: {error.strerror or error}") from error


def read_records(path: Path) -> list[dict[str, Any]]:
    """All lines that are whole."""
    found = []
    with open(path, "rb") as file:
        for line in file:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue  # a kill cut it off
    return found


def check_place(path: Path) -> None:
    """Before the work: an error if no line could be added to this file."""
    if path.is_dir():
        raise CoviewsError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise CoviewsError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise CoviewsError(f"cannot write {path}: it may not be written to")
