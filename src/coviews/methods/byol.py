"""BYOL: each view predicts what a slow encoder says of its partner; there are no negatives."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from coviews.methods.gather import gathered
from coviews.methods.heads import make_predictor
from coviews.methods.losses import cosine
from coviews.methods.method import Losses, Method, pair_means, swapped
from coviews.methods.momentum import check_momentum, move_towards, slow_copy


class BYOL(Method):
    """Squared distance from a view's prediction to its partner's slow projection, as unit vectors: 2 - 2 cos.

    That loss has no level for unrelated views, so pairs are compared by InfoNCE of the trained projections.
    """

    def __init__(
        self,
        encoder: nn.Module,
        features: int,
        *,
        temperature: float = 0.5,
        momentum: float = 0.99,
        projector_hidden: int | None = None,
        projector_outputs: int | None = None,
        predictor_hidden: int | None = None,
    ) -> None:
        super().__init__(encoder, features, temperature, projector_hidden, projector_outputs)
        self.momentum = check_momentum(momentum)
        self.predictor = make_predictor(self.outputs, predictor_hidden or self.hidden)
        self.slow_encoder, self.slow_projector = slow_copy(self.encoder), slow_copy(self.projector)

    def losses(self, x1: Tensor, x2: Tensor) -> Losses:
        """The loss of each pair of views, (n, C, H, W) twice."""
        both = torch.cat([x1, x2])
        projections = self.projector(self.encoder(both))  # (2n, D)
        predictions = F.normalize(self.predictor(projections).float(), dim=1)
        with torch.no_grad():
            targets = F.normalize(self.slow_projector(self.slow_encoder(both)).float(), dim=1)
        local = pair_means(2 - 2 * cosine(predictions, swapped(targets)))  # (n,)
        return Losses(gathered(local), F.normalize(projections.detach().float(), dim=1))

    def after_step(self, losses: Losses) -> None:
        """Move the slow encoder towards the trained one."""
        move_towards(self.slow_encoder, self.encoder, self.momentum)
        move_towards(self.slow_projector, self.projector, self.momentum)
