"""A view source that prefers what is hard: another one, the prior, tilted by the expected loss of what it draws.

    p(s) = prior(s) * exp(tilt(expected loss of s)) / Z

What the tilt is about is what was applied: the prior's coins are flipped first, so the tilted policy's own p is 1.
It is drawn exactly, by rejection: the prior draws, and a draw is kept with the probability exp(tilt - the tilt's top).
"""

import itertools
import math
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError, unknown
from coviews.ops.space import Space
from coviews.policies.files import describe_space, read_space, read_weight, write_policy
from coviews.policies.fixed import describe_source, read_source
from coviews.policies.subpolicy import Subpolicies, ViewSource

Numbers = NDArray[np.float64]
Whole = NDArray[np.integer]

COOPERATIVE = {"coviews": True, "indepviews": False}
TABLE = "table"  # what a file calls this kind of policy
BINS = 11  # of levels that share an effect, where there are more
_AT_ONCE = 65_536  # draws of the prior
_PATIENCE = 50  # times as many draws of the prior as were to be expected


@dataclass(frozen=True)
class Tilt:
    """The logarithm of how much likelier a subpolicy becomes, given its expected loss."""

    rise: float = 0.0  # for each unit of loss, up to the bound
    fall: float = 0.0  # for each unit beyond it
    bound: float = 0.0
    top: float = 0.0  # nothing gains more than this

    def times(self, strength: float) -> "Tilt":
        """The same, so many times as strong."""
        return Tilt(strength * self.rise, strength * self.fall, self.bound, strength * self.top)

    def __call__(self, losses: Numbers) -> Numbers:
        """Of each expected loss."""
        away = losses - self.bound
        return np.minimum(np.where(away < 0, self.rise, -self.fall) * away, self.top)


@dataclass(frozen=True, eq=False)
class Effects:
    """A model of the loss: what each choice adds, in either view, and each pair of operations of the two views."""

    steps: NDArray[np.float32]  # (S, O, bins)
    pairs: NDArray[np.float32]  # (O, O), symmetric; zero where views are drawn apart
    constant: float = 0.0

    def of_views(self, ops: Whole, bins: Whole) -> NDArray[np.float64]:
        """(n, V, S) -> (n, V): what each view's steps add."""
        # step by step: NumPy is slow at sums over an axis of two
        flat, width = self.steps.reshape(len(self.steps), -1), self.steps.shape[2]
        cells = ops.astype(np.intp) * width + bins
        total = np.zeros(ops.shape[:2])
        for s in range(ops.shape[2]):
            total += flat[s].take(cells[:, :, s])
        return total

    def of_pairs(self, ops: Whole) -> NDArray[np.float64]:
        """(n, 2, S) -> (n,): what operations that meet add."""
        rows, columns = ops[:, 0].astype(np.intp) * len(self.pairs), ops[:, 1].astype(np.intp)
        total, steps = np.zeros(len(ops)), range(ops.shape[2])
        for i, j in itertools.product(steps, steps):
            total += self.pairs.take(rows[:, i] + columns[:, j])
        return total

    def losses(self, ops: Whole, bins: Whole, cooperative: bool) -> NDArray[np.float64]:
        """The expected loss of each pair (n, 1); apart, that of each view (n, 2) if the other were like it."""
        views = self.of_views(ops, bins)
        if cooperative:
            return self.constant + (views.sum(1) + self.of_pairs(ops))[:, None]
        return self.constant + 2 * views


def level_bins(levels: int) -> NDArray[np.int16]:
    """(levels,): which of the bins each level belongs to, the nearest one."""
    bins = min(levels, BINS)
    return np.rint(np.arange(levels) * (bins - 1) / (levels - 1)).astype(np.int16)


