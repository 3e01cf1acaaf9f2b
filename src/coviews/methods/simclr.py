"""SimCLR: each view finds its partner among all other views of the batch.

Chen et al., A Simple Framework for Contrastive Learning of Visual Representations, ICML 2020.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from coviews.methods.gather import gathered
from coviews.methods.losses import info_nce
from coviews.methods.method import Losses, Method, MethodSettings, encode_views, several


@dataclass(frozen=True, kw_only=True)
class SimCLRSettings(MethodSettings):
    """The options of SimCLR."""

    name: ClassVar[str] = "simclr"
    reveals_hardness: ClassVar[bool] = True
    takes_many_views: ClassVar[bool] = True

    temperature: float = 0.2
    """Of the contrastive loss (0.5 in the paper of CoViews)."""


class SimCLR(Method):
    """InfoNCE in the batch, with the views of all processes as negatives; of more views, the mean over all pairs."""

    settings_type = SimCLRSettings

    def losses(self, views: Sequence[Tensor]) -> Losses:
        """The loss of each image's V views, (n, C, H, W) each."""
        count = several(views)
        features = encode_views(self.encoder, views)  # (Vn, F)
        projections = self.projector(features).float()  # (Vn, D)
        # side by side, so that the order over all processes is that of the whole batch
        by_view = gathered(torch.cat(projections.chunk(count), dim=1)).chunk(count, dim=1)  # V times (N, D)
        pairs = [info_nce(z1, z2, self.temperature) for z1, z2 in itertools.combinations(by_view, 2)]
        return Losses(torch.stack(pairs).mean(0), F.normalize(projections.detach(), dim=1), features=features)
