"""Rotation: each view is turned by 0, 90, 180 and 270 degrees, and the encoder learns to tell by how much.

Gidaris et al., Unsupervised Representation Learning by Predicting Image Rotations, ICLR 2018.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from coviews.errors import CoviewsError
from coviews.methods.gather import gathered
from coviews.methods.method import Losses, Method, MethodSettings, encode_views, several

TURNS = 4  # quarters of a turn, from none to three


@dataclass(frozen=True, kw_only=True)
class RotationSettings(MethodSettings):
    """The options of rotation prediction."""

    name: ClassVar[str] = "rotation"
    takes_many_views: ClassVar[bool] = True
    needs_upright_views: ClassVar[bool] = True


class Rotation(Method):
    """The cross-entropy of the four turns, the mean over an image's views in all of them.

    Views of an image are never compared by it, so pairs are compared by InfoNCE of the projections.
    """

    settings_type = RotationSettings
    settings: RotationSettings

    def __init__(
        self, encoder: nn.Module, features: int, settings: RotationSettings | None = None, *, seed: int = 0
    ) -> None:
        super().__init__(encoder, features, settings)
        self.classifier = nn.Linear(self.width, TURNS)

    def losses(self, views: Sequence[Tensor]) -> Losses:
        """The loss of each image's V views, (n, C, H, H) each."""
        count, n = several(views), len(views[0])
        for view in views:
            if view.shape[2] != view.shape[3]:
                raise CoviewsError(
                    f"rotation needs square views, and these have {view.shape[2]} x {view.shape[3]} pixels (the shape "
                    "would give the turn away): give --view-size"
                )
        turned = [torch.rot90(view, turn, (2, 3)) for turn in range(TURNS) for view in views]
        features = encode_views(self.encoder, turned)  # (4Vn, F), upright ones first
        projections = self.projector(features).float()  # (4Vn, D)
        with torch.autocast(projections.device.type, enabled=False):
            logits = self.classifier(projections.to(self.classifier.weight.dtype)).float()  # (4Vn, 4)
        targets = torch.arange(TURNS, device=logits.device).repeat_interleave(count * n)
        each = F.cross_entropy(logits, targets, reduction="none").unflatten(0, (TURNS * count, n)).mean(0)  # (n,)
        upright = count * n
        return Losses(gathered(each), F.normalize(projections[:upright].detach(), dim=1), features=features[:upright])
