"""Limits: what views must never do, whoever draws them.

`--matters` and `--ignores` lock factors of views (see `factors.py`), `--forbid` and `--cap` limit single operations.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError, unknown
from coviews.ops.operations import OPS
from coviews.ops.placement import Placement
from coviews.ops.plan import Plan, Size
from coviews.ops.series_operations import every_operation
from coviews.ops.space import Space
from coviews.policies.factors import FACTORS, Family, FamilySource, locked, with_locks
from coviews.policies.fixed import Binned, SimCLRRecipe, Uniform
from coviews.policies.infomin import InfoMin
from coviews.policies.listed import FastAutoAugment, ListedPolicy
from coviews.policies.published import AutoAugment
from coviews.policies.schedule import Schedule
from coviews.policies.subpolicy import Subpolicies, ViewSource

# the choices of a placement that belong to a factor, and the value of each that changes nothing
PLACED: dict[str, dict[str, Any]] = {
    "crop": {"crop": "none"},
    "mirror": {"flip": 0.0},
    "turns": {"flip_vertical": 0.0, "quarter_turns": 0.0},
}
COLOUR_ONLY = tuple(name for name, op in OPS.items() if op.needs_rgb and not op.variant_of)
_CLOSE = 1e-9  # a range that is not longer than this is empty


@dataclass(frozen=True)
class Limits:
    """What views must not do; by default nothing is excluded."""

    locks: Mapping[str, bool] = field(default_factory=dict)
    """Factors that are decided: off where something matters, on where it is ignored."""
    forbidden: frozenset[str] = frozenset()
    """Operations that never occur."""
    caps: Mapping[str, float] = field(default_factory=dict)
    """Operations with the value that is farthest from the one that changes nothing."""

    def __bool__(self) -> bool:
        return bool(self.locks or self.forbidden or self.caps)

    def space(self, whole: Space, *, clip: bool = False) -> Space:
        """The operations that are left, with the values that are left; `whole` itself if those are all.

        clip: values beyond a cap become the cap, and the others stay; otherwise the levels divide what is left of
            the range.
        """
        left = [(op, self._values(op, row, clip)) for op, row in zip(whole.ops, whole.values, strict=True)]
        ops, values = [op for op, row in left if row is not None], [row for _, row in left if row is not None]
        if len(ops) == len(left) and np.array_equal(values, whole.values):
            return whole
        return Space(f"{whole.name}, limited", tuple(ops), np.stack(values))

    def _values(self, op: str, values: NDArray[np.float64], clip: bool) -> NDArray[np.float64] | None:
        """The values of the operation's levels; None if it does not occur."""
        if op in self.forbidden:
            return None
        if op not in self.caps:
            return values
        neutral = every_operation()[op].neutral or 0.0  # 0 changes least where no value changes nothing
        reach, low, high = abs(self.caps[op] - neutral), values.min(), values.max()
        least, most = max(low, neutral - reach), min(high, neutral + reach)
        if most - least < _CLOSE:
            return None
        if (least, most) == (low, high):
            return values
        narrow = values if clip else least + (values - low) * ((most - least) / (high - low))
        return np.clip(narrow, least, most)

    def source(self, source: ViewSource) -> ViewSource:
        """A view source like this one that keeps to the limits."""
        if not self:
            return source
        if isinstance(source, FamilySource):
            return replace(source, family=with_locks(source.family, self.locks), space=self.space(source.space))
        if isinstance(source, Uniform | SimCLRRecipe | Schedule):
            limited: Any = replace(source, space=self.space(source.space))
        elif isinstance(source, Binned | AutoAugment | FastAutoAugment | ListedPolicy | InfoMin):
            chosen = not isinstance(source, Binned) or source.magnitude is not None  # the magnitude is not drawn
            limited = replace(source, space=self.space(source.space, clip=chosen))
        else:
            limited = Limited(source, self)
        if set(limited.space.ops) == {"Identity"}:
            raise CoviewsError(
                "--matters, --forbid and --cap leave no operation to these views: allow some, or use --views cropflip, "
                "which only cuts out and mirrors"
            )
        return limited

    def placement(self, placement: Placement) -> Placement:
        """The same placement without what must not be changed."""
        off = (still for name, still in PLACED.items() if self.locks.get(name) is False)
        return replace(placement, **{name: value for still in off for name, value in still.items()})

    def check(self, views: str, family: Family | None, choices: Mapping[str, Any]) -> None:
        """An error if the limits do not fit the views, or contradict a choice of the placement.

        Args:
            views: as the user names them.
            family: the same, if they are a family.
            choices: of the placement, by the names of their options; None where the user left it open.
        """
        if any(self.locks.values()) and family is None:
            raise CoviewsError(
                f"--ignores turns changes on, which only families of views can: use --views recipe or cropflip, a line "
                f"such as 'crop small, mirror', or a .yaml file, not {views}"
            )
        for name, on in self.locks.items():
            still = PLACED.get(name, {})
            given = {n: choices.get(n) for n in still if choices.get(n) is not None}
            moving = [n for n, value in given.items() if value != still[n]]
            if not on and moving:
                raise _contradiction(moving[0], given, "--matters")
            if on and still and len(given) == len(still) and not moving:
                raise _contradiction(next(iter(given)), given, "--ignores")
        for name in (n for n, on in self.locks.items() if on and FACTORS[n].ops):
            if self.forbidden.issuperset(FACTORS[name].ops):
                raise CoviewsError(f"--ignores turns {name} on, and --forbid excludes all of its operations")

    def check_family(self, source: ViewSource, placement: Placement) -> None:
        """An error if the limits leave a family nothing that differs between two views."""
        moves = any(getattr(placement, n) != v for still in PLACED.values() for n, v in still.items())
        if self and isinstance(source, FamilySource) and not source.changes and not moves:
            raise CoviewsError("--matters and --forbid leave nothing in which the views of an image differ")


