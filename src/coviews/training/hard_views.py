"""Hard views: of several views of each image, the pair that is expected to be hardest is trained on.

Ferreira et al., Beyond Random Augmentations: Pretraining with Hard Views, ICLR 2025. There the encoder compares four
views. Here, by default, a pair is chosen by where its crops lie, which takes no pass of the encoder; and views that do
pass it can be made smaller for that.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from coviews.encoders.frozen import evaluating
from coviews.encoders.method import compared_size
from coviews.errors import CoviewsError
from coviews.methods.gather import gathered
from coviews.ops.plan import Plan
from coviews.policies.hard_crops import HardCrops
from coviews.policies.subpolicy import ViewSource
from coviews.runs.settings import PretrainSettings
from coviews.searching.crop_effects import CropEffects
from coviews.training.ranks import Ranks


class HardViews:
    """Chooses the views that are trained on."""

    def __init__(self, settings: PretrainSettings, ranks: Ranks) -> None:
        self.settings, self.ranks = settings, ranks
        # of any method: only the differences between pairs count, not the level of unrelated views
        self.crops = CropEffects() if settings.hard_crops else None
        self.effects = CropEffects().solved()  # of crops, by which this epoch's candidates are chosen

    def source(self, prior: ViewSource) -> ViewSource:
        """What draws the views that are made."""
        s = self.settings
        return HardCrops(prior, s.hard_crops, s.hard_views, self.effects) if self.crops else prior

    def before_epoch(self) -> None:
        """Choose by what the pairs so far say of crops."""
        if self.crops is not None:
            self.effects = self.ranks.same(self.crops.solved())

    def observe(self, plan: Plan, losses: Any) -> None:
        """Hear the loss of each pair that was trained on."""
        if self.crops is not None:
            self.crops.observe(plan, losses)

    def pair(self, views: list[Tensor], plan: Plan) -> tuple[list[Tensor], Plan]:
        """The pair of each image that is hardest for the encoder, and the plan of these pairs for the whole batch.

        Args:
            views: this process's, (n, C, H, W) each.
            plan: of the whole batch.
        """
        if len(views) == 2:
            return views, plan
        every = torch.cat(views)
        chosen = self.hardest(every, len(views))
        images, stacked = torch.arange(len(chosen), device=chosen.device), every.unflatten(0, (len(views), -1))
        pair = [stacked[chosen[:, 0], images], stacked[chosen[:, 1], images]]
        # nobody else reads the plan, and a GPU would be waited for
        if self.crops is not None or self.settings.keeping.weight:
            plan = plan.with_views(gathered(chosen).cpu().numpy())
        return pair, plan

    def hardest(self, every: Tensor, views: int) -> Tensor:
        """The indices (n, 2) of the two views of each image whose loss is highest.

        Args:
            every: this process's views (Vn, C, H, W), first views first.
            views: V.
        """
        ranks, method, n = self.ranks, self.ranks.method, len(every) // views
        ranks.share_buffers()
        mine = slice(ranks.rank * n, (ranks.rank + 1) * n)
        with evaluating(method), ranks.fabric.autocast():
            by_view = zip(*(e.chunk(views) for e in method.embed(self._scaled(every))), strict=True)
            embedded = [tuple(gathered(e) for e in view) for view in by_view]
            pairs = list(itertools.combinations(range(views), 2))
            losses = torch.stack([method.compare(embedded[i], embedded[j])[mine] for i, j in pairs])  # (P, n)
        return torch.tensor(pairs, device=losses.device)[losses.argmax(0)]

    def _scaled(self, views: Tensor) -> Tensor:
        """The views (N, C, H, W) at the resolution at which they are compared."""
        height, width = views.shape[2:]
        size = compared_size((height, width), self.settings.hard_scale)
        if size == (height, width):
            return views
        if height % size[0] == width % size[1] == 0:  # the same means, five times as fast
            return F.avg_pool2d(views, (height // size[0], width // size[1]))
        return F.interpolate(views, size, mode="area")

    def state_dict(self) -> dict[str, Any]:
        """All that later choices depend on."""
        return {**self.crops.state_dict(), "effects": self.effects} if self.crops else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where the choice was that gave this state."""
        if self.crops is not None:
            self.crops.load_state_dict(state)
            effects = np.asarray(state["effects"], np.float64)
            if effects.shape != self.effects.shape or not np.isfinite(effects).all():
                raise CoviewsError("the saved effects of crops do not fit this version of coviews")
            self.effects = effects
