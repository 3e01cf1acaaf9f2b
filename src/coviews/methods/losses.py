"""Contrastive losses, one number for each pair of views."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from coviews.errors import CoviewsError

BLOCK = 1 << 24  # similarities that are in memory at a time: 64 MB


def info_nce(z1: Tensor, z2: Tensor, temperature: float = 0.5) -> Tensor:
    """InfoNCE of each pair in the batch, the mean of both directions: (N, D), (N, D) -> (N,).

    Each view must find its partner among the 2N - 1 other views of the batch, by cosine similarity. Above 2,048 pairs
    the similarities are computed in blocks, so that memory grows with N and not with its square.
    """
    _check_projections(z1, z2)
    n = len(z1)
    with torch.autocast(z1.device.type, enabled=False):  # it would round the product of float32, too
        z = F.normalize(torch.cat([z1, z2]), dim=1)  # (2N, D)
        if 4 * n * n > BLOCK:
            all_others: Tensor = _OthersInBlocks.apply(z, temperature)  # (2N,)
            partner = cosine(z[:n], z[n:]) / temperature  # (N,), the same in both directions
        else:
            logits = z @ z.T / temperature  # (2N, 2N)
            all_others, partner = _others(logits, 0), logits.diagonal(n)
    return (all_others[:n] + all_others[n:]) / 2 - partner


def _check_projections(z1: Any, z2: Any) -> None:
    for z in (z1, z2):
        if not isinstance(z, Tensor):
            raise CoviewsError(f"the loss compares tensors (N, D), not {type(z).__name__}: take the features out of it")
    if z1.ndim != 2 or z1.shape != z2.shape:
        raise CoviewsError(f"the loss compares two tensors of one shape (N, D), not {(*z1.shape,)} and {(*z2.shape,)}")


def _others(logits: Tensor, first: int) -> Tensor:
    """The logarithm of the sum of exponentials of each row without its own view: (R, 2N) -> (R,).

    first: the view of the first row.
    """
    itself = torch.eye(*logits.shape, dtype=torch.bool, device=logits.device).roll(first, 1)
    return logits.masked_fill(itself, -torch.inf).logsumexp(1)


class _OthersInBlocks(torch.autograd.Function):
    """The same from unit vectors (2N, D), a block of rows at a time; the way back computes each block again."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, temperature: float) -> Tensor:
        sums = [_others(rows @ z.T / temperature, first) for first, rows in _blocks(z)]
        ctx.temperature = temperature
        ctx.save_for_backward(z, torch.cat(sums))
        return torch.cat(sums)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        z, sums = ctx.saved_tensors
        total = torch.zeros_like(z)
        with torch.autocast(z.device.type, enabled=False):
            for first, rows in _blocks(z):
                block = slice(first, first + len(rows))
                shares = (rows @ z.T / ctx.temperature - sums[block, None]).exp_()  # of each view in its row's sum
                shares[:, block].fill_diagonal_(0)  # none has a share in its own
                shares *= gradient[block, None]
                total[block] += shares @ z
                total += shares.T @ rows
        return total / ctx.temperature, None


def _blocks(z: Tensor) -> Iterator[tuple[int, Tensor]]:
    """The rows in blocks whose products with all rows have at most BLOCK numbers, each with its first row's index."""
    count = max(1, BLOCK // len(z))
    for first in range(0, len(z), count):
        yield first, z[first : first + count]


def chance_loss(pairs: int) -> float:
    """InfoNCE of a pair that lost its image: its partner is as far away as any of the 2N - 2 others."""
    return math.log(2 * pairs - 1)


def bank_nce(queries: Tensor, keys: Tensor, bank: Tensor, temperature: float = 0.1) -> Tensor:
    """InfoNCE of each query, which must find its key among those of a bank: (N, D), (N, D), (K, D) -> (N,).

    All of them are unit vectors.
    """
    with torch.autocast(queries.device.type, enabled=False):
        partner = cosine(queries, keys) / temperature  # (N,)
        others = (queries @ bank.T / temperature).logsumexp(1)  # (N,)
    return torch.logaddexp(partner, others) - partner


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """The cosine of each pair of unit vectors: (N, D), (N, D) -> (N,)."""
    return (a * b).sum(1)
