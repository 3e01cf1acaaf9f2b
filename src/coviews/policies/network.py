"""The policy network: an LSTM that draws, step by step, an operation and then its level."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from coviews.errors import CoviewsError
from coviews.policies import lstm
from coviews.policies.blas_threads import one_blas_thread
from coviews.policies.lstm import Array

LONGEST = 256  # steps in all: beyond it, a number in a call or in a file is surely a mistake
_WIDEST = 1_024  # units; the author's network has 512


@dataclass(frozen=True)
class NetworkSettings:
    """The size of the network, and what its magnitude head sees."""

    hidden: int = 64
    """Units of the LSTM."""
    embedding: int = 32
    """Length of an operation's embedding, and of a level's."""
    conditioned: bool = True
    """The level is drawn knowing the operation."""
    masked: bool = True
    """Levels of operations without a magnitude count neither in the probability nor in the entropy."""

    def __post_init__(self) -> None:
        for name in ("hidden", "embedding"):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= _WIDEST:
                raise CoviewsError(
                    f"the policy network's {name} must be a whole number from 1 to {_WIDEST:,}, not {value!r}"
                )
        for name in ("conditioned", "masked"):
            if type(getattr(self, name)) is not bool:
                raise CoviewsError(f"the policy network's {name} must be true or false, not {getattr(self, name)!r}")

    @classmethod
    def paper(cls) -> "NetworkSettings":
        """The author's network."""
        return cls(hidden=512, embedding=128, conditioned=False, masked=False)


class Likelihood(NamedTuple):
    """How likely given subpolicies are."""

    log_prob: Array  # (n,), of all operations and levels of all views together
    entropy: Array  # (n,), the mean over the steps of the operation's entropy plus the level's
    gradient: Callable[[ArrayLike, ArrayLike], Array]
    """From the derivatives by log_prob and entropy, each a number or (n,), to that by `network.flat`."""


