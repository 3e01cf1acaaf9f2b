"""A one-layer LSTM and its gradient, in NumPy.

A search takes thousands of gradient steps on a few dozen tokens each. At that size calls take longer than arithmetic,
and a call of NumPy takes a fraction of the time of one that autograd records: with the same network in torch, a whole
search takes 1.23 times as long on two threads and 1.13 times on one, the policy's own part 2.8 to 3 times
(docs/benchmarks.md). And a process that only makes views with a learned policy does not have to load torch.
"""

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


class States(NamedTuple):
    """The states of a pass over the T steps of m sequences, for the gradient."""

    gates: Array  # (T, m, 4H): the input, forget and output gates and the candidate
    hidden: Array  # (T + 1, m, H), from the zero state on
    cells: Array  # (T + 1, m, H)
    squashed: Array  # (T, m, H), tanh of the cells after each step


def step(gates: Array, cells: Array, next_cells: Array, squashed: Array, hidden: Array) -> None:
    """One step, written into the last three arguments; the nonlinearities are applied to `gates` in place."""
    h = cells.shape[1]
    scale, shift = _one_tanh(h, gates.dtype)
    gates *= scale
    np.tanh(gates, out=gates)
    gates *= scale
    gates += shift
    np.multiply(gates[:, h : 2 * h], cells, out=next_cells)
    next_cells += gates[:, :h] * gates[:, 3 * h :]
    np.tanh(next_cells, out=squashed)
    np.multiply(gates[:, 2 * h : 3 * h], squashed, out=hidden)


def forward(gates: Array, recurrent: Array) -> States:
    """All steps from the zero state.

    gates: (T, m, 4H), the part of the gates from the inputs and the bias; overwritten.
    recurrent: (H, 4H).
    """
    steps, m, h = len(gates), gates.shape[1], len(recurrent)
    hidden, cells = np.zeros((2, steps + 1, m, h), gates.dtype)
    squashed = np.empty((steps, m, h), gates.dtype)
    for t in range(steps):
        if t:
            gates[t] += hidden[t] @ recurrent
        step(gates[t], cells[t], cells[t + 1], squashed[t], hidden[t + 1])
    return States(gates, hidden, cells, squashed)


def backward(states: States, recurrent: Array, d_hidden: Array) -> tuple[Array, Array]:
    """The gradient by the gates before their nonlinearity (T, m, 4H) and by `recurrent`.

    d_hidden: (T, m, H), the gradient by the hidden state after each step.
    """
    gates, hidden, cells, squashed = states
    steps, m, h = squashed.shape
    i, f, o, g = (gates[:, :, k * h : (k + 1) * h] for k in range(4))
    slope = 1.0 - gates  # of a sigmoid s: (1 - s) s; of a tanh s: (1 - s) (1 + s)
    slope[:, :, : 3 * h] *= gates[:, :, : 3 * h]
    slope[:, :, 3 * h :] *= 1.0 + g
    into_cell = o * (1.0 - squashed * squashed)
    d_gates = np.empty_like(gates)
    d_cell = np.zeros((m, h), gates.dtype)
    for t in reversed(range(steps)):
        d = d_hidden[t] if t == steps - 1 else d_hidden[t] + d_gates[t + 1] @ recurrent.T
        d_cell += d * into_cell[t]
        np.multiply(d_cell, g[t], out=d_gates[t, :, :h])
        np.multiply(d_cell, cells[t], out=d_gates[t, :, h : 2 * h])
        np.multiply(d, squashed[t], out=d_gates[t, :, 2 * h : 3 * h])
        np.multiply(d_cell, i[t], out=d_gates[t, :, 3 * h :])
        d_gates[t] *= slope[t]
        d_cell *= f[t]
    return d_gates, hidden[1:-1].reshape(-1, h).T @ d_gates[1:].reshape(-1, 4 * h)


@functools.cache
def _one_tanh(h: int, dtype: np.dtype) -> tuple[Array, Array]:
    """Scale and shift that let one tanh compute all four gates: sigmoid(x) = tanh(x / 2) / 2 + 1 / 2."""
    sigmoids_and_tanh = [3 * h, h]
    scale = np.repeat(np.array([0.5, 1.0], dtype), sigmoids_and_tanh)
    shift = np.repeat(np.array([0.5, 0.0], dtype), sigmoids_and_tanh)
    return scale, shift
