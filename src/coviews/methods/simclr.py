"""SimCLR: each view finds its partner among all other views of the batch."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from coviews.methods.gather import gathered
from coviews.methods.losses import info_nce
from coviews.methods.method import Losses, Method


class SimCLR(Method):
    """InfoNCE in the batch, with the views of all processes as negatives."""

    def __init__(
        self,
        encoder: nn.Module,
        features: int,
        *,
        temperature: float = 0.2,
        projector_hidden: int | None = None,
        projector_outputs: int | None = None,
    ) -> None:
        super().__init__(encoder, features, temperature, projector_hidden, projector_outputs)

    def losses(self, x1: Tensor, x2: Tensor) -> Losses:
        """The loss of each pair of views, (n, C, H, W) twice."""
        both = self.project(torch.cat([x1, x2]))  # (2n, D)
        # side by side, so that the order over all processes is that of the whole batch
        z1, z2 = gathered(torch.cat(both.chunk(2), dim=1)).chunk(2, dim=1)  # (N, D) each
        return Losses(info_nce(z1, z2, self.temperature), F.normalize(both.detach(), dim=1))
