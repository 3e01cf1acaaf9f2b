"""What several commands have in common."""

from pathlib import Path
from typing import Annotated

import tyro

from coviews.errors import CoviewsError

# options that may be left out
Data = Annotated[str | None, tyro.conf.arg(metavar="DATA")]
Text = Annotated[str | None, tyro.conf.arg(metavar="STR")]
Int = Annotated[int | None, tyro.conf.arg(metavar="INT")]
MaybePath = Annotated[Path | None, tyro.conf.arg(metavar="PATH")]
Source = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]


def check_range(name: str, value: int, low: int, high: int) -> None:
    """Refuse a number outside of low..high."""
    if not low <= value <= high:
        raise CoviewsError(f"--{name} must be {low} to {high}, not {value}")
