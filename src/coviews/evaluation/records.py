"""The file of a run's evaluations: one JSON object a line; lines are added and never replaced."""

import json
import os
import warnings
from pathlib import Path
from typing import Any

from filelock import FileLock

from coviews.errors import CoviewsError

FILE = "evaluations.jsonl"  # in the folder of a run


def append_record(path: Path, record: dict[str, Any]) -> None:
    """Add a line; if a kill cut the last line off, that stays as it is and the new one starts on a line of its own."""
    line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    try:
        # two evaluations may end at the same moment
        with FileLock(path.with_name(f".{path.name}.lock")), open(path, "ab+") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise CoviewsError(f"cannot write {path}: {error.strerror or error}") from error


def results_file(run: Path | None, out: str | Path | None) -> Path | None:
    """The file for the results, if there is to be one; checked before the work.

    Args:
        run: the folder of the run that the encoder is of, if it is of one.
        out: the file that the user asked for.
    """
    if out is not None:
        check_place(Path(out))
        return Path(out)
    if run is None:
        return None
    try:
        check_place(run / FILE)
    except CoviewsError as error:  # someone else's run can be evaluated all the same
        warnings.warn(f"{error}: the results will not be kept, unless you give --out FILE", stacklevel=3)
        return None
    return run / FILE


def check_place(path: Path) -> None:
    """Raise an error, before the work, if no line could be added to this file."""
    if path.is_dir():
        raise CoviewsError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise CoviewsError(f"cannot write {path}: there is no folder {path.parent}")
    if not all(os.access(place, os.W_OK) for place in (path.parent, path) if place.exists()):
        raise CoviewsError(f"cannot write {path}: it may not be written to")
