"""What a policy prefers: probabilities of operations and levels, and how much one view knows of the other.

A step's distribution depends on the history before it, operations and levels. Histories are enumerated with their
exact probabilities for as long as there are few enough of them; from then on each is continued by draws. The exact
distributions after those histories are averaged, so that only the histories are random, never what is counted.
Policies from a table are in tilted_statistics.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError
from coviews.ops.space import Space
from coviews.policies import lstm
from coviews.policies.blas_threads import one_blas_thread
from coviews.policies.learned import AnyPolicy
from coviews.policies.network import PolicyNetwork
from coviews.policies.tilted import TiltedPolicy
from coviews.policies.tilted_statistics import tilted_statistics

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]

_WORK = 32_000 * 64  # histories times units of the LSTM that are held at once: about a third of a second
_ROWS = 1_024  # histories whose gates fit into a core's cache
_SMALLEST = 1e-200  # sum of exponentials that is trusted
_FEWEST = 4_000  # histories that are drawn where even a few cost much


@dataclass(frozen=True, eq=False)
class PolicyStatistics:
    """Probabilities of what is drawn; each step is then applied with the policy's `p`."""

    space: Space
    ops: Numbers  # (V, S, O), of each operation in each step of each view
    levels: Numbers  # (V, S, O, L), of each operation and level; zero for operations without a magnitude
    pairs: Numbers  # (S, S, O, O), of an operation in a step of view 1 and one in a step of view 2
    uncertainty: Numbers  # (V, S), bits: the mean entropy of the operation, given all before it; NaN from a table
    error: float  # the largest standard error of `ops`; 0 where all is exact

    @property
    def mean_ops(self) -> Numbers:
        """(V, O): of each operation in a step of a view, whichever step."""
        return self.ops.mean(1)

    @property
    def co_occurrence(self) -> Numbers:
        """(O, O): of an operation in view 1 and another in view 2, whichever their steps."""
        return self.pairs.mean((0, 1))

    @property
    def lift(self) -> Numbers:
        """(O, O): how much more often two operations meet than if the views knew nothing of each other."""
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
        found = tilted_statistics(policy, generator)
        unknown = np.full(found.ops.shape[:2], np.nan)
        return PolicyStatistics(found.space, found.ops, found.levels, found.pairs, unknown, found.error)
    network = policy.network
    views, steps, n_ops = network.views, network.steps, network.n_ops
    length = views * steps if network.cooperative else steps
    ops, errors = np.zeros((2, length, n_ops))
    levels = np.zeros((length, n_ops, network.n_levels))
    uncertainty = np.zeros(length)
    pairs = np.zeros((steps, steps, n_ops, n_ops))
    with one_blas_thread(), np.errstate(all="ignore"):  # what is not finite is said below
        walk = _Walk(network, generator)
        for t in range(length):
            p, q = walk.step()  # (n, O), and the levels given the operation
            weighted = walk.weights[:, None] * p
            ops[t] = weighted.sum(0)
            levels[t] = np.where(network.has_magnitude[:, None], q.sums(weighted), 0.0)
            if not (np.isfinite(ops[t]).all() and np.isfinite(levels[t]).all()):
                raise CoviewsError("the policy's weights are so large that they give no probabilities")
            if walk.drawn:
                # an upper limit: the spread between histories that were enumerated counts too
                errors[t] = np.sqrt((walk.weights[:, None] ** 2 * (p - ops[t]) ** 2).sum(0))
            uncertainty[t] = walk.weights @ _entropy(p)
            if steps <= t < 2 * steps:
                for s in range(steps):
                    pairs[s, t - steps] = _sums(weighted, walk.history[:, s], n_ops)
            if t < length - 1:
                walk.extend(p, q)
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
    )


def mixed_statistics(parts: Sequence[PolicyStatistics], weights: Sequence[float]) -> PolicyStatistics:
    """Those of a queue: for each image one policy makes both views.

    So views that are independent under each policy need not be under the mixture.
    """
    if not parts or len(parts) != len(weights) or any(part.space != parts[0].space for part in parts):
        raise CoviewsError("a mixture needs one policy or more of the same space, and a weight for each")
    w = np.asarray(weights, np.float64) / np.sum(weights)

    def mean(name: str) -> Numbers:
        return np.tensordot(w, np.stack([getattr(part, name) for part in parts]), 1)

    error = float(np.sqrt(np.sum((w * [part.error for part in parts]) ** 2)))
    return PolicyStatistics(
        parts[0].space, mean("ops"), mean("levels"), mean("pairs"), mean("uncertainty"), error=error
    )


class _Levels:
    """The distribution of the level, given a history and the operation: its logits are the sum of theirs."""

    def __init__(self, of_history: lstm.Array, of_op: lstm.Array) -> None:
        self._of_history, self._of_op = of_history, of_op  # (n, L), (O, L)

    def given(self, histories: Whole, ops: Whole) -> Numbers:
        """(m, L): for some histories and operations."""
        likely = _exponentials(self._of_history[histories] + self._of_op[ops])
        return likely / likely.sum(1, keepdims=True)

    def sums(self, weights: Numbers) -> Numbers:
        """(O, L): of each operation, added up over the histories with weights (n, O)."""
        # the exponential of a sum is a product: the table of all of them (n, O, L), most of the work, is not needed
        of_history, of_op = _exponentials(self._of_history), _exponentials(self._of_op)
        totals = of_history @ of_op.T  # (n, O)
        if totals.min() > _SMALLEST:
            return (weights / totals).T @ of_history * of_op
        every = np.arange(len(weights))
        return np.stack([w @ self.given(every, np.full_like(every, op)) for op, w in enumerate(weights.T)])


