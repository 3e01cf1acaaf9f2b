"""Options of a command: one frozen dataclass each, for the command line and for Python alike."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from coviews.errors import unknown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def replaced(options: T, changes: Mapping[str, Any]) -> T:
    """The same options with some fields changed; an unknown name is an error that names the nearest field."""
    names = [field.name for field in dataclasses.fields(options)]
    for name in changes:
        if name not in names:
            raise unknown("option", name, names)
    return dataclasses.replace(options, **changes)
