"""What the files of all kinds of policies have in common: one safetensors file with a description in JSON."""

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
_MANY = 64  # levels: the values of so many are told by their sum alone, where the space is one of ours


def write_policy(path: str | Path, weights: dict[str, NDArray[np.float32]], description: dict[str, Any]) -> None:
    """Write a policy, whole or not at all; equal policies give equal bytes."""
    try:
        text = json.dumps({"format": FORMAT, **description}, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CoviewsError(f"a policy's statistics must be plain JSON: {error}") from error
    # one entry only: safetensors does not keep the order of several
    write_whole(Path(path), safetensors.numpy.save(weights, {"coviews": text}))


def read_description(file: Any) -> dict[str, Any]:
    """The description of an open policy file, if this version can read it."""
    metadata = file.metadata() or {}
    if "coviews" not in metadata:
        raise CoviewsError("it holds weights, but not the description of a policy")
    described = json.loads(metadata["coviews"])
    if described["format"] != FORMAT:
        raise CoviewsError(
            f"it has the format {described['format']!r}, and this version of coviews reads {FORMAT}: "
            "install the version that wrote it, or a newer one"
        )
    return described


def read_weight(file: Any, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """One array of an open policy file."""
    if name not in file.keys():  # noqa: SIM118 - it is no mapping
        raise CoviewsError(f"its weight {name!r} is missing")
    actual = tuple(file.get_slice(name).get_shape())
    if actual != shape:  # seen before any memory is asked for
        raise CoviewsError(f"its weight {name!r} has the shape {actual}, not {shape}")
    weight = file.get_tensor(name)
    if weight.dtype != np.float32 or not np.isfinite(weight).all():
        raise CoviewsError(f"its weight {name!r} is not made of finite 32-bit numbers")
    return weight


def describe_space(ops_space: Space) -> dict[str, Any]:
    """A space as plain JSON."""
    description: dict[str, Any] = {
        "name": ops_space.name,
        "ops": ops_space.ops,
        "values": ops_space.values.tolist(),
        "has_magnitude": ops_space.has_magnitude.tolist(),
    }
    if ops_space.levels > _MANY and ops_space.name in SPACES:
        description["values"] = {"levels": ops_space.levels, "sum": _sum(ops_space)}
    return description


def read_space(described: dict[str, Any]) -> Space:
    """The inverse of `describe_space`; a space of ours must be as it was when the file was written."""
    name, ops, values = described["name"], tuple(described["ops"]), described["values"]
    ours = name in SPACES
    if ours and isinstance(values, dict):
        ops_space = space(name, values["levels"])
        same = ops_space.ops == ops and _sum(ops_space) == values["sum"]
    else:
        ops_space = Space(str(name), ops, np.array(values, np.float64))
        same = not ours or ops_space == space(name, ops_space.levels)
    if ops_space.has_magnitude.tolist() != described["has_magnitude"] or not same:
        raise CoviewsError(
            f"it was learned in another space {name!r}, whose operations or values are not those of this version "
            "of coviews: install the version that wrote it"
        )
    return ops_space


def _sum(ops_space: Space) -> str:
    return hashlib.sha256(ops_space.values.astype("<f8").tobytes()).hexdigest()
