"""Policy files: safetensors, with a description in JSON."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole
from coviews.ops.space import SPACES, Space, space

FORMAT = 1  # of the file; goes up when an older reader would misread a newer file
_FORMAT_WITH_CROPS = 2  # of policies that choose crops, which older readers would leave to chance
_MANY = 64  # levels: for a built-in space with more, a checksum replaces the values


def write_policy(path: str | Path, weights: dict[str, NDArray[np.float32]], description: dict[str, Any]) -> None:
    """Write a policy atomically; equal policies give equal bytes."""
    try:
        content = {"format": _format(description), **description}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CoviewsError(f"a policy's statistics must be plain JSON: {error}") from error
    # a single entry: safetensors does not preserve the order of several
    write_whole(Path(path), safetensors.numpy.save(weights, {"coviews": text}))


def read_description(file: Any) -> dict[str, Any]:
    """The description in an open policy file, if this version can read it."""
    metadata = file.metadata() or {}
    if "coviews" not in metadata:
        raise CoviewsError("it holds weights, but not the description of a policy")
    description = json.loads(metadata["coviews"])
    if description["format"] != _format(description):
        raise CoviewsError(
            f"it has the format {description['format']!r}, and this version of coviews reads {_format(description)}: "
            "install the version that wrote it, or a newer one"
        )
    return description


def _format(description: dict[str, Any]) -> int:
    return _FORMAT_WITH_CROPS if "crops" in description else FORMAT


def read_weight(file: Any, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """One array of an open policy file."""
    if name not in file.keys():  # noqa: SIM118 - it is no mapping
        raise CoviewsError(f"its weight {name!r} is missing")
    stored = tuple(file.get_slice(name).get_shape())
    if stored != shape:  # checked before any memory is allocated
        raise CoviewsError(f"its weight {name!r} has the shape {stored}, not {shape}")
    weight = file.get_tensor(name)
    if weight.dtype != np.float32 or not np.isfinite(weight).all():
        raise CoviewsError(f"its weight {name!r} is not made of finite 32-bit numbers")
    return weight


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


def read_space(description: dict[str, Any]) -> Space:
    """The inverse of `describe_space`; a built-in space must be the same as when the file was written."""
    name, names, values = description["name"], tuple(description["ops"]), description["values"]
    built_in = name in SPACES
    if built_in and isinstance(values, dict):
        operations = space(name, values["levels"])
        same = operations.ops == names and _checksum(operations) == values["sum"]
    else:
        operations = Space(str(name), names, np.array(values, np.float64))
        same = not built_in or operations == space(name, operations.levels)
    if operations.has_magnitude.tolist() != description["has_magnitude"] or not same:
        raise CoviewsError(
            f"it was learned in another space {name!r}, whose operations or values are not those of this version "
            "of coviews: install the version that wrote it"
        )
    return operations


def _checksum(operations: Space) -> str:
    return hashlib.sha256(operations.values.astype("<f8").tobytes()).hexdigest()
