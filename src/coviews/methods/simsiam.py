"""SimSiam: each view predicts its partner, which gets no gradient; there are no negatives and no slow encoder.

Chen and He, Exploring Simple Siamese Representation Learning, CVPR 2021.
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


@dataclass(frozen=True, kw_only=True)
class SimSiamSettings(MethodSettings):
    """The options of SimSiam."""

    name: ClassVar[str] = "simsiam"

    predictor: int | None = None
    """The predictor's hidden width; by default a quarter of the projector's, as its authors recommend."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_width("predictor")


class SimSiam(Method):
    """One minus the cosine of a view's prediction and its partner's projection, which gets no gradient.

    That loss has no level for unrelated views, so pairs are compared by InfoNCE of the projections.
    """

    settings_type = SimSiamSettings
    settings: SimSiamSettings

    def __init__(
        self, encoder: nn.Module, features: int, settings: SimSiamSettings | None = None, *, seed: int = 0
    ) -> None:
        super().__init__(encoder, features, settings)
        self.predictor = make_predictor(self.width, self.settings.predictor or max(self.width // 4, 1))

    def losses(self, views: Sequence[Tensor]) -> Losses:
        """The loss of each pair of views, (n, C, H, W) twice."""
        features = self.encoder(torch.cat(pair(views)))  # (2n, F)
        projections = self.projector(features)  # (2n, D)
        predictions = F.normalize(self.predictor(projections).float(), dim=1)
        targets = F.normalize(projections.detach().float(), dim=1)
        # the authors' loss is -cos; one more has the same gradient, and stays positive as the other methods' losses do
        local = pair_means(1 - cosine(predictions, swapped(targets)))  # (n,)
        return Losses(gathered(local), targets, features=features)
