"""Schedules: operations whose probabilities and strengths change in the course of a training.

Ho et al., Population Based Augmentation: Efficient Learning of Augmentation Policy Schedules, ICML 2019. A stage has
a list of operations, each with a probability (in tenths) and a strength (0 to 9). For each view, the list is gone
through in a random order, and each operation is applied with its probability until 0, 1 or 2 were applied; how many,
is drawn before, with the probabilities 0.2, 0.3 and 0.5.

A strength is a share of the way from the value that changes nothing to the end of the range: strength 0 changes
nothing, and where the range goes both ways, the direction is drawn. (The authors' code lets the strengths of
brightness, contrast, colour and sharpness run from one end to the other, so that the middle changes nothing.)
"""

import functools
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from coviews.boundary.json_text import read_json
from coviews.boundary.schema import Name, Positive, Schema
from coviews.errors import CoviewsError
from coviews.ops.space import Space
from coviews.policies.json_policies import JSONPolicy, json_policy_space, range_space, write_json_policy
from coviews.policies.subpolicy import Subpolicies

KIND = "schedule"  # of policy, in a file
COUNTS = (0.2, 0.3, 0.5)  # the probabilities of 0, 1 and 2 operations
MOST_PROBABILITY, MOST_STRENGTH = 10, 9


class ScheduledOperation(NamedTuple):
    """An operation of a stage."""

    op: str
    probability: int  # tenths
    strength: int  # 0..9


@dataclass(frozen=True)
class Stage:
    """What holds for a part of the training."""

    epochs: int  # of the training in which the schedule was learned
    operations: tuple[ScheduledOperation, ...]


@dataclass(frozen=True)
class Schedule:
    """The operations of one stage after the other; a training of another length stretches all stages alike."""

    stages: tuple[Stage, ...]
    views: int = 2
    space: Space = field(default_factory=range_space)
    share: float = 1.0  # of the training that is done: at its end, the last stage holds

    def __post_init__(self) -> None:
        if not self.stages or not all(stage.operations for stage in self.stages):
            raise CoviewsError("a schedule needs a stage or more, and each an operation or more")

    def __repr__(self) -> str:
        return f"Schedule({len(self.stages)} stages, {self.views} views)"

    def at(self, share: float) -> "Schedule":
        """The same when this share of the training is done."""
        return replace(self, share=share)

    @property
    def stage(self) -> Stage:
        """The stage that holds now."""
        ends = np.cumsum([stage.epochs for stage in self.stages])
        now = int(np.searchsorted(ends, self.share * ends[-1] + 1e-9, side="right"))
        return self.stages[min(now, len(self.stages) - 1)]

    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        """Draw subpolicies for n images."""
        ops, probabilities, levels = self._table
        most = len(COUNTS) - 1
        shape = (n, self.views)
        applied = generator.random((*shape, len(ops))) < probabilities
        order = np.where(applied, generator.random((*shape, len(ops))), np.inf)  # those not applied come last
        pad = max(0, most - len(ops))
        order = np.concatenate([order, np.full((*shape, pad), np.inf)], axis=2)
        first = np.argsort(order, axis=2, kind="stable")[:, :, :most]
        count = generator.choice(len(COUNTS), shape, p=COUNTS)
        direction = generator.integers(0, 2, (*shape, most))
        kept = np.isfinite(np.take_along_axis(order, first, 2)) & (np.arange(most) < count[:, :, None])
        first = np.where(kept, first, 0)
        drawn = np.where(kept, ops[first], np.int16(self.space.identity))
        return Subpolicies(self.space, drawn, np.where(kept, levels[first, direction], np.int16(0)))

    @functools.cached_property
    def _table(self) -> tuple[NDArray[np.int16], NDArray[np.float64], NDArray[np.int16]]:
        """Of each operation of the stage its index, its probability, and its levels in both directions (K, 2)."""
        rows = [row for row in self.stage.operations if row.op in self.space.ops] or [
            ScheduledOperation("Identity", 0, 0)
        ]
        ops = [self.space.index(row.op) for row in rows]
        levels = [_levels(self.space, op, row.strength / MOST_STRENGTH) for op, row in zip(ops, rows, strict=True)]
        probabilities = np.array([row.probability / MOST_PROBABILITY for row in rows])
        return np.array(ops, np.int16), probabilities, np.array(levels, np.int16)

    def save(self, path: str | Path, statistics: dict[str, Any] | None = None) -> None:
        """Write the schedule as JSON, a stage to a line; `statistics` say how it was learned."""
        used = (row.op for stage in self.stages for row in stage.operations)
        rows = [{"epochs": stage.epochs, "operations": stage.operations} for stage in self.stages]
        write_json_policy(path, KIND, self.space, used, {"stages": rows}, statistics)


def _levels(space: Space, op: int, strength: float) -> tuple[int, int]:
    """The levels at this strength in both directions; the same where there is only one."""
    low, high = float(space.values[op].min()), float(space.values[op].max())
    neutral = min(max(space.rows[op].neutral or 0.0, low), high)  # 0 changes least where no value changes nothing
    ends = (low, high) if low < neutral < high else (high, high) if neutral == low else (low, low)
    values = [neutral + strength * (end - neutral) for end in ends]
    down, up = (int(np.abs(space.values[op] - value).argmin()) for value in values)
    return down, up


_Operation = tuple[
    Name,
    Annotated[int, msgspec.Meta(ge=0, le=MOST_PROBABILITY)],
    Annotated[int, msgspec.Meta(ge=0, le=MOST_STRENGTH)],
]


class _Stage(Schema):
    epochs: Annotated[Positive, msgspec.Meta(le=1_000_000)]
    operations: Annotated[list[_Operation], msgspec.Meta(min_length=1, max_length=1000)]


class _ScheduleFile(JSONPolicy):
    """A schedule in a file."""

    stages: Annotated[list[_Stage], msgspec.Meta(min_length=1, max_length=10_000)]


def read_schedule(path: str | Path, views: int = 2) -> Schedule:
    """A schedule from the file that `Schedule.save` wrote."""
    content = read_json(path, _ScheduleFile, "policy file")
    used = (row[0] for stage in content.stages for row in stage.operations)
    operations = json_policy_space(content, KIND, used, path)
    stages = (Stage(s.epochs, tuple(ScheduledOperation(*row) for row in s.operations)) for s in content.stages)
    return Schedule(tuple(stages), views, operations)
