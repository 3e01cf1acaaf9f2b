"""What is done to each view of each image: integer arrays, with a text and a JSON form."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from coviews.boundary.json_text import parse_json
from coviews.boundary.schema import Name, Schema
from coviews.errors import CoviewsError
from coviews.ops.space import Space, space


class _Form(Schema):
    """Subpolicies as JSON."""

    space: Name
    levels: int
    p: float
    subpolicies: list[list[list[tuple[Name, int]]]]


@dataclass(frozen=True, eq=False)
class Subpolicies:
    """Operations and levels for a batch; those of step `s` of view `v` of image `b` are at `[b, v, s]`."""

    space: Space
    ops: NDArray[np.integer]  # (B, V, S), indices into space.ops; stored as int16
    levels: NDArray[np.integer]  # (B, V, S), indices into space.values[op]; stored as int16
    p: float = 1.0  # each step is applied with this probability

    def __post_init__(self) -> None:
        for name, limit in (("ops", len(self.space.ops)), ("levels", self.space.levels)):
            array = np.asarray(getattr(self, name))
            if array.dtype.kind not in "iu":
                raise CoviewsError(f"subpolicy {name} must be integers, not {array.dtype}")
            if array.ndim != 3:
                raise CoviewsError(f"subpolicy {name} must be (batch, view, step), not of shape {array.shape}")
            if array.size and (array.min() < 0 or array.max() >= limit):
                raise CoviewsError(
                    f"subpolicy {name} must be 0..{limit - 1} in the space {self.space.name!r}, "
                    f"but reach from {array.min()} to {array.max()}"
                )
            checked = np.array(array, np.int16)  # a read-only copy: the kernels rely on what was checked
            checked.flags.writeable = False
            object.__setattr__(self, name, checked)
        if self.ops.shape != self.levels.shape:
            raise CoviewsError(f"ops {self.ops.shape} and levels {self.levels.shape} differ in shape")
        if not 0 <= self.p <= 1:
            raise CoviewsError(f"the probability of a step must be in 0..1, not {self.p}")

    @property
    def views(self) -> int:
        """V, the number of views."""
        return self.ops.shape[1]

    @property
    def steps(self) -> int:
        """N_tau, the number of operations in a row."""
        return self.ops.shape[2]

    def __len__(self) -> int:
        return len(self.ops)

    def __repr__(self) -> str:
        counts = f"{self.views} views, {self.steps} steps"
        return f"Subpolicies({len(self):,} images, {counts}, space {self.space.name!r}, p={self.p:g})"

    def __getitem__(self, index: Any) -> "Subpolicies":
        """The subpolicies of some images: an integer, a slice, an index array or a mask."""
        if isinstance(index, (int, np.integer)):
            index = [index]
        return Subpolicies(self.space, self.ops[index], self.levels[index], self.p)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Subpolicies)
            and self.space == other.space
            and self.p == other.p
            and np.array_equal(self.ops, other.ops)
            and np.array_equal(self.levels, other.levels)
        )

    def applied(self, generator: np.random.Generator) -> "Subpolicies":
        """Draw which steps are applied: the others become Identity, and p becomes 1."""
        if self.p == 1:
            return self
        keep = generator.random(self.ops.shape, dtype=np.float32) < self.p
        return Subpolicies(self.space, np.where(keep, self.ops, self.space.identity), self.levels)

    def texts(self) -> list[str]:
        """One line for each image, such as `Rotate -18 deg, Solarize 128 | Equalize, Cutout 0.1`."""
        describe = self.space.describe
        return [
            " | ".join(
                ", ".join(describe(o, k) for o, k in zip(ops, levels, strict=True))
                for ops, levels in zip(image_ops, image_levels, strict=True)
            )
            for image_ops, image_levels in zip(self.ops.tolist(), self.levels.tolist(), strict=True)
        ]

    @classmethod
    def from_texts(cls, lines: str | Iterable[str], space: Space, p: float = 1.0) -> "Subpolicies":
        """The inverse of `texts`: each value becomes the nearest level of the space."""
        lines = [lines] if isinstance(lines, str) else list(lines)
        steps = [[[_parse(s, space) for s in view.split(",")] for view in ln.split("|")] for ln in lines]
        return cls._from_steps(steps, space, p)

    def to_json(self) -> str:
        """A JSON object with the space's name, its number of levels, p, and [operation, level] pairs."""
        names = np.array(self.space.ops)[self.ops].tolist()
        levels = self.levels.tolist()
        pairs = [
            [[[n, k] for n, k in zip(nv, kv, strict=True)] for nv, kv in zip(ni, ki, strict=True)]
            for ni, ki in zip(names, levels, strict=True)
        ]
        return json.dumps({"space": self.space.name, "levels": self.space.levels, "p": self.p, "subpolicies": pairs})

    @classmethod
    def from_json(cls, text: str) -> "Subpolicies":
        """The inverse of `to_json`, for the built-in spaces."""
        data = parse_json(text, _Form, "the JSON form of subpolicies")
        operations = space(data.space, levels=data.levels)
        index = operations.index
        steps = [[[(index(o), k) for o, k in v] for v in image] for image in data.subpolicies]
        return cls._from_steps(steps, operations, data.p)

    @classmethod
    def _from_steps(cls, steps: Sequence[Any], space: Space, p: float) -> "Subpolicies":
        try:
            pairs = np.array(steps, np.int64)
        except (OverflowError, ValueError) as error:
            raise CoviewsError("every image needs the same number of views, every view of steps") from error
        if pairs.ndim != 4:
            raise CoviewsError("every image needs the same number of views, every view of steps")
        return cls(space, pairs[..., 0], pairs[..., 1], p)


class ViewSource(Protocol):
    """Anything that draws subpolicies."""

    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        """Draw subpolicies for n images; the same generator state gives the same draw."""
        ...


def _parse(step: str, space: Space) -> tuple[int, int]:
    """`Rotate -18 deg` -> (index of Rotate, its level)."""
    match = re.fullmatch(r"\s*([A-Za-z]+)(?:\s+(-?\d+(?:\.\d+)?(?:e-?\d+)?)\s*\w*)?\s*", step)
    if not match:
        raise CoviewsError(f"not a step of a subpolicy: {step.strip()!r} (write it as in 'Rotate -18 deg')")
    op = space.index(match[1])
    if not space.has_magnitude[op]:
        return op, 0
    if match[2] is None:
        raise CoviewsError(f"{match[1]} needs a value, as in '{space.describe(op, 0)}'")
    return op, space.nearest_level(op, float(match[2]))
