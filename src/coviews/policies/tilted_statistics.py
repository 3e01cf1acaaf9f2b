"""What a tilted policy prefers: exact for a uniform prior of one or two steps a view, otherwise from draws."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coviews.ops.plan import Plan
from coviews.ops.space import Space
from coviews.policies.fixed import Uniform
from coviews.policies.placement_effects import COUNTS, FIRSTS, PlacementEffects, placement_bins
from coviews.policies.subpolicy import Subpolicies
from coviews.policies.tilted import Tilt, TiltedPolicy, level_bins

Numbers = NDArray[np.float64]

_STATES = 40_000  # of one view that are enumerated at most: each is combined with all operations of the other view
_DRAWS = 200_000
_READILY = 0.2  # if a smaller share of the prior's draws is accepted, there are fewer draws, in the same time
_PLANS = 50_000  # draws where crops are chosen, of the prior: each counts with its weight
_STEEP = 600.0  # exponents beyond it would overflow


class TiltedStatistics(NamedTuple):
    """Probabilities of what is applied; see `PolicyStatistics`."""

    space: Space  # with a level for each bin
    ops: Numbers  # (V, S, O)
    levels: Numbers  # (V, S, O, bins)
    pairs: Numbers  # (S, S, O, O)
    error: float
    prior: Numbers  # (O,), of each operation in a step under the prior
    placement: "PlacementStatistics | None" = None  # where crops are chosen


class PlacementStatistics(NamedTuple):
    """Probabilities of the bins of all features of a placement, see `placement_effects.py`."""

    policy: Numbers  # (bins of all features,)
    prior: Numbers  # the same without the tilt


class _States(NamedTuple):
    """All that can be done to one view, in blocks of the same operations, each sorted by what it adds to the loss."""

    ops: NDArray[np.int64]  # (n, S)
    bins: NDArray[np.int64]  # (n, S)
    p: Numbers  # (n,), of the prior
    added: Numbers  # (n,), to the loss
    starts: NDArray[np.int64]  # (blocks + 1,)


def tilted_statistics(policy: TiltedPolicy, generator: np.random.Generator) -> TiltedStatistics:
    """The statistics of a tilted policy; the generator is used only where there are too many states to enumerate."""
    prior, space = policy.prior, policy.space
    if policy.effects.placement is not None:
        return _by_plans(policy, policy.effects.placement, generator)
    each = np.where(space.has_magnitude, policy.effects.steps.shape[2], 1).sum()
    if not isinstance(prior, Uniform) or prior.steps > 2 or each**prior.steps > _STATES:
        return _by_draws(policy, generator)
    states, keep = _states(policy, prior), policy.keep
    if policy.cooperative:
        view, blocks = _pairs_together(policy, states)
        plain = np.add.reduceat(states.p, states.starts[:-1])
        view, blocks = keep * states.p + (1 - keep) * view, keep * np.outer(plain, plain) + (1 - keep) * blocks
    else:  # whether a view is drawn from the prior does not depend on the other view
        view = states.p * np.exp((policy.tilt(policy.effects.constant + 2 * states.added) - policy.tilt.top) / 2)
        view = keep * states.p + (1 - keep) * view / view.sum()
        alone = np.add.reduceat(view, states.starts[:-1])
        blocks = np.outer(alone, alone)
    return _sum_states(policy, states, view, blocks)


def _states(policy: TiltedPolicy, prior: Uniform) -> _States:
    space, effects = policy.space, policy.effects
    n_ops, n_bins = effects.steps.shape[1:]
    share = np.bincount(level_bins(space.levels), minlength=n_bins) / space.levels
    tokens = [(o, k) for o in range(n_ops) for k in (range(n_bins) if space.has_magnitude[o] else [0])]
    ops, bins = np.array(tokens).T
    p = prior.p / n_ops * np.where(space.has_magnitude[ops], share[bins], 1.0)
    p[ops == space.identity] += 1 - prior.p  # what is not applied
    grid = np.indices((len(tokens),) * prior.steps).reshape(prior.steps, -1).T  # (n, S)
    added = effects.of_views(ops[grid][:, None, :], bins[grid][:, None, :])[:, 0]
    block = ops[grid] @ n_ops ** np.arange(prior.steps)[::-1]
    order = np.lexsort((added, block))
    grid, block = grid[order], block[order]
    starts = np.concatenate([np.flatnonzero(np.diff(block, prepend=-1)), [len(block)]])
    return _States(ops[grid], bins[grid], p[grid].prod(1), added[order], starts)


def _pairs_together(policy: TiltedPolicy, states: _States) -> tuple[Numbers, Numbers]:
    """The probability of each state of a view (the same for both), and of each pair of blocks."""
    sizes, firsts = np.diff(states.starts), states.starts[:-1]
    block = np.repeat(np.arange(len(sizes)), sizes)
    own = states.ops[firsts]  # (blocks, S)
    view, blocks = np.zeros(len(states.p)), np.zeros((len(sizes), len(sizes)))
    for i, (first, last) in enumerate(zip(firsts, states.starts[1:], strict=True)):
        between = policy.effects.pairs[own[i][:, None, None], own.T[None]].sum((0, 1), dtype=np.float64)  # (blocks,)
        others = policy.effects.constant + between[block] + states.added  # (n,), the loss without this view's part
        weights = _summed(policy.tilt, states.added[first:last], states.p[first:last], others) * states.p
        view += weights
        blocks[i] = np.add.reduceat(weights, firsts)
    return view / view.sum(), blocks / blocks.sum()


def _summed(tilt: Tilt, x: Numbers, p: Numbers, others: Numbers) -> Numbers:
    """The sum over x (ascending) of p * exp(tilt(x + other) - its top), for each of the others.

    The tilt rises up to `low`, is flat up to `high`, and falls from there: each part is a running sum of exponentials.
    """
    low, high, rise, fall = _parts(tilt)
    if max(rise, fall) * (x[-1] - x[0]) > _STEEP:  # such sums would overflow
        return np.exp(tilt(x[:, None] + others) - tilt.top).T @ p
    first, last = np.searchsorted(x, low - others), np.searchsorted(x, high - others, "right")
    even = np.concatenate([[0.0], np.cumsum(p)])
    total = even[last] - even[first]
    if rise > 0:
        rising = np.flatnonzero(first)
        before = np.cumsum(p * np.exp(rise * (x - x[-1])))[first[rising] - 1]
        total[rising] += before * np.exp(rise * (others[rising] + x[-1] - low))
    if fall > 0:
        falling = np.flatnonzero(last < len(x))
        after = np.cumsum((p * np.exp(-fall * (x - x[0])))[::-1])[::-1][last[falling]]
        total[falling] += after * np.exp(-fall * (others[falling] + x[0] - high))
    return total


def _parts(tilt: Tilt) -> tuple[float, float, float, float]:
    """Where the tilt's flat top begins and ends, and how steep it is on either side."""
    if tilt.rise > 0:
        high = tilt.bound - tilt.top / tilt.fall if tilt.fall > 0 else np.inf
        return tilt.bound + tilt.top / tilt.rise, high, tilt.rise, max(tilt.fall, 0.0)
    if tilt.fall > 0:  # towards easier views, all the way
        return -np.inf, tilt.bound - tilt.top / tilt.fall, 0.0, tilt.fall
    return -np.inf, np.inf, 0.0, 0.0


