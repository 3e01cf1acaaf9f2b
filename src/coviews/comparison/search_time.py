"""What a search before a training has taken, kept beside what it found."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

from coviews.boundary.json_text import read_json
from coviews.boundary.schema import Schema
from coviews.files.atomic import write_whole
from coviews.runs.folder import CHOICE

_FILE = "seconds.json"


class _Time(Schema):
    seconds: float


@contextlib.contextmanager
def timed_search(folder: Path) -> Iterator[None]:
    """Add the seconds of this sitting to those of earlier ones; those of a sitting that is killed are not known."""
    before, start = _seconds(folder), time.monotonic()
    try:
        yield
    finally:
        seconds = before + time.monotonic() - start
        if folder.is_dir():  # it was not refused before it began
            write_whole(folder / _FILE, json.dumps({"seconds": round(seconds, 1)}).encode())


def seconds_of_search(run: Path) -> float:
    """What the search before a run has taken; 0 if there was none."""
    return _seconds(run / CHOICE)


def _seconds(folder: Path) -> float:
    file = folder / _FILE
    return read_json(file, _Time, "time of a search").seconds if file.exists() else 0.0