class PolicyNetwork:
    """A distribution over subpolicies; it knows sizes and masks, not what an operation is.

    cooperative: all views are one sequence, so that each is drawn knowing those before it. Otherwise each view
    is a sequence of its own, from the zero state and with the same weights: no view knows of another.
    """

    def __init__(
        self,
        n_ops: int,
        n_levels: int,
        has_magnitude: NDArray[np.bool_],
        generator: np.random.Generator,
        *,
        views: int = 2,
        steps: int = 2,
        cooperative: bool = True,
        settings: NetworkSettings | None = None,
    ) -> None:
        if type(views) is not int or views < 2:
            raise CoviewsError(f"a policy needs two views or more, not {views!r}")
        if type(steps) is not int or steps < 1:
            raise CoviewsError(f"a view needs one step or more, not {steps!r}")
        if views * steps > LONGEST:
            raise CoviewsError(f"{views} views of {steps} steps are more than {LONGEST} steps in all")
        if n_ops < 1 or n_levels < 1:
            raise CoviewsError(f"{n_ops} operations at {n_levels} levels leave nothing to draw")
        if np.shape(has_magnitude) != (n_ops,):
            raise CoviewsError(f"{n_ops} operations, but magnitude flags of shape {np.shape(has_magnitude)}")
        self.settings = settings or NetworkSettings()
        self.n_ops, self.n_levels, self.views, self.steps = n_ops, n_levels, views, steps
        self.cooperative = cooperative
        self._length = views * steps if cooperative else steps  # T, of one sequence
        self.has_magnitude = np.array(has_magnitude, bool)
        self.counts = self.has_magnitude | (not self.settings.masked)  # (n_ops,), whose level counts
        self._one_hot = np.eye(n_ops + 1 + n_levels + 1, dtype=np.float32)  # (K, K), each kind ends with its start
        self._shapes = weight_shapes(self.settings, n_ops, n_levels)
        self.flat: Array = self._initial(generator)  # all weights in one row: a step of Adam is one formula

    def _initial(self, generator: np.random.Generator) -> Array:
        """Random where they must differ, small in the heads, so that the policy starts close to uniform."""
        even = 1.0 / math.sqrt(self.settings.hidden)
        scale = {"op_embedding": 1.0, "level_embedding": 1.0, "input": even, "recurrent": even}
        scale |= {"op_head": 0.1 * even, "level_head": 0.1 * even}
        flat = np.zeros(sum(map(math.prod, self._shapes.values())), np.float32)
        for name, weight in self.split(flat).items():
            if name in scale:
                weight[:] = scale[name] * generator.standard_normal(weight.shape)
        return flat

    def astype(self, dtype: DTypeLike) -> "PolicyNetwork":
        """A copy that computes in another precision."""
        network = copy.copy(self)
        network.flat, network._one_hot = self.flat.astype(dtype), self._one_hot.astype(dtype)
        return network

    def split(self, flat: Array) -> dict[str, Array]:
        """Weights by name, as views into `flat`: the network's own, or a gradient."""
        parts, start = {}, 0
        for name, shape in self._shapes.items():
            end = start + math.prod(shape)
            parts[name] = flat[start:end].reshape(shape)
            start = end
        return parts

    def sample(self, n: int, generator: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw operations and levels, each (n, V, S), for n images."""
        uniform = generator.random((n, self.views * self.steps, 2)).reshape(-1, self._length, 2)  # (m, T, 2)
        ops, levels = np.empty((2, *uniform.shape[:2]), np.int64)
        with one_blas_thread():
            sequences = Sequences(self, len(uniform))
            for t in range(self._length):
                ops[:, t] = sequences.op_choice().draw(uniform[:, t, 0])
                # where the level has no effect it is 0, so that what does the same is the same
                level = sequences.level_choice(self._one_hot[ops[:, t], : self.n_ops])
                levels[:, t] = level.draw(uniform[:, t, 1]) * self.counts[ops[:, t]]
                if t < self._length - 1:
                    sequences.append(ops[:, t], levels[:, t])
        return ops.reshape(n, self.views, self.steps), levels.reshape(n, self.views, self.steps)

    def evaluate(self, ops: NDArray[np.integer], levels: NDArray[np.integer]) -> Likelihood:
        """How likely these operations and levels, each (n, V, S), are: all steps at once, given those before.

        The gradient is that at the present weights: ask for it before they change.
        """
        if ops.shape[1:] != (self.views, self.steps) or levels.shape != ops.shape:
            raise CoviewsError(
                f"the policy has {self.views} views of {self.steps} steps, which operations of shape {ops.shape} "
                f"with levels of shape {levels.shape} do not fit"
            )
        n, length, h = len(ops), self._length, self.settings.hidden
        m = n * self.views * self.steps // length  # sequences: n or, where views are apart, n * V
        history = np.empty((2, length + 1, m), np.int64)  # the start, then the drawn operations and levels
        history[:, 0] = [[self.n_ops], [self.n_levels]]
        history[0, 1:] = ops.reshape(m, length).T
        counts = self.counts[history[0, 1:]]
        np.multiply(levels.reshape(m, length).T, counts, out=history[1, 1:])
        tokens = self.tokens(*history.reshape(2, -1))  # ((T + 1) * m, K)
        inputs, outputs = tokens[:-m], tokens[m:]
        op_outputs, level_outputs = outputs[:, : self.n_ops], outputs[:, self.n_ops + 1 : -1]
        counts = counts.reshape(-1, 1).astype(self.flat.dtype)

        w = self.split(self.flat)
        states = lstm.forward((inputs @ _input_table(w)).reshape(length, m, 4 * h), w["recurrent"])
        hidden = states.hidden[1:].reshape(-1, h)
        head_input = _level_head_input(w, hidden, op_outputs)
        op, level = _Choice(_op_logits(w, hidden)), _Choice(_level_logits(w, head_input))
        log_prob = op.log_prob(op_outputs) + counts * level.log_prob(level_outputs)
        entropy = op.entropy + counts * level.entropy

        def per_step(d: ArrayLike) -> Array:
            """One number for each image -> one for each step of its sequences (T * m, 1)."""
            wide = np.empty((length, n, m // n), self.flat.dtype)
            wide[:] = np.reshape(d, (-1, 1))
            return wide.reshape(-1, 1)

        def gradient(d_log_prob: ArrayLike, d_entropy: ArrayLike) -> Array:
            flat = np.empty_like(self.flat)
            d = self.split(flat)
            d_log, d_ent = per_step(d_log_prob), per_step(d_entropy) / (self.views * self.steps)
            d_op = op.gradient(op_outputs, d_log, d_ent)
            d_level = level.gradient(level_outputs, d_log * counts, d_ent * counts)
            np.matmul(hidden.T, d_op, out=d["op_head"])
            np.matmul(head_input.T, d_level, out=d["level_head"])
            d_op.sum(0, out=d["op_bias"])
            d_level.sum(0, out=d["level_bias"])
            d_hidden = d_level @ w["level_head"].T
            if "drawn_op" in d:
                np.matmul(op_outputs.T, d_hidden, out=d["drawn_op"])
            d_hidden += d_op @ w["op_head"].T
            d_gates, d["recurrent"][:] = lstm.backward(states, w["recurrent"], d_hidden.reshape(length, m, h))
            _write_input_gradient(w, inputs.T @ d_gates.reshape(-1, 4 * h), d)
            return flat

        return Likelihood(
            log_prob.reshape(length, n, -1).sum((0, 2)), entropy.reshape(length, n, -1).mean((0, 2)), gradient
        )

    def tokens(self, ops: NDArray[np.int64], levels: NDArray[np.int64]) -> Array:
        """What the network reads of a step: the one-hot of its operation and of its level side by side (.., K)."""
        tokens = self._one_hot[ops]
        tokens += self._one_hot[self.n_ops + 1 + levels]
        return tokens


class NextStep(NamedTuple):
    """Logits of the next step of m sequences."""

    op: Array  # (m, O)
    level: Array  # (m, L), a part of the level's logits: to be added to the row of the operation in `level_by_op`
    level_by_op: Array  # (O, L); zeros where the level is drawn without knowing the operation


class Sequences:
    """Sequences that grow step by step, and what the network expects of the next step of each."""

    def __init__(self, network: PolicyNetwork, m: int = 1) -> None:
        """Begin m sequences, which have the start's token only."""
        self._network, self._weights = network, network.split(network.flat)
        self._table = _input_table(self._weights)
        self._hidden, self._cells = np.zeros((2, m, network.settings.hidden), network.flat.dtype)
        self.append(np.full(m, network.n_ops), np.full(m, network.n_levels))

    def append(self, ops: NDArray[np.int64], levels: NDArray[np.int64]) -> None:
        """Add a step to each sequence: its operation and its level, each (m,)."""
        gates = self._network.tokens(ops, levels) @ self._table
        gates += self._hidden @ self._weights["recurrent"]
        cells, squashed = np.empty((2, *self._cells.shape), self._cells.dtype)
        lstm.step(gates, self._cells, cells, squashed, self._hidden)
        self._cells = cells

    def select(self, indices: NDArray[np.int64]) -> None:
        """Go on with these sequences, of which some may be there several times."""
        self._hidden, self._cells = self._hidden[indices], self._cells[indices]

    def op_choice(self) -> "_Choice":
        """The distribution of the next operation."""
        return _Choice(_op_logits(self._weights, self._hidden))

    def level_choice(self, drawn_op: Array) -> "_Choice":
        """The distribution of the next level, given the operation as one-hot rows (m, O)."""
        w = self._weights
        return _Choice(_level_logits(w, _level_head_input(w, self._hidden, drawn_op)))

    def logits(self) -> NextStep:
        """The logits of everything that can come next."""
        w = self._weights
        unconditioned = np.zeros((self._network.n_ops, self._network.n_levels), self._hidden.dtype)
        by_op = w["drawn_op"] @ w["level_head"] if "drawn_op" in w else unconditioned
        return NextStep(_op_logits(w, self._hidden), _level_logits(w, self._hidden), by_op)


def weight_shapes(settings: NetworkSettings, n_ops: int, n_levels: int) -> dict[str, tuple[int, ...]]:
    """The name and the shape of every weight."""
    h, e = settings.hidden, settings.embedding
    shapes: dict[str, tuple[int, ...]] = {
        "op_embedding": (n_ops + 1, e),  # the last row stands for the start
        "level_embedding": (n_levels + 1, e),
        "input": (2 * e, 4 * h),
        "recurrent": (h, 4 * h),
        "bias": (4 * h,),
        "op_head": (h, n_ops),
        "op_bias": (n_ops,),
        "level_head": (h, n_levels),
        "level_bias": (n_levels,),
    }
    return shapes | ({"drawn_op": (n_ops, h)} if settings.conditioned else {})


def _input_table(w: dict[str, Array]) -> Array:
    """What each token adds to the gates (K, 4H): the embeddings' product with the input weights, and the bias."""
    e = w["op_embedding"].shape[1]
    return np.concatenate([w["op_embedding"] @ w["input"][:e] + w["bias"], w["level_embedding"] @ w["input"][e:]])


def _write_input_gradient(w: dict[str, Array], d_table: Array, d: dict[str, Array]) -> None:
    """Write into `d` the gradient by the embeddings, the input weights and the bias."""
    rows, e = w["op_embedding"].shape
    d_ops, d_levels = d_table[:rows], d_table[rows:]
    np.matmul(d_ops, w["input"][:e].T, out=d["op_embedding"])
    np.matmul(d_levels, w["input"][e:].T, out=d["level_embedding"])
    np.matmul(w["op_embedding"].T, d_ops, out=d["input"][:e])
    np.matmul(w["level_embedding"].T, d_levels, out=d["input"][e:])
    d_ops.sum(0, out=d["bias"])


class _Choice:
    """A categorical distribution in each of k rows."""

    def __init__(self, logits: Array) -> None:
        logits -= logits.max(1, keepdims=True)
        p = np.exp(logits)
        total = p.sum(1, keepdims=True)
        p /= total
        logits -= np.log(total)
        self.p, self.log_p = p, logits
        self.entropy = -(p * logits).sum(1, keepdims=True)  # (k, 1)

    def log_prob(self, one_hot: Array) -> Array:
        """Of what a one-hot row chooses (k, 1)."""
        return (one_hot * self.log_p).sum(1, keepdims=True)

    def gradient(self, one_hot: Array, d_log_prob: Array, d_entropy: Array) -> Array:
        """By the logits, given that by log_prob and by entropy, each (k, 1)."""
        return one_hot * d_log_prob - self.p * (d_log_prob + d_entropy * (self.log_p + self.entropy))

    def draw(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """The inverse of the cumulative distribution at (k,) numbers of 0..1."""
        cumulative = np.cumsum(self.p, axis=1, dtype=np.float64)
        # without the last column, so that no rounding leads past the end
        return (cumulative[:, :-1] < uniform[:, None] * cumulative[:, -1:]).sum(1)


def _op_logits(w: dict[str, Array], hidden: Array) -> Array:
    return hidden @ w["op_head"] + w["op_bias"]


def _level_head_input(w: dict[str, Array], hidden: Array, drawn_op: Array) -> Array:
    return hidden + drawn_op @ w["drawn_op"] if "drawn_op" in w else hidden


def _level_logits(w: dict[str, Array], head_input: Array) -> Array:
    return head_input @ w["level_head"] + w["level_bias"]