@dataclass(frozen=True, eq=False)
class TiltedPolicy:
    """A learned policy without a network: a prior and a table of effects."""

    prior: ViewSource
    kind: str  # coviews: pairs are tilted; indepviews: each view on its own, by half as much
    effects: Effects
    tilt: Tilt
    keep: float = 0.1  # the share that is drawn from the prior as it is, to go on exploring
    accepted: float = 0.5  # about how many of the prior's draws are kept
    statistics: dict[str, Any] = field(default_factory=dict)  # how it was learned, as plain JSON
    p: float = field(default=1.0, init=False)  # of a step to be applied: the prior's coins are flipped already

    def __post_init__(self) -> None:
        if self.kind not in COOPERATIVE:
            raise unknown("kind of policy", self.kind, COOPERATIVE)
        if self.views != 2:
            raise CoviewsError(f"a tilted policy draws pairs of views, and its prior {self.views}")
        n_ops, bins = len(self.space.ops), int(self._bins[-1]) + 1
        expected = (self.steps, n_ops, bins), (n_ops, n_ops)
        actual = self.effects.steps.shape, self.effects.pairs.shape
        if actual != expected:
            raise CoviewsError(f"the table's effects have the shapes {actual}, and the prior needs {expected}")
        for name, low, high in (("keep", 0.0, 1.0), ("accepted", 1e-4, 1.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise CoviewsError(f"{name} must be in {low:g}..{high:g}, not {value!r}")

    @cached_property
    def _drawn(self) -> Subpolicies:
        return self.prior.sample(1, np.random.default_rng(0))

    @property
    def space(self) -> Space:
        """The prior's."""
        return self._drawn.space

    @property
    def views(self) -> int:
        """V, the number of views."""
        return self._drawn.views

    @property
    def steps(self) -> int:
        """N_tau, the number of operations in a row."""
        return self._drawn.steps

    @property
    def cooperative(self) -> bool:
        """Whether a view knows of the other."""
        return COOPERATIVE[self.kind]

    @cached_property
    def _bins(self) -> NDArray[np.int16]:
        return level_bins(self.space.levels)

    def log_weights(self, ops: Whole, levels: Whole) -> NDArray[np.float64]:
        """How much less likely than the best a pair (n, 1), or a view (n, 2), is accepted: at most 0."""
        below = self.tilt(self.effects.losses(ops, self._bins[levels], self.cooperative)) - self.tilt.top
        return below if self.cooperative else below / 2

    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        """Draw subpolicies for n images."""
        units = 1 if self.cooperative else 2  # what is accepted or not: pairs or single views
        shape = (n, units, 2 * self.steps // units)
        ops, levels = np.empty(shape, np.int16), np.empty(shape, np.int16)
        plain = generator.random((n, units)) < self.keep
        rows = [np.argsort(~plain[:, u], kind="stable") for u in range(units)]  # still to be drawn; plain ones first
        as_they_are = plain.sum(0)  # so many draws are taken whatever their weight
        patience = _PATIENCE * (n / self.accepted + 1000)
        while most := max(map(len, rows)):
            count = min(int(1.2 * most / self.accepted) + 16, _AT_ONCE)
            patience -= count
            if patience < 0:
                raise CoviewsError("the policy accepts almost nothing of what its prior draws: its table is damaged")
            drawn = self.prior.sample(count, generator).applied(generator)
            new_ops, new_levels = (a.reshape(count, *shape[1:]) for a in (drawn.ops, drawn.levels))
            good = generator.random((count, units)) < np.exp(self.log_weights(drawn.ops, drawn.levels))
            good |= np.arange(count)[:, None] < as_they_are
            as_they_are = np.maximum(as_they_are - count, 0)
            for u in range(units):
                accepted = np.flatnonzero(good[:, u])[: len(rows[u])]
                now, rows[u] = rows[u][: len(accepted)], rows[u][len(accepted) :]
                ops[now, u], levels[now, u] = new_ops[accepted, u], new_levels[accepted, u]
        whole = (n, 2, self.steps)
        return Subpolicies(self.space, ops.reshape(whole), levels.reshape(whole))

    def with_statistics(self, statistics: dict[str, Any]) -> "TiltedPolicy":
        """The same policy with other statistics."""
        return replace(self, statistics=statistics)

    def save(self, path: str | Path) -> None:
        """Write the policy to a `.safetensors` file of a few kilobytes, whole or not at all."""
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
        if not all(np.isfinite(a).all() for a in (self.effects.steps, self.effects.pairs)):
            raise CoviewsError("the policy has effects that are not finite: it is not worth keeping")
        write_policy(path, {"steps": self.effects.steps, "pairs": self.effects.pairs}, description)


def read_tilted(file: Any, described: dict[str, Any]) -> TiltedPolicy:
    """A tilted policy from its open file and its description."""
    where = read_space(described["space"])
    prior = read_source(described["prior"], where)
    drawn = prior.sample(1, np.random.default_rng(0))
    if drawn.space != where:
        raise CoviewsError(f"its prior draws from the space {drawn.space.name!r}, not from {where.name!r}")
    n_ops = len(where.ops)
    steps = read_weight(file, "steps", (drawn.steps, n_ops, min(where.levels, BINS)))
    pairs = read_weight(file, "pairs", (n_ops, n_ops))
    if not np.array_equal(pairs, pairs.T):
        raise CoviewsError("its effects of pairs are not the same both ways")
    tilt = Tilt(**{name: _finite(value, name) for name, value in described["tilt"].items()})
    effects = Effects(steps, pairs, _finite(described["constant"], "constant"))
    policy = TiltedPolicy(prior, described["kind"], effects, tilt, described["keep"], described["accepted"])
    policy.statistics.update(described["statistics"])
    return policy


def _finite(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise CoviewsError(f"its {name} must be a number, not {value!r}")
    return float(value)
