"""SimSiam: each view predicts its partner, which is held still; there are no negatives and no slow encoder."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from coviews.methods.gather import gathered
from coviews.methods.heads import make_predictor
from coviews.methods.losses import cosine
from coviews.methods.method import Losses, Method, pair_means, swapped


class SimSiam(Method):
    """One minus the cosine of a view's prediction and its partner's projection, which gets no gradient.

    That loss has no level for unrelated views, so pairs are compared by InfoNCE of the projections.
    """

    def __init__(
        self,
        encoder: nn.Module,
        features: int,
        *,
        temperature: float = 0.5,
        projector_hidden: int | None = None,
        projector_outputs: int | None = None,
        predictor_hidden: int | None = None,
    ) -> None:
        super().__init__(encoder, features, temperature, projector_hidden, projector_outputs)
        # a bottleneck, a quarter of the width, as its authors found it to work
        self.predictor = make_predictor(self.outputs, predictor_hidden or max(self.outputs // 4, 1))

    def losses(self, x1: Tensor, x2: Tensor) -> Losses:
        """The loss of each pair of views, (n, C, H, W) twice."""
        projections = self.projector(self.encoder(torch.cat([x1, x2])))  # (2n, D)
        predictions = F.normalize(self.predictor(projections).float(), dim=1)
        targets = F.normalize(projections.detach().float(), dim=1)
        # the authors' loss is -cos; one more has the same gradient, and stays positive as the other methods' losses do
        local = pair_means(1 - cosine(predictions, swapped(targets)))  # (n,)
        return Losses(gathered(local), targets)
