"""SimCLR: each view finds its partner among all other views of the batch.

Chen et al., A Simple Framework for Contrastive Learning of Visual Representations, ICML 2020.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from coviews.methods.gather import gathered
from coviews.methods.losses import info_nce
from coviews.methods.method import Losses, Method, MethodSettings, pair


@dataclass(frozen=True, kw_only=True)
class SimCLRSettings(MethodSettings):
    """The options of SimCLR."""

    name: ClassVar[str] = "simclr"
    reveals_hardness: ClassVar[bool] = True

    temperature: float = 0.2
    """Of the contrastive loss (0.5 in the paper of CoViews)."""


class SimCLR(Method):
    """InfoNCE in the batch, with the views of all processes as negatives."""

    settings_type = SimCLRSettings

    def losses(self, views: Sequence[Tensor]) -> Losses:
        """The loss of each pair of views, (n, C, H, W) twice."""
        both = self.project(torch.cat(pair(views)))  # (2n, D)
        # side by side, so that the order over all processes is that of the whole batch
        z1, z2 = gathered(torch.cat(both.chunk(2), dim=1)).chunk(2, dim=1)  # (N, D) each
        return Losses(info_nce(z1, z2, self.temperature), F.normalize(both.detach(), dim=1))