class _Walk:
    """Histories of growing length with their weights, and the state that each leaves the LSTM in."""

    def __init__(self, network: PolicyNetwork, generator: np.random.Generator) -> None:
        w = network.split(network.flat)
        e = w["op_embedding"].shape[1]
        self._generator, self._recurrent = generator, w["recurrent"]
        of_op, of_level = w["op_embedding"] @ w["input"][:e] + w["bias"], w["level_embedding"] @ w["input"][e:]
        self._input = of_op[:, None] + of_level  # (O + 1, L + 1, 4H): what a token adds to the gates
        self._op_head, self._level_head = (w["op_head"], w["op_bias"]), (w["level_head"], w["level_bias"])
        nothing = np.zeros((network.n_ops, network.n_levels), network.flat.dtype)
        self._seen = w["drawn_op"] @ w["level_head"] if "drawn_op" in w else nothing  # (O, L)
        # where the level has no effect it is 0, as in `PolicyNetwork.sample`
        self._counts = network.has_magnitude | (not network.settings.masked)
        self._most = max(_FEWEST, _WORK // network.settings.hidden)
        self._token = (np.array([network.n_ops]), np.array([network.n_levels]))  # the start
        self._hidden, self._cells = np.zeros((2, 1, network.settings.hidden), network.flat.dtype)
        self.history: Whole = np.empty((1, 0), np.int64)  # (n, t), the operations so far
        self.weights: Numbers = np.ones(1)  # (n,), they sum to 1
        self.drawn = False  # whether the histories are a sample

    def step(self) -> tuple[Numbers, _Levels]:
        """The distribution of the next operation (n, O), and of its level given the operation."""
        ops, levels = self._token
        cells, squashed, hidden = (np.empty_like(self._cells) for _ in range(3))
        for start in range(0, len(ops), _ROWS):
            rows = slice(start, start + _ROWS)
            gates = self._hidden[rows] @ self._recurrent
            gates += self._input[ops[rows], levels[rows]]
            lstm.step(gates, self._cells[rows], cells[rows], squashed[rows], hidden[rows])
        self._hidden, self._cells = hidden, cells
        p = _exponentials(hidden @ self._op_head[0] + self._op_head[1])
        p /= p.sum(1, keepdims=True)
        return p, _Levels(hidden @ self._level_head[0] + self._level_head[1], self._seen)

    def extend(self, p: Numbers, q: _Levels) -> None:
        """Add a step to the histories: every one there can be, or drawn ones where those would be too many."""
        (n, n_ops), n_levels = p.shape, self._seen.shape[1]
        choices = np.where(self._counts, n_levels, 1)  # what the network can tell apart
        if n * choices.sum() <= self._most and not self.drawn:
            ops = np.repeat(np.arange(n_ops), choices)
            levels = np.concatenate([np.arange(c) for c in choices])
            from_which, likely = np.repeat(np.arange(n), len(ops)), p[:, ops].ravel()
            ops, levels = np.tile(ops, n), np.tile(levels, n)
            chosen = q.given(from_which, ops)[np.arange(len(ops)), levels]
            weights = self.weights[from_which] * likely * np.where(self._counts[ops], chosen, 1.0)
        else:
            # the likelier a history, the more often it is continued: none of them then weighs much
            each = np.ones(n, np.int64) if self.drawn else np.ceil(self.weights * self._most / 2).astype(np.int64)
            from_which = np.repeat(np.arange(n), each)
            weights = (self.weights / np.maximum(each, 1))[from_which]
            ops = self._draw(p[from_which])
            levels = self._draw(q.given(from_which, ops)) * self._counts[ops]
            self.drawn = True
        self._token, self.weights = (ops, levels), weights
        self.history = np.concatenate([self.history[from_which], ops[:, None]], 1)
        self._hidden, self._cells = self._hidden[from_which], self._cells[from_which]

    def _draw(self, p: Numbers) -> Whole:
        cumulative = np.cumsum(p, 1)
        return (cumulative[:, :-1] < self._generator.random((len(p), 1)) * cumulative[:, -1:]).sum(1)


def _exponentials(logits: lstm.Array) -> Numbers:
    """Of each row, so that the largest is 1."""
    shifted = (logits - logits.max(-1, keepdims=True)).astype(np.float64)
    return np.exp(shifted, out=shifted)


def _entropy(p: Numbers) -> Numbers:
    return -(p * np.log2(np.where(p > 0, p, 1.0))).sum(-1)


def _sums(values: Numbers, group: Whole, groups: int) -> Numbers:
    """The rows of `values` (n, k) added up by group (groups, k)."""
    return np.eye(groups)[group].T @ values
