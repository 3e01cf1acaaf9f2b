"""Contrastive losses, one number for each pair of views."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def info_nce(z1: Tensor, z2: Tensor, temperature: float = 0.5) -> Tensor:
    """InfoNCE of each pair in the batch, the mean of both directions: (N, D), (N, D) -> (N,).

    Each view must find its partner among the 2N - 1 other views of the batch, by cosine similarity.
    """
    n = len(z1)
    with torch.autocast(z1.device.type, enabled=False):  # it would round the product of float32, too
        z = F.normalize(torch.cat([z1, z2]), dim=1)  # (2N, D)
        logits = z @ z.T / temperature  # (2N, 2N)
    itself = torch.eye(2 * n, dtype=torch.bool, device=z.device)
    all_others = logits.masked_fill(itself, -torch.inf).logsumexp(1)  # (2N,)
    partner = logits.diagonal(n)  # (N,), the same in both directions
    return (all_others[:n] + all_others[n:]) / 2 - partner


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
