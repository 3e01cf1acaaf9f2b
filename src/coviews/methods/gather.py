"""One batch that lies on several processes, seen whole by each of them."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def ranks() -> int:
    """How many processes share the batch."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def gathered(x: Tensor) -> Tensor:
    """Every process's rows in the order of the processes: (n, ...) -> (N, ...), the same on all, with gradient.

    All processes must call it, with the same shape. The gradient is summed over the processes: where each takes the
    mean loss of the whole batch, and DDP averages the gradients, one process with the whole batch gets the same.
    """
    return _Gather.apply(x) if ranks() > 1 else x


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(ranks())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        total = gradient.contiguous().clone()  # it may be shared with others
        dist.all_reduce(total)
        return total.chunk(ranks())[dist.get_rank()]
