"""Typed schemas: plain values become what a type says, strictly, or an error says where they do not."""

from typing import Annotated, Any, TypeVar

import msgspec

from coviews.errors import CoviewsError

T = TypeVar("T")

# numbers as readers give them are finite, and integers have at most 64 bits
Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
Name = Annotated[str, msgspec.Meta(max_length=1000)]


class Schema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of schemas: every field is named, and another one is an error."""


class OpenSchema(msgspec.Struct, frozen=True):
    """The base of schemas of files that newer versions add to: fields that are not named are left out."""


def checked(value: Any, shape: type[T], where: str) -> T:
    """A plain value as an instance of a type: a schema, a dataclass, dict[str, float], ...

    where: what the value is from, for the error.
    """
    try:
        return msgspec.convert(value, shape)
    except (msgspec.ValidationError, RecursionError) as error:
        raise CoviewsError(f"{where}: {str(error).replace('`', '')}") from error
