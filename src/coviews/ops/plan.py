"""The plan: all that is done to each view of each image, drawn before the engine runs."""

import json
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coviews.boundary.json_text import parse_json
from coviews.boundary.schema import Count, Name, Schema
from coviews.errors import CoviewsError
from coviews.ops.generators import AnyGenerator, numpy_generator
from coviews.ops.placement import Placement
from coviews.ops.space import Space, space

if TYPE_CHECKING:
    from coviews.policies.subpolicy import Subpolicies, ViewSource

LARGEST_VIEW = 4096  # pixels a side

Size = tuple[int, int]  # height and width

# the arrays of a plan, with their type
_ARRAYS: dict[str, type[np.generic]] = {
    "ops": np.int16, "levels": np.int16, "boxes": np.int32, "flips": np.bool_, "vertical_flips": np.bool_,
    "turns": np.int8, "spots": np.float64,
}  # fmt: skip


class _Form(Schema):
    """A plan as JSON."""

    space: Name
    number_of_levels: int
    steps: Count
    image_size: tuple[int, int]
    sizes: tuple[tuple[int, int], ...]
    ops: list[list[list[int]]]
    levels: list[list[list[int]]]
    boxes: list[list[list[int]]]
    flips: list[list[bool]]
    vertical_flips: list[list[bool]]
    turns: list[list[int]]
    spots: list[list[list[list[float]]]]