@dataclass(frozen=True)
class Limited:
    """A view source within limits: forbidden operations become Identity, and values beyond a cap the cap."""

    whole: ViewSource
    limits: Limits

    @property
    def space(self) -> Space:
        """The operations that are left."""
        return self._mapping[0]

    @property
    def chooses_crops(self) -> bool:
        """Whether some pairs of crops are preferred to others: `draw_plan` then draws them with the operations."""
        return bool(getattr(self.whole, "chooses_crops", False))

    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        """Draw subpolicies for n images."""
        drawn, (space, index) = self.whole.sample(n, generator), self._mapping
        return Subpolicies(space, index[drawn.ops], drawn.levels, drawn.p)

    def draw_plan(
        self,
        n: int,
        image_size: Size,
        generator: np.random.Generator,
        placement: Placement | None = None,
        sizes: tuple[Size, ...] = (),
    ) -> Plan:
        """Draw a plan for n images."""
        placement = self.limits.placement(placement or Placement())
        plan, (space, index) = Plan.draw(self.whole, n, image_size, generator, placement, sizes), self._mapping
        return replace(plan, space=space, ops=index[plan.ops])

    @functools.cached_property
    def _mapping(self) -> tuple[Space, NDArray[np.int16]]:
        """The space, and in it the index of each operation of the source."""
        whole = self.whole.sample(1, np.random.default_rng(0)).space
        space = self.limits.space(whole, clip=True)
        indices = [space.index(op) if op in space.ops else space.identity for op in whole.ops]
        return space, np.array(indices, np.int16)


def view_limits(
    matters: str | None = None, ignores: str | None = None, forbid: str | None = None, cap: str | None = None
) -> Limits:
    """Limits from the texts of the options of the same names."""
    locks = locked(_parts(matters), _parts(ignores))
    off = {op for name, on in locks.items() if not on for op in FACTORS[name].all_ops}
    named = {_operation(name, "--forbid") for name in _parts(forbid)}
    if "Identity" in named:
        raise CoviewsError("Identity changes nothing: leave it out of --forbid")
    variants = {name for name, row in OPS.items() if row.variant_of in named}
    return Limits(locks, frozenset(off | named | variants), _caps(cap))


def forbid_colour(forbid: str | None) -> str:
    """The text of --forbid with the operations that change only colours, which do nothing to grey images."""
    named = _parts(forbid)
    known = {name.lower() for name in named}
    return ",".join([*named, *(op for op in COLOUR_ONLY if op.lower() not in known)])


def _caps(text: str | None) -> dict[str, float]:
    caps = {}
    for part in _parts(text):
        name, _, number = part.partition("=")
        op = _operation(name.strip(), "--cap")
        if not every_operation()[op].magnitude:
            raise CoviewsError(f"{op} is not weaker or stronger, so it has no cap: use --forbid {op}")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise CoviewsError(f"write --cap as operations with their values, such as Rotate=10, not {part!r}")
        caps[op] = value
    # Saturation is Color by another name; a variant in another unit has values of its own
    same = {n: row.variant_of for n, row in OPS.items() if row.variant_of and row.unit == OPS[row.variant_of].unit}
    return {**{n: caps[op] for n, op in same.items() if op in caps}, **caps}


def _operation(name: str, flag: str) -> str:
    """The operation as the table writes it; case does not matter."""
    table = every_operation()
    for op in table:
        if op.lower() == name.lower():
            return op
    raise unknown(f"operation for {flag}", name, table)


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _contradiction(name: str, given: Mapping[str, Any], lock: str) -> CoviewsError:
    value = given[name] if isinstance(given[name], str) else f"{given[name]:g}"
    return CoviewsError(f"--{name.replace('_', '-')} {value} contradicts {lock}: leave out one of them")
