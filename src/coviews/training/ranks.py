"""The work of several processes on one batch: what all must agree on, and the encoder's passes shared among them."""

from typing import TypeVar

import torch
from lightning_fabric import Fabric
from torch import Tensor

from coviews.encoders.frozen import evaluating
from coviews.methods.gather import gathered
from coviews.methods.method import Method

T = TypeVar("T")


class Ranks:
    """The processes of a run; one is enough."""

    def __init__(self, fabric: Fabric, method: Method) -> None:
        self.fabric, self.method = fabric, method
        self.rank, self.count = fabric.global_rank, fabric.world_size

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on any process: all must do the same."""
        if self.count == 1:
            return flag
        flags = torch.tensor([float(flag)], device=self.fabric.device)
        return bool(gathered(flags).any())

    def same(self, value: T) -> T:
        """The first process's value, to the last bit, on all."""
        return self.fabric.broadcast(value)

    def all_of(self, value: T) -> list[T]:
        """The values of all processes, on all."""
        values = [value] * self.count
        if self.count > 1:
            torch.distributed.all_gather_object(values, value)
        return values

    def share_buffers(self) -> None:
        """Give all processes the first one's BatchNorm statistics, which are those of the checkpoint."""
        if self.count > 1:
            for buffer in self.method.buffers():
                torch.distributed.broadcast(buffer, 0)

    def pair_losses(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The loss of each pair of a search's batch, the encoder's work shared among the processes."""
        share = len(x1) // self.count
        even = len(x1) % self.count == 0
        mine = slice(self.rank * share, (self.rank + 1) * share) if even else slice(None)
        with evaluating(self.method), self.fabric.autocast():
            halves = [e.chunk(2) for e in self.method.embed(torch.cat([x1[mine], x2[mine]]))]
            one, two = (tuple(gathered(half[i]) if even else half[i] for half in halves) for i in (0, 1))
            return self.same(self.method.compare(one, two))
