"""BYOL: each view predicts the projection of its partner by a slow copy of the encoder; there are no negatives.

Grill et al., Bootstrap Your Own Latent, NeurIPS 2020.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from coviews.methods.gather import gathered
from coviews.methods.heads import make_predictor
from coviews.methods.losses import cosine
from coviews.methods.method import Losses, Method, MethodSettings, pair, pair_means, swapped
from coviews.methods.momentum import move_towards, slow_copy


@dataclass(frozen=True, kw_only=True)
class BYOLSettings(MethodSettings):
    """The options of BYOL."""

    name: ClassVar[str] = "byol"

    momentum: float = 0.99
    """Of the slow encoder."""
    predictor: int | None = None
    """The predictor's hidden width; by default that of the projector."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_momentum(self.momentum)
        self._check_width("predictor")


class BYOL(Method):
    """Squared distance from a view's prediction to its partner's slow projection, as unit vectors: 2 - 2 cos.

    That loss has no level for unrelated views, so pairs are compared by InfoNCE of the trained projections.
    """

    settings_type = BYOLSettings
    settings: BYOLSettings

    def __init__(
        self, encoder: nn.Module, features: int, settings: BYOLSettings | None = None, *, seed: int = 0
    ) -> None:
        super().__init__(encoder, features, settings)
        self.predictor = make_predictor(self.width, self.settings.predictor or self.width)
        self.slow_encoder, self.slow_projector = slow_copy(self.encoder), slow_copy(self.projector)

    def losses(self, views: Sequence[Tensor]) -> Losses:
        """The loss of each pair of views, (n, C, H, W) twice."""
        both = torch.cat(pair(views))
        features = self.encoder(both)  # (2n, F)
        projections = self.projector(features)  # (2n, D)
        predictions = F.normalize(self.predictor(projections).float(), dim=1)
        with torch.no_grad():
            targets = F.normalize(self.slow_projector(self.slow_encoder(both)).float(), dim=1)
        local = pair_means(2 - 2 * cosine(predictions, swapped(targets)))  # (n,)
        return Losses(gathered(local), F.normalize(projections.detach().float(), dim=1), features=features)

    def after_step(self, losses: Losses) -> None:
        """Move the slow encoder towards the trained one."""
        move_towards(self.slow_encoder, self.encoder, self.settings.momentum)
        move_towards(self.slow_projector, self.projector, self.settings.momentum)
