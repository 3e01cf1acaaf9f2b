"""Options of commands: their types on the command line, checks, and changes by name."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from coviews.errors import CoviewsError, unknown

# options that may be left out
Data = Annotated[str | None, tyro.conf.arg(metavar="DATA")]
Text = Annotated[str | None, tyro.conf.arg(metavar="STR")]
Number = Annotated[float | None, tyro.conf.arg(metavar="FLOAT")]
Int = Annotated[int | None, tyro.conf.arg(metavar="INT")]
MaybePath = Annotated[Path | None, tyro.conf.arg(metavar="PATH")]
Source = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]

T = TypeVar("T")


def flag(name: str) -> str:
    """An option as it is written on the command line."""
    return "--" + name.replace("_", "-")


def replaced(options: T, changes: Mapping[str, Any]) -> T:
    """A copy of an options dataclass with some fields changed; an unknown name is an error."""
    names = [field.name for field in dataclasses.fields(options)]  # type: ignore[arg-type]
    for name in changes:
        if name not in names:
            raise unknown("option", name, names)
    return dataclasses.replace(options, **changes)  # type: ignore[type-var]


def check_integers(options: Mapping[str, Any]) -> None:
    """Raise an error if a whole number among the options, or in a dataclass among them, has more than 64 bits."""
    for name, value in options.items():
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            check_integers({f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise CoviewsError(f"{flag(name)} must be a whole number of at most 64 bits, not {value}")


def check_range(name: str, value: int, low: int, high: int) -> None:
    """Raise an error if a number is not within low..high."""
    if not low <= value <= high:
        raise CoviewsError(f"--{name} must be {low} to {high}, not {value}")
