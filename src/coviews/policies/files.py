"""Policy files: safetensors, with a description in JSON."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from coviews.boundary.schema import Name, Schema
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole
from coviews.ops.space import MOST, SPACES, Space, space

FORMAT = 1  # of the file; goes up when an older reader would misread a newer file
FORMAT_WITH_CROPS = 2  # of policies that choose crops, which older readers would leave to chance
MOST_STEPS, MOST_VIEWS = 16, 16  # of a policy: with more, statistics would take minutes
_MANY = 64  # levels: for a built-in space with more, a checksum replaces the values
_MOST_OPS = 1000

Steps = Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)]
Views = Annotated[int, msgspec.Meta(ge=2, le=MOST_VIEWS)]
Moderate = Annotated[float, msgspec.Meta(ge=-1e6, le=1e6)]  # a number that others can be multiplied with


class Levels(Schema):
    """The values of a built-in space with many levels."""

    levels: Annotated[int, msgspec.Meta(ge=2, le=MOST)]
    sum: Name


class SpaceDescription(Schema):
    """A space in a policy file."""

    name: Name
    ops: Annotated[tuple[Name, ...], msgspec.Meta(max_length=_MOST_OPS)]
    values: list[list[float]] | Levels
    has_magnitude: list[bool]


def write_policy(path: str | Path, weights: dict[str, NDArray[np.float32]], description: dict[str, Any]) -> None:
    """Write a policy atomically; equal policies give equal bytes."""
    try:
        content = {"format": _format(description), **description}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CoviewsError(f"a policy's statistics must be plain JSON: {error}") from error
    # a single entry: safetensors does not preserve the order of several
    write_whole(Path(path), safetensors.numpy.save(weights, {"coviews": text}))


def _format(description: dict[str, Any]) -> int:
    return FORMAT_WITH_CROPS if "crops" in description else FORMAT


def describe_space(operations: Space) -> dict[str, Any]:
    """A space as plain JSON."""
    description: dict[str, Any] = {
        "name": operations.name,
        "ops": operations.ops,
        "values": operations.values.tolist(),
        "has_magnitude": operations.has_magnitude.tolist(),
    }
    if operations.levels > _MANY and operations.name in SPACES:
        description["values"] = {"levels": operations.levels, "sum": _checksum(operations)}
    return description


def read_space(description: SpaceDescription) -> Space:
    """The inverse of `describe_space`; a built-in space must be the same as when the file was written."""
    name, values = description.name, description.values
    if isinstance(values, Levels):
        operations = space(name, values.levels)
        same = operations.ops == description.ops and _checksum(operations) == values.sum
    else:
        if len({len(row) for row in values}) > 1:
            raise CoviewsError(f"its description is wrong: the operations of {name!r} differ in their number of levels")
        operations = Space(name, description.ops, np.array(values, np.float64))
        same = name not in SPACES or operations == space(name, operations.levels)
    if operations.has_magnitude.tolist() != description.has_magnitude or not same:
        raise CoviewsError(
            f"it was learned in another space {name!r}, whose operations or values are not those of this version "
            "of coviews: install the version that wrote it"
        )
    return operations


def _checksum(operations: Space) -> str:
    return hashlib.sha256(operations.values.astype("<f8").tobytes()).hexdigest()