def _sum_states(policy: TiltedPolicy, states: _States, view: Numbers, blocks: Numbers) -> TiltedStatistics:
    """The statistics, from the probabilities of a view's states (n,) and of pairs of blocks (blocks, blocks)."""
    steps, n_ops, n_bins = policy.effects.steps.shape
    ops, levels = np.zeros((steps, n_ops)), np.zeros((steps, n_ops, n_bins))
    own = np.eye(n_ops)[states.ops[states.starts[:-1]]]  # (blocks, S, O)
    for s in range(steps):
        place = states.ops[:, s] * n_bins + states.bins[:, s]
        levels[s] = np.bincount(place, view, n_ops * n_bins).reshape(n_ops, n_bins)
    ops = levels.sum(2)
    levels[:, ~policy.space.has_magnitude] = 0
    pairs = np.einsum("iso,ij,jtq->stoq", own, blocks, own, optimize=True)
    prior = np.bincount(states.ops.ravel(), np.repeat(states.p, steps), n_ops) / steps
    return TiltedStatistics(_coarse(policy.space), np.stack([ops, ops]), np.stack([levels, levels]), pairs, 0.0, prior)


def _by_draws(policy: TiltedPolicy, generator: np.random.Generator) -> TiltedStatistics:
    draws = int(_DRAWS * min(1.0, policy.accepted / _READILY))
    drawn = policy.sample(draws, generator)
    prior = policy.prior.sample(draws, generator).applied(generator)
    return _of_draws(policy, drawn, np.ones(draws), prior)


