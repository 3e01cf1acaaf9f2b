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
from coviews.ops.generators import AnyGenerator, numpy_generator
from coviews.ops.placement import Placement
from coviews.ops.plan import Plan
from coviews.policies.blas_threads import one_blas_thread
from coviews.policies.factors import FAMILIES, is_family, named_family
from coviews.policies.fixed import FIXED
from coviews.policies.placement_effects import COUNTS, FIRSTS, PlacementEffects, placement_bins
from coviews.policies.subpolicy import Subpolicies, ViewSource
from coviews.policies.tilted import COOPERATIVE, Effects, Tilt, TiltedPolicy, level_bins
from coviews.searching.settings import SearchSettings
from coviews.searching.table_equations import Equations, Numbers, effect_indices
from coviews.searching.tilt_strength import PriorSample, tilt_strength

_SAMPLE = 8192  # draws of the prior that stand for all of it
_RECENT = 2048  # pairs that tell how high the loss is now
_UNSEEN = 0.2  # share of the memory, the newest part, that the table is judged on
_RIDGES = (1e-6, 1e9)  # beyond them, the equations have no solution in 64 bits


@dataclass(frozen=True, kw_only=True)
class TableSettings(SearchSettings):
    """How the table is fitted, and how far its policy goes."""

    name: ClassVar[str] = "table"
    unit: ClassVar[tuple[str, str]] = ("fit of the table", "fits of the table")
    reads_training_losses: ClassVar[bool] = True
    needs_bound: ClassVar[bool] = True

    prior: str = "uniform"
    """What the policy departs from: a fixed view source, such as uniform or simclr, or a family, as for --views."""

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
    crops: bool = False
    """Whether the table sees where the two crops of a pair lie and whether one of them is mirrored, and the policy
    chooses pairs of crops too. Without an effect on indepviews, which draws each view by itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_counts(memory=1, gentle=1)
        if self.prior not in FIXED and not is_family(self.prior):
            raise unknown("prior", self.prior, [*FIXED, *FAMILIES])
        if self.prior not in FIXED:
            named_family(self.prior)  # an error if there is none
        if not _RIDGES[0] <= self.ridge <= _RIDGES[1]:
            raise CoviewsError(f"the table's ridge must be from {_RIDGES[0]:g} to {_RIDGES[1]:g}, not {self.ridge}")
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
    places: NDArray[np.uint8]  # (n, F), the bins of the placement; F is 0 where it is not seen
    terms: NDArray[np.int64]  # (K, n), the effects that add up to each loss; one that counts twice is there twice


class _Fit(NamedTuple):
    effects: Effects
    explained: float | None  # share of the variance of unseen pairs; None if there are too few
    without_crops: float | None  # the same of a fit of the operations alone; None if crops are not seen


class LossTable:
    """What training saw, and the policy that follows from it.

        table = LossTable(view_source("uniform"))
        table.add(plan, losses)  # after every step: what was applied, and the loss of each pair
        policy = table.policy(generator)  # every epoch

    Args:
        prior: what the policy departs from; views should be drawn from it until the first policy is there.
        kind: `coviews`, pairs are chosen, or `indepviews`, each view on its own.
        settings: how the table is fitted, and how far the policy goes.
        chance: the loss of views that lost their image; by default that of InfoNCE in the batch.
        placement: how crops, flips and turns are drawn; it matters only if the settings say that crops are chosen.
    """

    def __init__(
        self,
        prior: ViewSource,
        *,
        kind: str = "coviews",
        settings: TableSettings | None = None,
        chance: float | None = None,
        placement: Placement | None = None,
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
        self._operation_features = self._features  # the effects of the placement come after those of the operations
        self._crops = self.settings.crops and COOPERATIVE[kind]
        self._placement, self._image_size = placement or Placement(), (1, 1)  # the size of the last plan's images
        if self._crops:
            self._features += int(COUNTS.sum())

    def __len__(self) -> int:
        """How many pairs are remembered."""
        return self._pairs

    def __repr__(self) -> str:
        return f"LossTable({self.kind}, {len(self):,} pairs, {self.space!r})"

    # ---------------------------------------------------------------------------------------------- the memory

    def add(self, subpolicies: Subpolicies | Plan, losses: Any) -> None:
        """Remember a batch: what was applied to its pairs, and the loss of each, an array or a tensor (n,).

        A table that sees crops needs the plan.
        """
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
        places = np.empty((len(values), 0), np.uint8)
        if self._crops:
            if not isinstance(subpolicies, Plan):
                raise CoviewsError("a table that sees crops needs the plan of the views, not their subpolicies alone")
            places, self._image_size = placement_bins(subpolicies), subpolicies.image_size
        bins = level_bins(theirs.levels)[subpolicies.levels]
        self._append(subpolicies.ops.astype(np.uint8), bins.astype(np.uint8), values, places)

    def _append(
        self,
        ops: NDArray[np.uint8],
        bins: NDArray[np.uint8],
        losses: NDArray[np.float32],
        places: NDArray[np.uint8],
    ) -> None:
        terms = self._step_index[np.arange(self.steps), ops, bins].reshape(len(ops), -1)
        if len(self._pair_index):
            met = self._pair_index[ops[:, 0, :, None], ops[:, 1, None, :]].reshape(len(ops), -1)
            terms = np.concatenate([terms, met], 1)
        if self._crops:
            terms = np.concatenate([terms, self._operation_features + FIRSTS + places], 1)
        self._batches.append(_Batch(ops, bins, losses, places, np.ascontiguousarray(terms.T)))
        self._pairs += len(losses)
        while len(self._batches) > 1 and self._pairs > self.settings.memory:
            self._pairs -= len(self._batches.popleft().losses)

    def state_dict(self) -> dict[str, Any]:
        """A copy of all that the next policies depend on: numbers and tensors, which `torch.load` reads by default."""
        import torch  # here: making views does not wait for it

        empty = (
            np.empty((0, 2, self.steps), np.uint8), np.empty((0, 2, self.steps), np.uint8), np.empty(0, np.float32),
            np.empty((0, self._places), np.uint8),
        )  # fmt: skip
        parts = zip(empty, *(batch[:4] for batch in self._batches), strict=True)
        ops, bins, losses, places = (np.concatenate(part) for part in parts)
        sizes = np.array([len(b.losses) for b in self._batches], np.int64)
        state = {"ops": ops, "bins": bins, "losses": losses, "sizes": sizes, "fits": self.fits}
        if self._crops:
            state |= {"places": places, "image_size": np.array(self._image_size, np.int64)}
        return {name: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for name, v in state.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue exactly where the table was that gave this state."""
        needed = {"ops", "bins", "losses", "sizes", "fits", *(("places", "image_size") if self._crops else ())}
        if missing := needed - set(state):
            raise CoviewsError(f"this is not the state of such a table: it has no {', '.join(sorted(missing))}")
        state = {name: v.cpu() if hasattr(v, "cpu") else v for name, v in state.items()}  # loaded to any device
        ops, bins, losses, sizes = (np.asarray(state[name]) for name in ("ops", "bins", "losses", "sizes"))
        types = (ops.dtype, bins.dtype, losses.dtype, sizes.dtype) == (np.uint8, np.uint8, np.float32, np.int64)
        shape = (int(sizes.sum()), 2, self.steps)
        fits = types and ops.shape == bins.shape == shape and losses.shape == shape[:1] and sizes.ndim == 1
        if not fits or sizes.min(initial=0) < 0 or not np.isfinite(losses).all():
            raise CoviewsError(f"the saved table has pairs of the shape {ops.shape}, not {shape}, or wrong numbers")
        if ops.size and (ops.max() >= len(self.space.ops) or bins.max() >= self._step_index.shape[2]):
            raise CoviewsError("the saved table has operations or levels that its space has not")
        places = np.asarray(state["places"]) if self._crops else np.empty((len(losses), 0), np.uint8)
        kind, most = (len(losses), self._places, np.uint8), COUNTS[: self._places]
        if (*places.shape, places.dtype) != kind or (places >= most).any():
            raise CoviewsError("the saved table has crops that do not fit this version of coviews")
        self._image_size = tuple(map(int, state["image_size"])) if self._crops else (1, 1)  # type: ignore[assignment]
        self._batches.clear()
        self._pairs, self.fits, ends = 0, int(state["fits"]), np.cumsum(sizes)
        for first, last in zip(ends - sizes, ends, strict=True):
            self._append(ops[first:last], bins[first:last], losses[first:last], places[first:last])

    @property
    def _places(self) -> int:
        """F, the features of a placement that the table sees."""
        return len(COUNTS) if self._crops else 0

    # ------------------------------------------------------------------------------------------------- the fit

    def policy(self, generator: AnyGenerator) -> TiltedPolicy:
        """The policy that follows from what is remembered; the next one may go further, up to the target."""
        s, generator = self.settings, numpy_generator(generator)
        drawn, places = self._prior_draws(generator)
        bins = level_bins(drawn.space.levels)[drawn.levels]
        effects, explained, without_crops = self._fit()
        losses = effects.constant + self._added(effects, drawn.ops, bins, places)
        reference, chance = float(losses.mean()), self._chance()
        target = s.hardness * min(1.0, (self.fits + 1) / s.gentle)
        statistics: dict[str, Any] = {
            "by": "table", "pairs": len(self), "explained": explained, "target": target, "reference": _plain(reference),
            "chance": _plain(chance), "loss": _plain(reference), "hardness": 0.0, "over": None, "accepted": 1.0,
            "limited_by": self._useless(explained, reference, chance),
        }  # fmt: skip
        if self._crops:
            statistics["explained_without_crops"] = without_crops
        if statistics["limited_by"] is not None:
            nothing = Effects(np.zeros_like(effects.steps), np.zeros_like(effects.pairs))
            return TiltedPolicy(self.prior, self.kind, nothing, Tilt(), s.keep, 1.0, statistics)
        self.fits += 1
        if self.fits == 1 and self.reward.empty(reference, chance):
            warnings.warn(self.reward.empty_message(reference, chance), stacklevel=2)
        sample = PriorSample(
            effects.losses(drawn.ops, bins, COOPERATIVE[self.kind], places),
            losses,
            self.reward.over(losses, reference, chance),
            self._unit_tilt(reference, chance, easier=target < 0),
            s.keep,
        )
        strength, limit = tilt_strength(sample, reference + target * (chance - reference), target, s.most_over)
        met = sample.tilted(strength)
        statistics |= {
            "loss": met.loss, "hardness": (met.loss - reference) / (chance - reference), "over": met.over,
            "accepted": met.accepted, "limited_by": limit,
        }  # fmt: skip
        tilt = sample.unit.times(strength)
        return TiltedPolicy(self.prior, self.kind, effects, tilt, s.keep, min(1.0, met.accepted), statistics)

    def _prior_draws(self, generator: np.random.Generator) -> tuple[Subpolicies, NDArray[np.uint8] | None]:
        """Draws that stand for all of the prior, and the bins of their placements if those are seen."""
        drawn = self.prior.sample(_SAMPLE, generator).applied(generator)
        if not self._crops:
            return drawn, None
        return drawn, placement_bins(Plan.draw(drawn, _SAMPLE, self._image_size, generator, self._placement))

    def _fit(self) -> "_Fit":
        """The effects, and how much of the variance of unseen pairs effects fitted to the others explain.

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
        explained = without_crops = None
        if first_unseen > 0:
            explained = newest_part.explained_by(self._solve(older))
            if self._crops:
                operations = np.zeros(self._features)
                operations[: self._operation_features] = self._solve(older.of_first(self._operation_features))
                without_crops = newest_part.explained_by(operations)
        return _Fit(self._effects(self._solve(older, newest_part)), explained, without_crops)

    def _equations(self, batches: list[_Batch]) -> Equations:
        if not batches:
            return Equations.none(self._features)
        losses, terms = np.concatenate([b.losses for b in batches]), np.concatenate([b.terms for b in batches], 1)
        sizes = np.array([len(b.losses) for b in batches])
        return Equations.of(terms, losses.astype(np.float64), sizes, self._features)

    def _solve(self, *parts: Equations) -> Numbers:
        gram, right = (sum(part) for part in zip(*((p.gram, p.right) for p in parts), strict=True))
        gram.flat[:: len(gram) + 1] += self.settings.ridge
        with one_blas_thread():
            solved: Numbers = np.linalg.solve(gram, right)
        return solved

    def _effects(self, values: Numbers) -> Effects:
        steps = values[self._step_index].astype(np.float32)
        n_ops = len(self.space.ops)
        pairs = values[self._pair_index] if len(self._pair_index) else np.zeros((n_ops, n_ops))
        placement = None
        if self._crops:
            by_bin = values[self._operation_features :].astype(np.float32)
            placement = PlacementEffects(by_bin, self._placement, self._image_size)
        effects = Effects(steps, pairs.astype(np.float32), placement=placement)
        return replace(effects, constant=self._level(effects))

    # ---------------------------------------------------------------------------------------- how far to go

    def _added(
        self,
        effects: Effects,
        ops: NDArray[np.integer],
        bins: NDArray[np.integer],
        places: NDArray[np.uint8] | None = None,
    ) -> Numbers:
        """What the effects add to the loss of each pair (n,)."""
        added = effects.of_views(ops, bins).sum(1) + effects.of_pairs(ops)
        if effects.placement is not None and places is not None:
            added += effects.placement.of(places)
        return added

    def _level(self, effects: Effects) -> float:
        """The loss of a pair without any effect, as it is now."""
        recent, pairs = [], 0
        for batch in reversed(self._batches):
            recent.append(batch.losses - self._added(effects, batch.ops, batch.bins, batch.places))
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


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
