"""YAML within limits: texts, numbers, truth values, lists and mappings; no tags, no anchors, no dates."""

import math
import re
from pathlib import Path
from typing import Any, TypeVar

import yaml

from coviews.boundary.regular import read_bounded
from coviews.boundary.schema import checked
from coviews.errors import CoviewsError

T = TypeVar("T")

LARGEST = 256 * 2**10  # bytes of a file
DEEPEST = 16  # lists and mappings within each other
_DIGITS = 20  # of an integer
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = ("", "~", "null", "Null", "NULL")
_TRUTH = {
    form: value
    for word, value in (("yes", True), ("true", True), ("on", True), ("no", False), ("false", False), ("off", False))
    for form in (word, word.capitalize(), word.upper())
}
_INTEGER = re.compile("[-+]?(?:0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?")


def read_yaml(path: str | Path, shape: type[T], kind: str = "file") -> T:
    """The content of a YAML file as a type says; None if it is empty.

    Args:
        path: the file.
        shape: what it has to hold: a schema, a dataclass, dict[str, float], Any, ...
        kind: what the file is, for errors.
    """
    return parse_yaml(read_bounded(path, LARGEST, kind), shape, f"the {kind} {path}")


def parse_yaml(content: bytes | str, shape: type[T], where: str) -> T:
    """The same for a text that was read already; errors name `where` it is from."""
    if len(content) > LARGEST:
        raise CoviewsError(f"{where} is too large: at most {LARGEST:,} bytes are read")
    loader = None
    try:
        text = content.decode("utf-8-sig") if isinstance(content, bytes) else content
        loader = _Loader(text)
        value = _document(loader)
    except (yaml.YAMLError, ValueError) as error:
        reason = "is not text in UTF-8" if isinstance(error, UnicodeError) else f"cannot be read as YAML: {error}"
        raise CoviewsError(f"{where} {reason}") from error
    finally:
        if loader is not None:
            loader.dispose()
    return checked(value, shape, where)


def _document(loader: Any) -> Any:
    """The value of the one document, built from the parser's events: nothing is constructed by tags."""
    loader.get_event()  # the start of the stream
    if loader.check_event(yaml.StreamEndEvent):
        return None
    loader.get_event()  # the start of the document
    value = _value(loader, 1)
    loader.get_event()  # its end
    if not loader.check_event(yaml.StreamEndEvent):
        raise ValueError("it holds more than one document")
    return value


def _value(loader: Any, depth: int) -> Any:
    event = loader.get_event()
    line = event.start_mark.line + 1
    if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
        raise ValueError(f"line {line} has an anchor or an alias (& or *), which are not read: write the value out")
    if event.tag is not None:
        raise ValueError(f"line {line} has the tag {event.tag[:40]}, and tags are not read: leave it out")
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(event.value, line) if event.implicit[0] else event.value
    if depth > DEEPEST:
        raise ValueError(f"line {line} is more than {DEEPEST} lists or mappings deep")
    if isinstance(event, yaml.SequenceStartEvent):
        values = []
        while not loader.check_event(yaml.SequenceEndEvent):
            values.append(_value(loader, depth + 1))
        loader.get_event()
        return values
    mapping: dict[str, Any] = {}
    while not loader.check_event(yaml.MappingEndEvent):
        key = loader.peek_event()
        if not isinstance(key, yaml.ScalarEvent):
            raise ValueError(f"line {key.start_mark.line + 1} has a list, a mapping or an alias as a name")
        _value(loader, depth)  # checked like any other; names are texts, whatever they look like
        if key.value in mapping:
            raise ValueError(f"line {key.start_mark.line + 1} names {key.value!r} twice")
        mapping[key.value] = _value(loader, depth + 1)
    loader.get_event()
    return mapping


def _scalar(text: str, line: int) -> Any:
    """A scalar without quotes; what YAML would make a date, an octal or a number to the base 60 of is text."""
    if text in _NULL:
        return None
    if text in _TRUTH:
        return _TRUTH[text]
    digits = text.replace("_", "")
    if _INTEGER.fullmatch(text):
        if len(digits) > _DIGITS or not -(2**63) <= (value := int(digits)) < 2**64:
            raise ValueError(f"line {line} has a whole number of more than 64 bits")
        return value
    if _FLOAT.fullmatch(text):
        if not math.isfinite(number := float(digits)):
            raise ValueError(f"line {line} has a number that is too large")
        return number
    return text
