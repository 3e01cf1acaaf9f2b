"""What was done differently to two views of an image, as numbers: operations, crops, flips and turns."""

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coviews.ops.plan import Plan
from coviews.ops.space import Space
from coviews.policies.factors import FACTORS

Numbers = NDArray[np.float64]

_COLOUR = {op for name in ("light", "colour", "tone", "grey") for op in FACTORS[name].all_ops}
_LEAST_SPREAD = 1e-6  # what varies less does not differ


class Difference(NamedTuple):
    """One number: the name of what differs (a crop's position has two numbers), and the group that it belongs to."""

    name: str
    group: str  # colour, crop, flip or other


def pair_differences(plan: Plan) -> dict[Difference, Numbers]:
    """What differs between the first two views of each image, the numbers (n, K) of each difference.

    Operations: the difference of their levels as shares of their range; one that is not applied is at the level that
    changes nothing. Crops: their middle as shares of the image, the logarithms of width and height. Flips: whether one
    of the two is mirrored. Turns: the cosine and the sine of the angle between them.
    """
    plan = plan.of_views(0, 2)
    levels = _applied(plan)
    found = {
        Difference(op, "colour" if op in _COLOUR else "other"): levels[:, 0, i, None] - levels[:, 1, i, None]
        for i, op in enumerate(plan.space.ops)
        if op != "Identity"
    }
    height, width = plan.image_size
    boxes = plan.boxes / np.array([width, height, width, height])  # (n, 2, 4)
    middles, sides = (boxes[..., :2] + boxes[..., 2:]) / 2, np.log(boxes[..., 2:] - boxes[..., :2])
    found[Difference("position", "crop")] = middles[:, 0] - middles[:, 1]
    found[Difference("size", "crop")] = sides[:, 0] - sides[:, 1]
    for name, flips in (("mirrored", plan.flips), ("upside down", plan.vertical_flips)):
        found[Difference(name, "flip")] = (flips[:, :1] != flips[:, 1:]).astype(np.float64)
    angles = (plan.turns[:, :1] - plan.turns[:, 1:]) * (np.pi / 2)
    found[Difference("turned", "flip")] = np.hstack([np.cos(angles), np.sin(angles)])
    return found


class StandardDifferences:
    """Differences with mean 0 and standard deviation 1 in a reference plan; what never differs in it is left out.

    Args:
        reference: a plan of many images, drawn as those are whose differences are asked for.
        groups: of the differences, in their order: some of colour, crop, flip and other.
    """

    def __init__(self, reference: Plan, groups: tuple[str, ...]) -> None:
        drawn = pair_differences(reference)
        numbers = {d: x for group in groups for d, x in drawn.items() if d.group == group}
        spread = {d: x.std(0) for d, x in numbers.items()}
        varying = {d: np.flatnonzero(s > _LEAST_SPREAD) for d, s in spread.items()}
        self._columns = {d: columns for d, columns in varying.items() if len(columns)}
        self.each = [d for d, columns in self._columns.items() for _ in columns]  # of each number
        self._mean = self._joined({d: x.mean(0, keepdims=True) for d, x in numbers.items()}, 1)
        self._std = self._joined({d: s[None] for d, s in spread.items()}, 1)

    def of(self, plan: Plan) -> NDArray[np.float32]:
        """(n, D): the numbers of each pair of first views, in the order of `each`."""
        numbers = self._joined(pair_differences(plan), len(plan))
        return ((numbers - self._mean) / self._std).astype(np.float32)

    def _joined(self, numbers: dict[Difference, Numbers], n: int) -> Numbers:
        """The columns that vary, side by side; zeros for operations that this plan's space does not have."""
        nothing = np.zeros((n, 2))
        parts = [numbers.get(d, nothing)[:, columns] for d, columns in self._columns.items()]
        return np.concatenate(parts, 1) if parts else nothing[:, :0]


def _applied(plan: Plan) -> Numbers:
    """(n, V, operations): the level of each operation, as a share of its range from where it changes nothing."""
    n, views, steps = plan.ops.shape
    shares = _level_shares(plan.space)[plan.ops, plan.levels]  # (n, V, S)
    total = np.zeros((n, views, len(plan.space.ops)))
    images, which = np.arange(n)[:, None], np.arange(views)
    for step in range(steps):
        total[images, which, plan.ops[..., step]] += shares[..., step]
    return total


@functools.cache
def _level_shares(space: Space) -> Numbers:
    """(operations, levels): how far each level is from changing nothing, as a share of the operation's range."""
    shares = np.ones(space.values.shape)
    for i, (row, values) in enumerate(zip(space.rows, space.values, strict=True)):
        if row.magnitude:
            neutral = row.neutral if row.neutral is not None else values[np.abs(values).argmin()]
            low, high = min(values.min(), neutral), max(values.max(), neutral)
            shares[i] = (values - neutral) / (high - low or 1.0)
    return shares
