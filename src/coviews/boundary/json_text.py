"""JSON within limits: of size, of depth, and numbers that a computer can hold."""

import itertools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from coviews.boundary.regular import open_regular, read_bounded
from coviews.boundary.schema import checked
from coviews.errors import CoviewsError

T = TypeVar("T")

LARGEST = 64 * 2**20  # bytes of a file
LARGEST_LINE = 16 * 2**20  # bytes of a line in a file of lines
DEEPEST = 32  # brackets within each other
_MOST_BRACKETS, _MOST_COMMAS = 2_000_000, 16_000_000  # in a file: what they enclose and part takes memory
_LARGEST_LINES, _MOST_LINES = 64 * 2**20, 250_000  # bytes and lines of a file of lines
_DIGITS = 20  # of an integer
# a whole text, or one that is not ended; or a bracket
_TEXT_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def read_json(path: str | Path, shape: type[T], kind: str = "file", *, most: int = LARGEST) -> T:
    """The content of a JSON file as a type says.

    Args:
        path: the file.
        shape: what it has to hold: a schema, a dataclass, dict[str, float], Any, ...
        kind: what the file is, for errors.
        most: bytes.
    """
    return parse_json(read_bounded(path, most, kind), shape, f"the {kind} {path}")


def parse_json(
    content: bytes | str, shape: type[T], where: str, *, most: int = LARGEST, nan_is_null: bool = False
) -> T:
    """The same for a text that was read already; errors name `where` it is from.

    nan_is_null: NaN and Infinity, which Python writes though JSON does not have them, are null rather than errors.
    """
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    if len(raw) > most:
        raise CoviewsError(f"{where} is too large: at most {most:,} bytes are read")
    try:
        _check_depth(raw)
        value = json.loads(
            raw.decode("utf-8-sig"),
            parse_constant=_null if nan_is_null else _no_number,
            parse_int=_integer,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as error:
        reason = "is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else f"is not JSON: {error}"
        raise CoviewsError(f"{where} {reason}") from error
    return checked(_printable(value) if rb"\ud" in raw.lower() else value, shape, where)


def json_lines(path: str | Path, kind: str = "file") -> Iterator[dict[str, Any] | None]:
    """The objects in a file with one to a line; None for a line that is no object, such as one that a kill cut off."""
    try:
        with open_regular(path, kind) as file:
            for count in itertools.count(1):
                if not (line := file.readline(LARGEST_LINE + 1)):
                    return
                if len(line) > LARGEST_LINE:
                    raise CoviewsError(f"the {kind} {path} has a line of more than {LARGEST_LINE:,} bytes")
                if count > _MOST_LINES or file.tell() > _LARGEST_LINES:
                    raise CoviewsError(
                        f"the {kind} {path} has more than {_MOST_LINES:,} lines or {_LARGEST_LINES:,} bytes"
                    )
                try:
                    yield parse_json(line, dict[str, Any], "a line", nan_is_null=True)
                except CoviewsError:
                    yield None
    except OSError as error:
        raise CoviewsError(f"cannot read the {kind} {path}: {error.strerror or error}") from error


def _check_depth(raw: bytes) -> None:
    """An error for brackets too deep within each other, or too many, before they are parsed."""
    brackets = raw.count(b"[") + raw.count(b"{")
    if brackets <= DEEPEST:
        return
    if brackets > _MOST_BRACKETS or raw.count(b",") > _MOST_COMMAS:
        raise ValueError(f"it has more than {_MOST_BRACKETS:,} brackets, or {_MOST_COMMAS:,} values")
    depth = 0
    for match in _TEXT_OR_BRACKET.finditer(raw):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(match[0], 0)
        if depth > DEEPEST:
            raise ValueError(f"its brackets are more than {DEEPEST} deep")


def _null(_: str) -> None:
    return None


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not a number")


def _integer(text: str) -> int:
    if len(text) > _DIGITS or not -(2**63) <= (value := int(text)) < 2**64:
        raise ValueError(f"{text[:_DIGITS]}... has more than 64 bits")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:_DIGITS]} is too large")
    return value


def _printable(value: Any) -> Any:
    """The same with halves of characters replaced, which no terminal and no file can hold."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_printable(v) for v in value]
    return {_printable(k): _printable(v) for k, v in value.items()} if isinstance(value, dict) else value
