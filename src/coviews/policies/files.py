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
    found = tuple(file.get_slice(name).get_shape())
    if found != shape:  # seen before any memory is asked for
        raise CoviewsError(f"its weight {name!r} has the shape {found}, not {shape}")
    weight = file.get_tensor(name)
    if weight.dtype != np.float32 or not np.isfinite(weight).all():
        raise CoviewsError(f"its weight {name!r} is not made of finite 32-bit numbers")
    return weight


def describe_space(chosen: Space) -> dict[str, Any]:
    """A space as plain JSON."""
    told: dict[str, Any] = {
        "name": chosen.name,
        "ops": chosen.ops,
        "values": chosen.values.tolist(),
        "has_magnitude": chosen.has_magnitude.tolist(),
    }
    if chosen.levels > _MANY and chosen.name in SPACES:
        told["values"] = {"levels": chosen.levels, "sum": _sum(chosen)}
    return told


def read_space(described: dict[str, Any]) -> Space:
    """The inverse of `describe_space`; a space of ours must be as it was when the file was written."""
    name, ops, values = described["name"], tuple(described["ops"]), described["values"]
    ours = name in SPACES
    if ours and isinstance(values, dict):
        made = space(name, values["levels"])
        same = made.ops == ops and _sum(made) == values["sum"]
    else:
        made = Space(str(name), ops, np.array(values, np.float64))
        same = not ours or made == space(name, made.levels)
    if made.has_magnitude.tolist() != described["has_magnitude"] or not same:
        raise CoviewsError(
            f"it was learned in another space {name!r}, whose operations or values are not those of this version "
            "of coviews: install the version that wrote it"
        )
    return made


def _sum(chosen: Space) -> str:
    return hashlib.sha256(chosen.values.astype("<f8").tobytes()).hexdigest()
