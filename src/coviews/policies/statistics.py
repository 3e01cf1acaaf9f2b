"""What a policy prefers: probabilities of operations and levels, and how much one view knows of the other.

A step's distribution depends on its history: the operations and levels before it. Histories are enumerated with their
exact probabilities while there are few enough of them; from then on they are sampled. The statistics are the mean of
the exact distributions after these histories, so only the histories are random. `tilted_statistics.py` has the same for
policies from a table.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError
from coviews.ops.space import Space
from coviews.policies.blas_threads import one_blas_thread
from coviews.policies.learned import AnyPolicy
from coviews.policies.lstm import Array
from coviews.policies.network import NextStep, PolicyNetwork, Sequences
from coviews.policies.tilted import TiltedPolicy
from coviews.policies.tilted_statistics import PlacementStatistics, tilted_statistics

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]

_WORK = 32_000 * 64  # histories times units of the LSTM: about a tenth of a second for a policy
_SMALLEST = 1e-200  # sums of exponentials below it have lost their precision
_FEWEST = 4_000  # histories, however many units the LSTM has


@dataclass(frozen=True, eq=False)
class PolicyStatistics:
    """Probabilities of what is drawn; each step is then applied with the policy's `p`."""

    space: Space
    ops: Numbers  # (V, S, O), of each operation in each step of each view
    levels: Numbers  # (V, S, O, L), of each operation and level; zero for operations without a magnitude
    pairs: Numbers  # (S, S, O, O), of an operation in a step of view 1 and one in a step of view 2
    uncertainty: Numbers  # (V, S), bits: the mean entropy of the operation, given all before it; NaN from a table
    error: float  # the largest standard error of `ops`; 0 where all is exact
    prior: Numbers  # (O,), of each operation in a step before anything was learned
    placement: PlacementStatistics | None = None  # of a policy that chooses crops

    @property
    def mean_ops(self) -> Numbers:
        """(V, O): of each operation in a step of a view, whichever step."""
        return self.ops.mean(1)

    @property
    def preference(self) -> Numbers:
        """(O,): how much more often than in the prior each operation is drawn; 1 where the prior never draws it."""
        return np.divide(self.ops.mean((0, 1)), self.prior, out=np.ones_like(self.prior), where=self.prior > 0)

    @property
    def co_occurrence(self) -> Numbers:
        """(O, O): of an operation in view 1 and another in view 2, whichever their steps."""
        return self.pairs.mean((0, 1))

    @property
    def lift(self) -> Numbers:
        """(O, O): how much more often two operations occur together than if the views were independent."""
        expected = np.outer(*self.mean_ops[:2])
        return np.divide(self.co_occurrence, expected, out=np.ones_like(expected), where=expected > 0)

    @property
    def information(self) -> float:
        """Bits that an operation of view 1 tells of one of view 2: the mean over the pairs of their steps."""
        pairs = self.pairs
        expected = pairs.sum(3, keepdims=True) * pairs.sum(2, keepdims=True)  # (S, S, O, O)
        ratio = np.divide(pairs, expected, out=np.ones_like(pairs), where=pairs > 0)
        return max(0.0, float((pairs * np.log2(ratio)).sum((2, 3)).mean()))

    @property
    def entropy(self) -> Numbers:
        """(V, S), bits: of the operation in each step."""
        return _entropy(self.ops)

    @property
    def level_given_op(self) -> Numbers:
        """(O, L): of each level of an operation, over all views and steps; NaN where there is no magnitude."""
        together = self.levels.sum((0, 1))
        total = together.sum(1, keepdims=True)
        return np.divide(together, total, out=np.full_like(together, np.nan), where=total > 0)


def policy_statistics(policy: AnyPolicy, generator: np.random.Generator | None = None) -> PolicyStatistics:
    """The statistics of a policy; the generator is used only where histories are too many to be enumerated."""
    generator = generator if generator is not None else np.random.default_rng(0)
    if isinstance(policy, TiltedPolicy):
        tilted = tilted_statistics(policy, generator)
        unknown = np.full(tilted.ops.shape[:2], np.nan)
        return PolicyStatistics(
            tilted.space, tilted.ops, tilted.levels, tilted.pairs, unknown, tilted.error, tilted.prior, tilted.placement
        )
    network = policy.network
    views, steps, n_ops = network.views, network.steps, network.n_ops
    length = views * steps if network.cooperative else steps
    ops, errors = np.zeros((2, length, n_ops))
    levels = np.zeros((length, n_ops, network.n_levels))
    uncertainty = np.zeros(length)
    pairs = np.zeros((steps, steps, n_ops, n_ops))
    with one_blas_thread(), np.errstate(all="ignore"):  # weights that are too large are an error below
        histories = _Histories(network, generator)
        for t in range(length):
            p, q = histories.next_step()  # (n, O), and the levels given the operation
            weights = histories.weights[:, None]
            weighted = weights * p
            ops[t] = weighted.sum(0)
            levels[t] = np.where(network.has_magnitude[:, None], q.sums(weighted), 0.0)
            if not (np.isfinite(ops[t]).all() and np.isfinite(levels[t]).all()):
                raise CoviewsError("the policy's weights are so large that they give no probabilities")
            if histories.sampled:
                # an upper limit: it includes the spread between histories that were enumerated
                errors[t] = np.sqrt((weights**2 * (p - ops[t]) ** 2).sum(0))
            uncertainty[t] = histories.weights @ _entropy(p)
            if steps <= t < 2 * steps:
                for s in range(steps):
                    pairs[s, t - steps] = _sums(weighted, histories.ops[:, s], n_ops)
            if t < length - 1:
                histories.extend(p, q)
    if not network.cooperative:  # all views are drawn alike, each from the zero state
        pairs = ops[:, None, :, None] * ops[None, :, None, :]
        ops, levels, uncertainty = (np.tile(a, (views, *[1] * (a.ndim - 1))) for a in (ops, levels, uncertainty))
    shape = (views, steps)
    return PolicyStatistics(
        policy.space,
        ops.reshape(*shape, n_ops),
        levels.reshape(*shape, n_ops, -1),
        pairs,
        uncertainty.reshape(shape),
        float(errors.max()),
        np.full(n_ops, 1 / n_ops),
    )


