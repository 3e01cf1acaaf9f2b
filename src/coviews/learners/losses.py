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
    z = F.normalize(torch.cat([z1, z2]), dim=1)  # (2N, D)
    logits = z @ z.T / temperature  # (2N, 2N)
    itself = torch.eye(2 * n, dtype=torch.bool, device=z.device)
    all_others = logits.masked_fill(itself, -torch.inf).logsumexp(1)  # (2N,)
    partner = logits.diagonal(n)  # (N,), the same in both directions
    return (all_others[:n] + all_others[n:]) / 2 - partner


def chance_loss(pairs: int) -> float:
    """InfoNCE of a pair that lost its image: its partner is as far away as any of the 2N - 2 others."""
    return math.log(2 * pairs - 1)
