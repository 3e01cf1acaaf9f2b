"""A view source that prefers hard subpolicies: another source, the prior, tilted by their expected loss.

    p(s) = prior(s) * exp(tilt(expected loss of s)) / Z

The loss is that of the steps that are applied: they are drawn first, so the tilted policy's own p is 1. Sampling is
exact, by rejection: the prior draws, and a draw is accepted with the probability exp(tilt - the tilt's top).

Where the effects include those of the placement, the expected loss depends on the two crops as well: then crops and
operations are drawn together, as a plan (`draw_plan`), and accepted together.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from coviews.boundary.schema import Name, Probability, Schema
from coviews.boundary.weights import Weights
from coviews.errors import CoviewsError, unknown
from coviews.ops.placement import Placement
from coviews.ops.plan import Plan, Size
from coviews.ops.space import Space
from coviews.policies.files import (
    Moderate,
    SpaceDescription,
    describe_space,
    read_space,
    write_policy,
)
from coviews.policies.fixed import SourceDescription, describe_source, read_source
from coviews.policies.placement_effects import (
    COUNTS,
    CropsDescription,
    PlacementEffects,
    placement_bins,
    read_placement_effects,
)
from coviews.policies.subpolicy import Subpolicies, ViewSource

Numbers = NDArray[np.float64]
Whole = NDArray[np.integer]
Drawn = TypeVar("Drawn", Subpolicies, Plan)

COOPERATIVE = {"coviews": True, "indepviews": False}
TABLE = "table"  # the name of this kind of policy in a file
BINS = 11  # if there are more levels, those in one bin share an effect
LEAST_ACCEPTED = 0.01  # of the prior's draws, by a policy file: sampling takes the longer, the fewer are
_AT_ONCE = 65_536  # draws from the prior
_PATIENCE = 50  # times the expected number of draws from the prior, then it is an error


@dataclass(frozen=True)
class Tilt:
    """By how much the log-probability of a subpolicy changes with its expected loss."""

    rise: float = 0.0  # per unit of loss up to the bound
    fall: float = 0.0  # per unit of loss beyond the bound
    bound: float = 0.0
    top: float = 0.0  # the largest value

    def times(self, strength: float) -> "Tilt":
        """The same tilt, multiplied by `strength`."""
        return Tilt(strength * self.rise, strength * self.fall, self.bound, strength * self.top)

    def __call__(self, losses: Numbers) -> Numbers:
        """The tilt at each expected loss."""
        excess = losses - self.bound
        return np.minimum(np.where(excess < 0, self.rise, -self.fall) * excess, self.top)


@dataclass(frozen=True, eq=False)
class Effects:
    """A model of the loss: the effect of each choice, in either view, and of each pair of operations of two views."""

    steps: NDArray[np.float32]  # (S, O, bins)
    pairs: NDArray[np.float32]  # (O, O), symmetric; zero if views are drawn independently
    constant: float = 0.0
    placement: PlacementEffects | None = None  # of pairs of crops; None if they are left to chance

    def of_views(self, ops: Whole, bins: Whole) -> NDArray[np.float64]:
        """(n, V, S) -> (n, V): the effects of each view's steps, added up."""
        # step by step: NumPy is slow at sums over an axis of two
        flat, width = self.steps.reshape(len(self.steps), -1), self.steps.shape[2]
        cells = ops.astype(np.intp) * width + bins
        total = np.zeros(ops.shape[:2])
        for s in range(ops.shape[2]):
            total += flat[s].take(cells[:, :, s])
        return total

    def of_pairs(self, ops: Whole) -> NDArray[np.float64]:
        """(n, 2, S) -> (n,): the effects of the pairs of operations, added up."""
        rows, columns = ops[:, 0].astype(np.intp) * len(self.pairs), ops[:, 1].astype(np.intp)
        total, steps = np.zeros(len(ops)), range(ops.shape[2])
        for i, j in itertools.product(steps, steps):
            total += self.pairs.take(rows[:, i] + columns[:, j])
        return total

    def losses(
        self, ops: Whole, bins: Whole, cooperative: bool, places: NDArray[np.uint8] | None = None
    ) -> NDArray[np.float64]:
        """The expected loss of each pair (n, 1); if not cooperative, of each view (n, 2) with another like it.

        places: the bins of each pair's placement (n, F), if there are effects of it.
        """
        views = self.of_views(ops, bins)
        if not cooperative:
            return self.constant + 2 * views
        added = views.sum(1) + self.of_pairs(ops)
        if self.placement is not None and places is not None:
            added += self.placement.of(places)
        return self.constant + added[:, None]


def level_bins(levels: int) -> NDArray[np.int16]:
    """(levels,): the bin of each level, the nearest one."""
    bins = min(levels, BINS)
    return np.rint(np.arange(levels) * (bins - 1) / (levels - 1)).astype(np.int16)


