"""Typed schemas: plain values become what a type says, strictly, or an error says where they do not."""

import dataclasses
from typing import Annotated, Any, TypeVar

import msgspec

from coviews.errors import CoviewsError

T = TypeVar("T")

# numbers as readers give them are finite, and integers have at most 64 bits
Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
Name = Annotated[str, msgspec.Meta(max_length=200)]


class Schema(msgspec.Struct, forbid_unknown_fields=True):
    """The base of schemas: every field is named, and another one is an error."""


class OpenSchema(msgspec.Struct):
    """The base of schemas of files that newer versions add to: fields that are not named are left out."""


def checked(value: Any, shape: type[T], where: str) -> T:
    """A plain value as an instance of a type: a schema, a dataclass, dict[str, float], ...

    where: what the value is from, for the error.
    """
    try:
        return msgspec.convert(value, shape)
    except UnicodeEncodeError as error:
        raise CoviewsError(f"{where} is wrong: a text in it is not valid Unicode") from error
    except (msgspec.ValidationError, RecursionError, AttributeError) as error:  # the last for a tensor
        reason, _, place = str(error).replace("`", "").partition(" - at $")
        reason = reason[:1].lower() + reason[1:]
        raise CoviewsError(f"{where} is wrong: {place.lstrip('.')}{': ' if place else ''}{reason}") from error


def checked_fields(value: dict[str, Any], shape: type[T], where: str) -> T:
    """The same for a dataclass, all fields of which have to be its own."""
    for name in value:
        if name not in (f.name for f in dataclasses.fields(shape)):  # type: ignore[arg-type]
            raise CoviewsError(f"{where} is wrong: it has no {name!r}")
    return checked(value, shape, where)