@dataclass(frozen=True, eq=False)
class Plan:
    """What is done to view `v` of image `b`: its operations, then its crop, flips and quarter turns.

    The engine draws nothing: equal plans of equal images give equal bytes.
    """

    space: Space
    image_size: Size
    ops: NDArray[np.int16]  # (B, V, S), indices into space.ops
    levels: NDArray[np.int16]  # (B, V, S), indices into space.values[op]
    boxes: NDArray[np.int32]  # (B, V, 4): left, top, right, bottom of the crop in pixels of the image
    flips: NDArray[np.bool_]  # (B, V): mirrored left to right
    vertical_flips: NDArray[np.bool_]  # (B, V): mirrored top to bottom
    turns: NDArray[np.int8]  # (B, V): quarter turns, counter-clockwise, after the flips
    spots: NDArray[np.float64]  # (B, V, S, 2): the middle of a cutout, as shares of width and height
    sizes: tuple[Size, ...] = field(default=())  # (V) of the views; those of the image if empty

    def __post_init__(self) -> None:
        for name, kind in _ARRAYS.items():
            array = _typed(name, getattr(self, name), kind)  # a read-only copy: the kernels rely on what was checked
            if array.shape != _shape(name, np.shape(self.ops)):
                raise CoviewsError(f"the plan's {name} have the shape {array.shape}, which does not fit its operations")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        try:
            height, width = map(operator.index, self.image_size)
            sizes = tuple((operator.index(h), operator.index(w)) for h, w in self.sizes)
        except (TypeError, ValueError) as error:
            message = f"sizes must be heights and widths, not {self.image_size} (image) and {self.sizes} (views)"
            raise CoviewsError(message) from error
        object.__setattr__(self, "image_size", (height, width))
        object.__setattr__(self, "sizes", sizes or ((height, width),) * self.views)
        self._check()

    def _check(self) -> None:
        height, width = self.image_size
        for name, limit in (("ops", len(self.space.ops)), ("levels", self.space.levels), ("turns", 4)):
            array = getattr(self, name)
            if array.size and (array.min() < 0 or array.max() >= limit):
                raise CoviewsError(f"the plan's {name} must be 0..{limit - 1}, not {array.min()} to {array.max()}")
        if not ((self.spots >= 0) & (self.spots <= 1)).all():
            raise CoviewsError("the plan's spots must be in 0..1, as shares of width and height")
        left, top, right, bottom = np.moveaxis(self.boxes, -1, 0)
        outside = (left < 0) | (top < 0) | (right > width) | (bottom > height) | (left >= right) | (top >= bottom)
        if outside.any():
            box = self.boxes[outside][0].tolist()
            raise CoviewsError(f"the crop {box} (left, top, right, bottom) is not within the image, {width} x {height}")
        if len(self.sizes) != self.views:
            raise CoviewsError(f"the plan has {self.views} views of each image, and {len(self.sizes)} sizes")
        for h, w in self.sizes:
            if not (0 < h <= LARGEST_VIEW and 0 < w <= LARGEST_VIEW):
                raise CoviewsError(f"a view must have 1 to {LARGEST_VIEW} pixels a side, not {h} x {w}")
        square = np.array([h == w for h, w in self.sizes])
        if (self.turns[:, ~square] % 2).any():
            raise CoviewsError("only square views can be turned by a quarter")

    @classmethod
    def draw(
        cls,
        source: "ViewSource | Subpolicies",
        n: int,
        image_size: Size,
        generator: AnyGenerator,
        placement: Placement | None = None,
        sizes: tuple[Size, ...] = (),
    ) -> "Plan":
        """A plan for n images: operations by a view source, or given ones; crops, flips and turns by the placement.

        A source that prefers some crops to others (`chooses_crops`) chooses among what the placement draws. The
        generator is NumPy's or torch's; workers of a DataLoader draw different plans from copies of the same one.
        """
        generator = numpy_generator(generator)
        if getattr(source, "chooses_crops", False):
            chosen: Plan = source.draw_plan(n, image_size, generator, placement, sizes)  # type: ignore[union-attr]
            return chosen
        subpolicies = source.sample(n, generator) if hasattr(source, "sample") else source
        if len(subpolicies) != n:
            raise CoviewsError(f"{len(subpolicies)} subpolicies for {n} images: one for each image is needed")
        applied = subpolicies.applied(generator)
        placed = (placement or Placement()).draw(n, applied.views, applied.steps, image_size, generator)
        ops, levels = applied.ops.astype(np.int16), applied.levels.astype(np.int16)
        return cls(applied.space, image_size, ops, levels, *placed, sizes=sizes)

    @classmethod
    def joined(cls, plans: "Sequence[Plan]") -> "Plan":
        """One plan with the views of several plans of the same images, in their order."""
        first, *others = plans
        for other in others:
            if (other.space, other.image_size, len(other)) != (first.space, first.image_size, len(first)):
                raise CoviewsError("only plans of the same images with the same space can be joined")
            if other.steps != first.steps:
                raise CoviewsError(f"views of {other.steps} and of {first.steps} operations cannot be in one plan")
        arrays: dict[str, Any] = {n: np.concatenate([getattr(plan, n) for plan in plans], 1) for n in _ARRAYS}
        return replace(first, sizes=tuple(size for plan in plans for size in plan.sizes), **arrays)

    @classmethod
    def stacked(cls, plans: "Sequence[Plan]") -> "Plan":
        """One plan of the images of several ones, which are alike in all else."""
        arrays: Any = {name: np.concatenate([getattr(plan, name) for plan in plans]) for name in _ARRAYS}
        return replace(plans[0], **arrays)

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
        height, width = self.image_size
        counts = f"{self.views} views, {self.steps} steps"
        return f"Plan({len(self):,} images of {height} x {width}, {counts}, space {self.space.name!r})"

    def __getitem__(self, index: Any) -> "Plan":
        """The plan of some images: a slice, an index array or a mask."""
        if isinstance(index, slice) and index.indices(len(self)) == (0, len(self), 1):
            return self  # it cannot be changed
        return replace(self, **{name: getattr(self, name)[index] for name in _ARRAYS})

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Plan)
            and (self.space, self.image_size, self.sizes) == (other.space, other.image_size, other.sizes)
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in _ARRAYS)
        )

    def of_views(self, first: int, last: int) -> "Plan":
        """The same images with the views `first` to `last` - 1 alone."""
        if (first, last) == (0, self.views):
            return self
        part = slice(first, last)
        return replace(self, sizes=self.sizes[part], **{name: getattr(self, name)[:, part] for name in _ARRAYS})

    def with_views(self, views: NDArray[np.integer]) -> "Plan":
        """The same images with some views of each, which all have one size: (B, K), the indices of its views."""
        arrays: dict[str, Any] = {}
        for name in _ARRAYS:
            array: NDArray[Any] = getattr(self, name)
            indices = views.reshape(*views.shape, *(1,) * (array.ndim - 2))
            arrays[name] = np.take_along_axis(array, indices, 1)
        return replace(self, sizes=self.sizes[:1] * views.shape[1], **arrays)

    def at_size(self, size: Size) -> "Plan":
        """The same with all views of this height and width."""
        return replace(self, sizes=(size,) * self.views)

    def texts(self) -> list[str]:
        """One line for each image, such as `Rotate -18 deg, crop 3 5 20 24 | Equalize, crop 0 0 32 32, mirrored`."""
        return [" | ".join(self._view_text(b, v) for v in range(self.views)) for b in range(len(self))]

    def _view_text(self, b: int, v: int) -> str:
        parts = [self.space.describe(o, k) for o, k in zip(self.ops[b, v], self.levels[b, v], strict=True)]
        height, width = self.image_size
        box = self.boxes[b, v].tolist()
        parts += [] if box == [0, 0, width, height] else [f"crop {' '.join(map(str, box))}"]
        parts += ["mirrored"] if self.flips[b, v] else []
        parts += ["upside down"] if self.vertical_flips[b, v] else []
        parts += [f"turned {90 * int(self.turns[b, v])} deg"] if self.turns[b, v] else []
        return ", ".join(parts)

    def to_json(self) -> str:
        """A JSON object: the space by its name and number of levels, sizes, and the arrays as lists."""
        arrays = {name: getattr(self, name).tolist() for name in _ARRAYS}
        described = {"space": self.space.name, "number_of_levels": self.space.levels, "steps": self.steps}
        return json.dumps({**described, "image_size": self.image_size, "sizes": self.sizes, **arrays})

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """The inverse of `to_json`, for the built-in spaces."""
        data = parse_json(text, _Form, "the JSON form of a plan")
        arrays = {name: getattr(data, name) for name in _ARRAYS}
        try:
            if not data.ops:  # the lists of no image have no shape
                empty = (0, len(data.sizes), data.steps)
                arrays = {name: np.reshape(values, _shape(name, empty)) for name, values in arrays.items()}
            operations = space(data.space, levels=data.number_of_levels)
            return cls(operations, data.image_size, **arrays, sizes=data.sizes)
        except CoviewsError:
            raise
        except (OverflowError, TypeError, ValueError) as error:
            raise CoviewsError(f"the JSON form of a plan is wrong: {error}") from error


def _shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of one of the arrays, given that of the operations (B, V, S)."""
    if len(shape) != 3:
        raise CoviewsError(f"the plan's ops must have the shape (images, views, steps), not {shape}")
    b, v, s = shape
    return {"boxes": (b, v, 4), "spots": (b, v, s, 2), "ops": shape, "levels": shape}.get(name, (b, v))


def _typed(name: str, values: Any, kind: type[np.generic]) -> NDArray[Any]:
    """A copy of one of the arrays in its type, or an error if that would change a value."""
    try:
        array = np.array(values)
        if array.dtype == kind:
            return array
        with np.errstate(invalid="ignore"):
            typed = array.astype(kind)
        if np.array_equal(typed, array):
            return typed
    except (OverflowError, TypeError, ValueError):
        pass
    words = {"b": "true or false", "i": "whole numbers", "f": "numbers"}[np.dtype(kind).kind]
    raise CoviewsError(f"the plan's {name} must be {words} ({np.dtype(kind)})")
