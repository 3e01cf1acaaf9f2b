"""A slow copy of a module, which follows it step by step."""

import copy

import torch
from torch import nn


def slow_copy(module: nn.Module) -> nn.Module:
    """A copy that no optimiser moves."""
    return copy.deepcopy(module).requires_grad_(False)


@torch.no_grad()
def move_towards(slow: nn.Module, fast: nn.Module, momentum: float) -> None:
    """Set slow = momentum * slow + (1 - momentum) * fast; running statistics stay each module's own."""
    for s, f in zip(slow.parameters(), fast.parameters(), strict=True):
        s.lerp_(f, 1 - momentum)
