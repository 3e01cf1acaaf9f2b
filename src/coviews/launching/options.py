"""The options of a launcher: fields with a text about each, read from a line such as `partition=gpu,mem_gb=16`."""

import dataclasses
import math
import typing
from typing import Any, TypeVar

from coviews.errors import CoviewsError, unknown

T = TypeVar("T")


def option(default: T, about: str, least: float | None = None) -> T:
    """A field of a launcher.

    least: the lowest number.
    """
    made: T = dataclasses.field(default=default, metadata={"about": about, "least": least})
    return made


def read_options(line: str | None, kind: type[T], launcher: str) -> T:
    """A launcher with the options that a line names, the others by default."""
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    types, values = typing.get_type_hints(kind), dict[str, Any]()
    for part in (line or "").split(","):
        if not part.strip():
            continue
        if not fields:
            raise CoviewsError(f"the launcher {launcher} has no options: leave out --launcher-options")
        name, _, text = (word.strip() for word in part.partition("="))
        if name not in fields:
            raise unknown(f"option of the launcher {launcher}", name, fields)
        if not text:
            raise CoviewsError(f"--launcher-options has no value for {name}: write {name}=...")
        if name in values:
            raise CoviewsError(f"--launcher-options names {name} twice")
        number = next((t for t in (int, float) if types[name] in (t, t | None)), None)
        values[name] = text if number is None else _number(name, text, number, fields[name].metadata["least"])
    return kind(**values)


def _number(name: str, text: str, kind: type[int] | type[float], least: float) -> float:
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not least <= value < 1e9:
        what = "a whole number" if kind is int else "a number"
        raise CoviewsError(f"--launcher-options: {name} must be {what} from {least:g}, not {text!r}")
    return value