def _by_plans(policy: TiltedPolicy, effects: PlacementEffects, generator: np.random.Generator) -> TiltedStatistics:
    drawn = Plan.draw(policy.prior, _PLANS, effects.image_size, generator, effects.placement)
    places = placement_bins(drawn)
    tilted = np.exp(policy.log_weights(drawn.ops, drawn.levels, places)[:, 0])
    weights = policy.keep + (1 - policy.keep) * tilted / tilted.mean()
    cells, size = (FIRSTS + places).ravel(), int(COUNTS.sum())
    by_policy = np.bincount(cells, np.repeat(weights, len(COUNTS)), size) / weights.sum()
    by_prior = np.bincount(cells, minlength=size) / _PLANS
    return _of_draws(policy, drawn, weights, drawn)._replace(placement=PlacementStatistics(by_policy, by_prior))


def _of_draws(
    policy: TiltedPolicy, drawn: Subpolicies | Plan, weights: Numbers, prior: Subpolicies | Plan
) -> TiltedStatistics:
    """The statistics of weighted draws, beside those of the prior's."""
    steps, n_ops, n_bins = policy.effects.steps.shape
    ops, bins = drawn.ops.astype(np.int64), level_bins(policy.space.levels)[drawn.levels]
    levels, pairs = np.zeros((2, steps, n_ops, n_bins)), np.zeros((steps, steps, n_ops, n_ops))
    for v, s in np.ndindex(2, steps):
        levels[v, s] = np.bincount(ops[:, v, s] * n_bins + bins[:, v, s], weights, n_ops * n_bins).reshape(n_ops, -1)
    for s, t in np.ndindex(steps, steps):
        pairs[s, t] = np.bincount(ops[:, 0, s] * n_ops + ops[:, 1, t], weights, n_ops**2).reshape(n_ops, -1)
    levels, pairs = levels / weights.sum(), pairs / weights.sum()
    shares = levels.sum(3)
    levels[:, :, ~policy.space.has_magnitude] = 0
    if not policy.cooperative:
        pairs = shares[0][:, None, :, None] * shares[1][None, :, None, :]
    independent = weights.sum() ** 2 / (weights**2).sum()  # draws of the policy that tell as much
    error = float(np.sqrt(np.maximum(shares * (1 - shares), 0) / independent).max())
    by_prior = np.bincount(prior.ops.ravel(), minlength=n_ops) / prior.ops.size
    return TiltedStatistics(_coarse(policy.space), shares, levels, pairs, error, by_prior)


def _coarse(space: Space) -> Space:
    """The same space with a level for each bin."""
    bins = int(level_bins(space.levels)[-1]) + 1
    levels = np.rint(np.arange(bins) * (space.levels - 1) / (bins - 1)).astype(np.int64)
    return Space(space.name, space.ops, space.values[:, levels])
