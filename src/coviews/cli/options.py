"""What several commands have in common."""

from pathlib import Path
from typing import Annotated

import tyro

from coviews.errors import CoviewsError
from coviews.ops.space import STANDARD, space


def _operations(default: str) -> str:
    """The hint in the help of an option that names a space: the operations of the default space."""
    return f"({STANDARD}: {', '.join(space(STANDARD).ops)})"


# options that may be left out
Data = Annotated[str | None, tyro.conf.arg(metavar="DATA")]
Text = Annotated[str | None, tyro.conf.arg(metavar="STR")]
Int = Annotated[int | None, tyro.conf.arg(metavar="INT")]
SpaceName = Annotated[str | None, tyro.conf.arg(metavar="STR", help_behavior_hint=_operations)]
MaybePath = Annotated[Path | None, tyro.conf.arg(metavar="PATH")]
Source = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]


def check_range(name: str, value: int, low: int, high: int) -> None:
    """Refuse a number outside of low..high."""
    if not low <= value <= high:
        raise CoviewsError(f"--{name} must be {low} to {high}, not {value}")
