"""Search by table: training itself tells how hard every pair is, and a table of effects fitted to that is enough.

The table says what each choice adds to a pair's loss. The policy that follows from it is in closed form, the prior
tilted by a reward of the expected loss (`TiltedPolicy`): no network, no encoder pass beyond those of training.
"""

import math
import warnings
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError, unknown
from coviews.ops.plan import Plan
from coviews.policies.blas_threads import one_blas_thread
from coviews.policies.fixed import FIXED
from coviews.policies.subpolicy import Subpolicies, ViewSource
from coviews.policies.tilted import COOPERATIVE, Effects, Tilt, TiltedPolicy, level_bins
from coviews.searching.settings import SearchSettings
from coviews.searching.table_equations import Equations, Numbers, effect_indices

_SAMPLE = 8192  # draws of the prior that stand for all of it
_RECENT = 2048  # pairs that tell how high the loss is now
_UNSEEN = 0.2  # share of the memory, the newest part, that the table is judged on
_RARE = 0.001  # what is rarer gains no more: for so few, many draws of the prior would have to be refused
_LEAST = 0.02  # of the prior's draws are accepted, whatever the target
_DOUBLINGS, _HALVINGS = 30, 25


@dataclass(frozen=True, kw_only=True)
class TableSettings(SearchSettings):
    """How the table is fitted, and how far its policy goes."""

    name: ClassVar[str] = "table"
    unit: ClassVar[tuple[str, str]] = ("fit of the table", "fits of the table")
    reads_training_losses: ClassVar[bool] = True

    prior: str = "uniform"
    """What the policy departs from: uniform, random, randaugment, trivialaugment or simclr."""

    memory: int = 50_000
    """Pairs of views, the last that training has seen, which the table is fitted to."""
    ridge: float = 20.0
    """An effect that was seen in so many pairs counts for half of what it seems to be: a guard against luck."""
    hardness: float = 0.1
    """How much harder than the prior the views shall be: the share of the way from its mean loss to that of views
    that lost their image. Below 0 they shall be easier."""
    most_over: float = 0.1
    """At most this share of pairs is expected to lie over the reward's bound."""
    keep: float = 0.1
    """The share of views that the prior makes as it is, so that every choice goes on being tried."""
    gentle: int = 5
    """Fits over which the hardness grows to its target."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_counts(memory=1, gentle=1)
        if self.prior not in FIXED:
            raise unknown("prior", self.prior, FIXED)
        if not 0 < self.ridge < math.inf:
            raise CoviewsError(f"the table's ridge must be above 0, not {self.ridge}")
        if not -1 < self.hardness < 1:
            raise CoviewsError(
                f"the table's hardness must be between -1 and 1 (the loss of views that lost their image), "
                f"not {self.hardness}"
            )
        for name in ("most_over", "keep"):
            if not 0 <= getattr(self, name) <= 1:
                raise CoviewsError(f"the table's {name} is a share in 0..1, not {getattr(self, name)}")

    @property
    def first_source(self) -> str:
        """The prior, from the first epoch on: its losses are what the table is fitted to."""
        return self.prior


class _Batch(NamedTuple):
    ops: NDArray[np.uint8]  # (n, 2, S)
    bins: NDArray[np.uint8]  # (n, 2, S), of the levels
    losses: NDArray[np.float32]  # (n,)
    terms: NDArray[np.int64]  # (K, n), the effects that add up to each loss; one that counts twice is there twice


class LossTable:
    """What training saw, and the policy that follows from it.

        table = LossTable(view_source("uniform"))
        table.add(subpolicies, losses)  # after every step: what was applied, and the loss of each pair
        policy = table.policy(generator)  # every epoch

    Args:
        prior: what the policy departs from; views should be drawn from it until the first policy is there.
        kind: `coviews`, pairs are chosen, or `indepviews`, each view on its own.
        settings: how the table is fitted, and how far the policy goes.
        chance: the loss of views that lost their image; by default that of InfoNCE in the batch.
    """

    def __init__(
        self,
        prior: ViewSource,
        *,
        kind: str = "coviews",
        settings: TableSettings | None = None,
        chance: float | None = None,
    ) -> None:
        if kind not in COOPERATIVE:
            raise unknown("kind of policy", kind, COOPERATIVE)
        self.prior, self.kind, self.chance = prior, kind, chance
        self.settings = settings or TableSettings()
        self.reward = self.settings.reward
        drawn = prior.sample(1, np.random.default_rng(0))
        if drawn.views != 2:
            raise CoviewsError(f"a table is of pairs of views, and the prior draws {drawn.views}")
        self.space, self.steps = drawn.space, drawn.steps
        self.fits = 0  # that gave a policy which is not the prior as it is
        self._batches: deque[_Batch] = deque()
        self._pairs = 0
        self._step_index, self._pair_index = effect_indices(drawn, COOPERATIVE[kind])
        self._features = 1 + int(max(index.max(initial=0) for index in (self._step_index, self._pair_index)))

    def __len__(self) -> int:
        """How many pairs are remembered."""
        return self._pairs

    # ---------------------------------------------------------------------------------------------- the memory

    def add(self, subpolicies: Subpolicies | Plan, losses: Any) -> None:
        """Remember a batch: what was applied to its pairs, and the loss of each, an array or a tensor (n,)."""
        if hasattr(losses, "detach"):
            losses = losses.detach().float().cpu().numpy()
        values = np.array(losses, np.float32)
        if isinstance(subpolicies, Subpolicies) and subpolicies.p != 1:
            raise CoviewsError(
                "the table needs what was applied: draw plan = Plan.draw(source, n, image_size, generator), make the "
                "views of it, and hand it over"
            )
        theirs, ends = subpolicies.space, [0, -1]
        if (
            theirs.ops != self.space.ops
            or not np.allclose(theirs.values[:, ends], self.space.values[:, ends])
            or subpolicies.ops.shape[1:] != (2, self.steps)
        ):
            raise CoviewsError(
                f"these subpolicies ({theirs.name!r}, {subpolicies.views} views of {subpolicies.steps} steps) are not "
                f"like those of the prior ({self.space.name!r}, 2 views of {self.steps} steps)"
            )
        if values.shape != (len(subpolicies),) or not np.isfinite(values).all():
            raise CoviewsError(f"{len(subpolicies)} finite losses are needed, one for each pair, not {values.shape}")
        if not len(values):
            return
        bins = level_bins(theirs.levels)[subpolicies.levels]
        self._append(subpolicies.ops.astype(np.uint8), bins.astype(np.uint8), values)

    def _append(self, ops: NDArray[np.uint8], bins: NDArray[np.uint8], losses: NDArray[np.float32]) -> None:
        terms = self._step_index[np.arange(self.steps), ops, bins].reshape(len(ops), -1)
        if len(self._pair_index):
            met = self._pair_index[ops[:, 0, :, None], ops[:, 1, None, :]].reshape(len(ops), -1)
            terms = np.concatenate([terms, met], 1)
        self._batches.append(_Batch(ops, bins, losses, np.ascontiguousarray(terms.T)))
        self._pairs += len(losses)
        while len(self._batches) > 1 and self._pairs > self.settings.memory:
            self._pairs -= len(self._batches.popleft().losses)

    def state_dict(self) -> dict[str, Any]:
        """A copy of all that the next policies depend on: plain numbers and arrays."""
        empty = np.empty((0, 2, self.steps), np.uint8), np.empty((0, 2, self.steps), np.uint8), np.empty(0, np.float32)
        parts = zip(empty, *(batch[:3] for batch in self._batches), strict=True)
        ops, bins, losses = (np.concatenate(part) for part in parts)
        sizes = np.array([len(b.losses) for b in self._batches], np.int64)
        return {"ops": ops, "bins": bins, "losses": losses, "sizes": sizes, "fits": self.fits}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue exactly where the table was that gave this state."""
        ops, bins, losses, sizes = (np.asarray(state[name]) for name in ("ops", "bins", "losses", "sizes"))
        shape = (int(sizes.sum()), 2, self.steps)
        if ops.shape != shape or bins.shape != shape or losses.shape != shape[:1]:
            raise CoviewsError(f"the saved table has pairs of the shape {ops.shape}, not {shape}")
        if ops.size and (ops.max() >= len(self.space.ops) or bins.max() >= self._step_index.shape[2]):
            raise CoviewsError("the saved table has operations or levels that its space has not")
        self._batches.clear()
        self._pairs, self.fits = 0, int(state["fits"])
        ends = np.cumsum(sizes)
        for first, last in zip(ends - sizes, ends, strict=True):
            self._append(ops[first:last], bins[first:last], losses[first:last])

    # ------------------------------------------------------------------------------------------------- the fit

    def policy(self, generator: np.random.Generator) -> TiltedPolicy:
        """The policy that follows from what is remembered; the next one may go further, up to the target."""
        s = self.settings
        drawn = self.prior.sample(_SAMPLE, generator).applied(generator)
        bins = level_bins(drawn.space.levels)[drawn.levels]
        effects, explained = self._fit()
        losses = effects.constant + self._added(effects, drawn.ops, bins)
        reference, chance = float(losses.mean()), self._chance()
        target = s.hardness * min(1.0, (self.fits + 1) / s.gentle)
        statistics: dict[str, Any] = {
            "by": "table", "pairs": len(self), "explained": explained, "target": target, "reference": _plain(reference),
            "chance": _plain(chance), "loss": _plain(reference), "hardness": 0.0, "over": None, "accepted": 1.0,
            "limited_by": self._useless(explained, reference, chance),
        }  # fmt: skip
        if statistics["limited_by"] is not None:
            nothing = Effects(np.zeros_like(effects.steps), np.zeros_like(effects.pairs))
            return TiltedPolicy(self.prior, self.kind, nothing, Tilt(), s.keep, 1.0, statistics)
        self.fits += 1
        if self.fits == 1 and self.reward.empty(reference, chance):
            warnings.warn(self.reward.empty_message(reference, chance), stacklevel=2)
        sample = _Sample(
            effects.losses(drawn.ops, bins, COOPERATIVE[self.kind]),
            losses,
            self.reward.over(losses, reference, chance),
            self._unit_tilt(reference, chance, easier=target < 0),
            s.keep,
        )
        strength, limit = self._strength(sample, reference + target * (chance - reference), target)
        met = sample.tilted(strength)
        statistics |= {
            "loss": met.loss, "hardness": (met.loss - reference) / (chance - reference), "over": met.over,
            "accepted": met.accepted, "limited_by": limit,
        }  # fmt: skip
        tilt = sample.unit.times(strength)
        return TiltedPolicy(self.prior, self.kind, effects, tilt, s.keep, min(1.0, met.accepted), statistics)

    def _fit(self) -> tuple[Effects, float | None]:
        """The effects, and the share of the variance of unseen pairs that effects fitted to the others explain.

        The loss falls as training goes on, and batches differ: each has a level of its own, which takes no part.
        """
        sizes = [len(b.losses) for b in self._batches]
        total, newest = sum(sizes), 0
        first_unseen = len(sizes)
        while first_unseen > 0 and newest < _UNSEEN * total:
            first_unseen -= 1
            newest += sizes[first_unseen]
        batches = list(self._batches)
        older, newest_part = self._equations(batches[:first_unseen]), self._equations(batches[first_unseen:])
        explained = newest_part.explained_by(self._solve(older)) if first_unseen > 0 else None
        return self._effects(self._solve(older, newest_part)), explained

    def _equations(self, batches: list[_Batch]) -> Equations:
        if not batches:
            return Equations.none(self._features)
        losses, terms = np.concatenate([b.losses for b in batches]), np.concatenate([b.terms for b in batches], 1)
        sizes = np.array([len(b.losses) for b in batches])
        return Equations.of(terms, losses.astype(np.float64), sizes, self._features)

    def _solve(self, *parts: Equations) -> Numbers:
        gram, right = (sum(part) for part in zip(*((p.gram, p.right) for p in parts), strict=True))
        gram.flat[:: self._features + 1] += self.settings.ridge
        with one_blas_thread():
            solved: Numbers = np.linalg.solve(gram, right)
        return solved

    def _effects(self, values: Numbers) -> Effects:
        steps = values[self._step_index].astype(np.float32)
        n_ops = len(self.space.ops)
        pairs = values[self._pair_index] if len(self._pair_index) else np.zeros((n_ops, n_ops))
        effects = Effects(steps, pairs.astype(np.float32))
        return replace(effects, constant=self._level(effects))

    # ---------------------------------------------------------------------------------------- how far to go

    def _added(self, effects: Effects, ops: NDArray[np.integer], bins: NDArray[np.integer]) -> Numbers:
        """What the effects add to the loss of each pair (n,)."""
        return effects.of_views(ops, bins).sum(1) + effects.of_pairs(ops)

    def _level(self, effects: Effects) -> float:
        """The loss of a pair without any effect, as it is now."""
        recent, pairs = [], 0
        for batch in reversed(self._batches):
            recent.append(batch.losses - self._added(effects, batch.ops, batch.bins))
            pairs += len(batch.losses)
            if pairs >= _RECENT:
                break
        return float(np.concatenate(recent).mean()) if recent else math.nan

    def _chance(self) -> float:
        if self.chance is not None:
            return self.chance
        return math.log(max(2 * len(self._batches[-1].losses) - 1, 1)) if self._batches else math.nan

    def _useless(self, explained: float | None, reference: float, chance: float) -> str | None:
        """Why the prior cannot be improved on yet, if there is a reason."""
        if explained is None:
            return "too few pairs were seen"
        if explained <= 0:
            return "the table explains nothing of the loss of pairs that it was not fitted to"
        if not 0 < reference < chance:
            return "the encoder tells no pair from another yet"
        return None

    def _unit_tilt(self, reference: float, chance: float, *, easier: bool) -> Tilt:
        """The reward of a loss, less its peak; towards easier views it is the loss itself, and has no bound."""
        zero, one = self.reward.hardness([0.0, 1.0], reference, chance)
        slope = float(one - zero)
        if easier:
            return Tilt(-slope, slope, reference, math.inf)
        limit = self.reward.limit(reference, chance)
        return Tilt(slope, slope * limit / self.reward.tolerance, float((limit - zero) / slope), math.inf)

    def _strength(self, sample: "_Sample", target_loss: float, target: float) -> tuple[float, str | None]:
        """How strongly to tilt: as far as to the target_loss loss, or to what stops it before; and what that is."""
        if target == 0:
            return 0.0, None
        allowed = max(self.settings.most_over, sample.tilted(0.0).over)

        def stopped(strength: float) -> str | None:
            now = sample.tilted(strength)
            if (now.loss > target_loss) if target > 0 else (now.loss < target_loss):
                return "target"
            if now.over > allowed:
                return "share over the bound"
            return "variety" if now.accepted < _LEAST else None

        low, high, limit = 0.0, 2.0**-6, None
        for _ in range(_DOUBLINGS):
            limit = stopped(high)
            if limit is not None:
                break
            low, high = high, 2 * high
        for _ in range(_HALVINGS if limit is not None else 0):
            middle = (low + high) / 2
            now = stopped(middle)
            low, high, limit = (middle, high, limit) if now is None else (low, middle, now)
        return low, None if limit == "target" else limit


class _Met(NamedTuple):
    """What a policy is expected to do."""

    loss: float
    over: float  # share of pairs over the bound
    accepted: float  # of the prior's draws


class _Sample:
    """Draws of the prior, which stand for any tilt of it by their weights."""

    def __init__(self, units: Numbers, losses: Numbers, over: NDArray[np.bool_], unit: Tilt, keep: float) -> None:
        self.losses, self.over, self.keep = losses, over, keep  # (n,)
        tilts = unit(units)  # (n, 1) of pairs, or (n, 2) of views
        self.unit = replace(unit, top=float(np.quantile(tilts, 1 - _RARE)))
        self._below = (np.minimum(tilts, self.unit.top) - self.unit.top) / units.shape[1]  # of views, by half

    def tilted(self, strength: float) -> _Met:
        """What the policy of this strength does, the share that is the prior's included."""
        weights = np.exp(strength * self._below)
        means = weights.mean(0)
        pairs = (self.keep + (1 - self.keep) * weights / means).prod(1)
        pairs /= pairs.sum()
        return _Met(float(pairs @ self.losses), float(pairs @ self.over), float(means.min()))


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
