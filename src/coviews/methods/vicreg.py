"""VICReg: both projections of an image are alike, each feature varies in the batch, and no two features correlate.

Bardes et al., VICReg: Variance-Invariance-Covariance Regularization for Self-Supervised Learning, ICLR 2022.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from coviews.errors import CoviewsError
from coviews.methods.gather import gathered
from coviews.methods.heads import make_expander
from coviews.methods.method import Losses, Method, MethodSettings, pair


@dataclass(frozen=True, kw_only=True)
class VICRegSettings(MethodSettings):
    """The options of VICReg."""

    name: ClassVar[str] = "vicreg"

    projector: int | None = None
    """The projector's width; by default four times as many as the encoder has features, as in the paper."""
    invariance: float = 25.0
    """The weight of the squared distance between both views."""
    variance: float = 25.0
    """The weight of the shortfall of each feature's standard deviation from 1."""
    covariance: float = 1.0
    """The weight of the squared covariances between features."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("invariance", "variance", "covariance"):
            if not 0 <= getattr(self, name) < math.inf:
                raise CoviewsError(f"--{name} must be 0 or more, not {getattr(self, name)}")


class VICReg(Method):
    """The three terms of VICReg; those of the whole batch are the same in the loss of each pair.

    That loss has no level for unrelated views, so pairs are compared by InfoNCE of the projections.
    """

    settings_type = VICRegSettings
    settings: VICRegSettings

    def __init__(
        self, encoder: nn.Module, features: int, settings: VICRegSettings | None = None, *, seed: int = 0
    ) -> None:
        super().__init__(encoder, features, settings)
        self.width = self.settings.projector or 4 * features
        self.projector = make_expander(features, self.width)

    def losses(self, views: Sequence[Tensor]) -> Losses:
        """The loss of each pair of views, (n, C, H, W) twice."""
        features = self.encoder(torch.cat(pair(views)))  # (2n, F)
        both = self.projector(features).float()  # (2n, D)
        # side by side, so that the order over all processes is that of the whole batch
        z1, z2 = gathered(torch.cat(both.chunk(2), dim=1)).chunk(2, dim=1)  # (N, D) each
        s = self.settings
        with torch.autocast(both.device.type, enabled=False):
            distances = (z1 - z2).square().mean(1)  # (N,)
            variance = (variance_shortfall(z1) + variance_shortfall(z2)) / 2
            covariance = squared_covariances(z1) + squared_covariances(z2)
            each = s.invariance * distances + (s.variance * variance + s.covariance * covariance)
        return Losses(each, F.normalize(both.detach(), dim=1), features=features)


def variance_shortfall(z: Tensor) -> Tensor:
    """The mean over features of what is missing to a standard deviation of 1: (N, D) -> ()."""
    return F.relu(1 - (z.var(0) + 1e-4).sqrt()).mean()


def squared_covariances(z: Tensor) -> Tensor:
    """The sum of the squared covariances between different features, over their number: (N, D) -> ()."""
    centered = z - z.mean(0)
    covariances = centered.T @ centered / (len(z) - 1)  # (D, D)
    return covariances.square().fill_diagonal_(0).sum() / z.shape[1]