@dataclass(frozen=True, eq=False)
class TiltedPolicy:
    """A learned policy without a network: a prior and a table of effects."""

    prior: ViewSource
    kind: str  # coviews: pairs are tilted; indepviews: each view on its own, by half the tilt
    effects: Effects
    tilt: Tilt
    keep: float = 0.1  # the share of draws without the tilt, for exploration
    accepted: float = 0.5  # about the share of the prior's draws that is accepted
    statistics: dict[str, Any] = field(default_factory=dict)  # how it was learned, as plain JSON
    p: float = field(default=1.0, init=False)  # the probability of a step: which ones are applied is already drawn

    def __repr__(self) -> str:
        return f"TiltedPolicy({self.kind}, prior {type(self.prior).__name__}, {self.space!r})"

    def __post_init__(self) -> None:
        if self.kind not in COOPERATIVE:
            raise unknown("kind of policy", self.kind, COOPERATIVE)
        if self.views != 2:
            raise CoviewsError(f"a tilted policy draws pairs of views, and its prior {self.views}")
        if self.chooses_crops and not self.cooperative:
            raise CoviewsError(f"{self.kind} draws each view by itself: it cannot choose pairs of crops")
        n_ops, bins = len(self.space.ops), int(self._bins[-1]) + 1
        expected = (self.steps, n_ops, bins), (n_ops, n_ops)
        shapes = self.effects.steps.shape, self.effects.pairs.shape
        if shapes != expected:
            raise CoviewsError(f"the table's effects have the shapes {shapes}, and the prior needs {expected}")
        for name, low, high in (("keep", 0.0, 1.0), ("accepted", 1e-4, 1.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise CoviewsError(f"{name} must be in {low:g}..{high:g}, not {value!r}")

    @cached_property
    def _example(self) -> Subpolicies:
        return self.prior.sample(1, np.random.default_rng(0))

    @property
    def space(self) -> Space:
        """The space of the prior."""
        return self._example.space

    @property
    def views(self) -> int:
        """V, the number of views."""
        return self._example.views

    @property
    def steps(self) -> int:
        """N_tau, the number of operations in a row."""
        return self._example.steps

    @property
    def cooperative(self) -> bool:
        """Whether each view is drawn given the other."""
        return COOPERATIVE[self.kind]

    @property
    def chooses_crops(self) -> bool:
        """Whether some pairs of crops are preferred to others: `draw_plan` then draws them with the operations."""
        return self.effects.placement is not None

    @cached_property
    def _bins(self) -> NDArray[np.int16]:
        return level_bins(self.space.levels)

    def log_weights(self, ops: Whole, levels: Whole, places: NDArray[np.uint8] | None = None) -> NDArray[np.float64]:
        """The log-probability that a pair (n, 1), or each view (n, 2), is accepted: at most 0.

        places: the bins of each pair's placement (n, F), if there are effects of it.
        """
        below = self.tilt(self.effects.losses(ops, self._bins[levels], self.cooperative, places)) - self.tilt.top
        return below if self.cooperative else below / 2

    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        """Draw subpolicies for n images; if crops are chosen, those of pairs with crops as in the search."""
        if self.effects.placement is not None:
            plan = self.draw_plan(n, self.effects.placement.image_size, generator)
            return Subpolicies(self.space, plan.ops, plan.levels)
        units = 1 if self.cooperative else 2  # of an image, each accepted on its own: the pair, or single views
        shape = (n, units, 2 * self.steps // units)
        ops, levels = np.empty(shape, np.int16), np.empty(shape, np.int16)

        def draw(count: int) -> tuple[Subpolicies, NDArray[np.float64]]:
            drawn = self.prior.sample(count, generator).applied(generator)
            return drawn, self.log_weights(drawn.ops, drawn.levels)

        for drawn, u, targets, indices in self._accepted(n, units, draw, generator):
            new_ops, new_levels = (a.reshape(-1, *shape[1:]) for a in (drawn.ops, drawn.levels))
            ops[targets, u], levels[targets, u] = new_ops[indices, u], new_levels[indices, u]
        whole = (n, 2, self.steps)
        return Subpolicies(self.space, ops.reshape(whole), levels.reshape(whole))

    def draw_plan(
        self,
        n: int,
        image_size: Size,
        generator: np.random.Generator,
        placement: Placement | None = None,
        sizes: tuple[Size, ...] = (),
    ) -> Plan:
        """Draw a plan for n images: pairs of the prior and the placement, accepted by the tilt.

        placement: how crops are drawn; by default as in the search.
        """
        effects = self.effects.placement
        if effects is None:
            return Plan.draw(self, n, image_size, generator, placement, sizes)
        placement = placement or effects.placement

        def draw(count: int) -> tuple[Plan, NDArray[np.float64]]:
            drawn = Plan.draw(self.prior, count, image_size, generator, placement, sizes)
            return drawn, self.log_weights(drawn.ops, drawn.levels, placement_bins(drawn))

        plans, places = [draw(0)[0]], [np.empty(0, np.int64)]
        for drawn, _, targets, indices in self._accepted(n, 1, draw, generator):
            plans.append(drawn[indices])
            places.append(targets)
        return Plan.stacked(plans)[np.argsort(np.concatenate(places))]

    def _accepted(
        self, n: int, units: int, draw: "Callable[[int], tuple[Drawn, Numbers]]", generator: np.random.Generator
    ) -> "Iterator[tuple[Drawn, int, NDArray[np.int64], NDArray[np.int64]]]":
        """Rejection: draws of the prior, the unit, the images that get one, and the indices of the draws they get.

        Args:
            n: images.
            units: of an image, each accepted on its own.
            draw: gives so many draws of the prior, and the log-probability that each unit is accepted (count, units).
            generator: decides which are accepted.
        """
        plain = generator.random((n, units)) < self.keep
        rows = [np.argsort(~plain[:, u], kind="stable") for u in range(units)]  # still to be drawn; plain ones first
        untilted = plain.sum(0)  # so many draws are accepted whatever their weight
        patience = _PATIENCE * (n / self.accepted + 1000)
        while most := max(map(len, rows)):
            count = min(int(1.2 * most / self.accepted) + 16, _AT_ONCE)
            patience -= count
            if patience < 0:
                raise CoviewsError("the policy accepts almost nothing of what its prior draws: its table is damaged")
            drawn, log_weights = draw(count)
            accepted = generator.random((count, units)) < np.exp(log_weights)
            accepted |= np.arange(count)[:, None] < untilted
            untilted = np.maximum(untilted - count, 0)
            for u in range(units):
                indices = np.flatnonzero(accepted[:, u])[: len(rows[u])]
                targets, rows[u] = rows[u][: len(indices)], rows[u][len(indices) :]
                yield drawn, u, targets, indices

    def with_statistics(self, statistics: dict[str, Any]) -> "TiltedPolicy":
        """The same policy with other statistics."""
        return replace(self, statistics=statistics)

    def save(self, path: str | Path) -> None:
        """Write the policy to a `.safetensors` file of a few kilobytes, atomically."""
        description = {
            "policy": TABLE,
            "kind": self.kind,
            "prior": describe_source(self.prior),
            "space": describe_space(self.space),
            "constant": self.effects.constant,
            "tilt": asdict(self.tilt),
            "keep": self.keep,
            "accepted": self.accepted,
            "statistics": self.statistics,
        }
        weights = {"steps": self.effects.steps, "pairs": self.effects.pairs}
        if self.effects.placement is not None:
            weights["placement"] = self.effects.placement.values
            description["crops"] = self.effects.placement.description()
        if not all(np.isfinite(a).all() for a in weights.values()):
            raise CoviewsError("the policy has effects that are not finite: it is not worth keeping")
        write_policy(path, weights, description)


class _TiltDescription(Schema):
    rise: Moderate
    fall: Moderate
    bound: Moderate
    top: Moderate


class _Description(Schema):
    """A tilted policy in a file."""

    policy: Name
    format: int
    kind: Name
    prior: SourceDescription
    space: SpaceDescription
    constant: Moderate
    tilt: _TiltDescription
    keep: Probability
    accepted: Probability
    statistics: dict[str, Any]
    crops: CropsDescription | None = None


def read_tilted(weights: Weights) -> TiltedPolicy:
    """A tilted policy from its open file."""
    description = weights.description(_Description)
    crops = description.crops
    space = read_space(description.space)
    prior = read_source(description.prior, space)
    example = prior.sample(1, np.random.default_rng(0))
    n_ops = len(space.ops)
    steps = weights.array("steps", (example.steps, n_ops, min(space.levels, BINS)))
    pairs = weights.array("pairs", (n_ops, n_ops))
    if not np.array_equal(pairs, pairs.T):
        raise CoviewsError("its effects of pairs are not the same both ways")
    if description.accepted < LEAST_ACCEPTED:
        raise CoviewsError(f"its accepted must be in {LEAST_ACCEPTED}..1, not {description.accepted}")
    placement = None
    if crops is not None:
        placement = read_placement_effects(weights.array("placement", (int(COUNTS.sum()),)), crops)
    effects = Effects(steps, pairs, description.constant, placement)
    tilt = Tilt(**msgspec.structs.asdict(description.tilt))
    return TiltedPolicy(
        prior, description.kind, effects, tilt, description.keep, description.accepted, description.statistics
    )