def mixed_statistics(parts: Sequence[PolicyStatistics], weights: Sequence[float]) -> PolicyStatistics:
    """The statistics of a queue, in which one policy makes both views of an image.

    Views that are independent under each policy may therefore depend on each other under the mixture.
    """
    if not parts or len(parts) != len(weights) or any(part.space != parts[0].space for part in parts):
        raise CoviewsError("a mixture needs one policy or more of the same space, and a weight for each")
    w = np.asarray(weights, np.float64) / np.sum(weights)

    def mean(name: str) -> Numbers:
        return np.tensordot(w, np.stack([getattr(part, name) for part in parts]), 1)

    error = float(np.sqrt(np.sum((w * [part.error for part in parts]) ** 2)))
    return PolicyStatistics(
        parts[0].space, mean("ops"), mean("levels"), mean("pairs"), mean("uncertainty"), error, mean("prior")
    )


class _LevelDistribution:
    """The distribution of the level, given a history and the operation."""

    def __init__(self, logits: NextStep) -> None:
        self._by_history, self._by_op = logits.level, logits.level_by_op  # (n, L), (O, L)

    def given(self, histories: Whole, ops: Whole) -> Numbers:
        """(m, L): for some histories and operations."""
        exponentials = _exponentials(self._by_history[histories] + self._by_op[ops])
        return exponentials / exponentials.sum(1, keepdims=True)

    def sums(self, weights: Numbers) -> Numbers:
        """(O, L): of each operation, added up over the histories with weights (n, O)."""
        # The exponential of a sum is a product. So the array (n, O, L) of all probabilities is never computed.
        by_history, by_op = _exponentials(self._by_history), _exponentials(self._by_op)
        totals = by_history @ by_op.T  # (n, O)
        if totals.min() > _SMALLEST:
            return (weights / totals).T @ by_history * by_op
        every = np.arange(len(weights))
        return np.stack([w @ self.given(every, np.full_like(every, op)) for op, w in enumerate(weights.T)])


class _Histories:
    """Histories of growing length with their weights."""

    def __init__(self, network: PolicyNetwork, generator: np.random.Generator) -> None:
        self._generator, self._n_levels = generator, network.n_levels
        self._counts = network.counts
        self._limit = max(_FEWEST, _WORK // network.settings.hidden)
        self._sequences = Sequences(network)
        self.ops: Whole = np.empty((1, 0), np.int64)  # (n, t), the operations so far
        self.weights: Numbers = np.ones(1)  # (n,), they sum to 1
        self.sampled = False  # whether the histories are a sample

    def next_step(self) -> tuple[Numbers, _LevelDistribution]:
        """The distribution of the next operation (n, O), and of its level given the operation."""
        logits = self._sequences.logits()
        p = _exponentials(logits.op)
        p /= p.sum(1, keepdims=True)
        return p, _LevelDistribution(logits)

    def extend(self, p: Numbers, q: _LevelDistribution) -> None:
        """Add a step to the histories: every possible one, or a sample where those would be too many."""
        n, n_ops = p.shape
        choices = np.where(self._counts, self._n_levels, 1)  # levels that the network can tell apart
        if n * choices.sum() <= self._limit and not self.sampled:
            ops = np.repeat(np.arange(n_ops), choices)
            levels = np.concatenate([np.arange(c) for c in choices])
            parents, op_p = np.repeat(np.arange(n), len(ops)), p[:, ops].ravel()
            ops, levels = np.tile(ops, n), np.tile(levels, n)
            level_p = q.given(parents, ops)[np.arange(len(ops)), levels]
            weights = self.weights[parents] * op_p * np.where(self._counts[ops], level_p, 1.0)
        else:
            # The likelier a history, the more often it is continued: none of them then has a large weight.
            copies = np.ones(n, np.int64) if self.sampled else np.ceil(self.weights * self._limit / 2).astype(np.int64)
            parents = np.repeat(np.arange(n), copies)
            weights = (self.weights / np.maximum(copies, 1))[parents]
            ops = self._draw(p[parents])
            levels = self._draw(q.given(parents, ops)) * self._counts[ops]
            self.sampled = True
        self.weights = weights
        self.ops = np.concatenate([self.ops[parents], ops[:, None]], 1)
        self._sequences.select(parents)
        self._sequences.append(ops, levels)

    def _draw(self, p: Numbers) -> Whole:
        cumulative = np.cumsum(p, 1)
        return (cumulative[:, :-1] < self._generator.random((len(p), 1)) * cumulative[:, -1:]).sum(1)


def _exponentials(logits: Array) -> Numbers:
    """Of each row, so that the largest is 1."""
    shifted = (logits - logits.max(-1, keepdims=True)).astype(np.float64)
    return np.exp(shifted, out=shifted)


def _entropy(p: Numbers) -> Numbers:
    return -(p * np.log2(np.where(p > 0, p, 1.0))).sum(-1)


def _sums(values: Numbers, group: Whole, groups: int) -> Numbers:
    """The rows of `values` (n, k) added up by group (groups, k)."""
    return np.eye(groups)[group].T @ values
