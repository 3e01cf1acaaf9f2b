"""A view source that draws many views of each image and keeps those whose crops make the hardest pairs."""

import itertools
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coviews.ops.placement import Placement
from coviews.ops.plan import Plan, Size
from coviews.policies.placement_effects import FIRSTS, pair_bins
from coviews.policies.subpolicy import Subpolicies, ViewSource


@dataclass(frozen=True, eq=False)
class HardCrops:
    """Of the views that another source draws, those with the crops that are expected to be hardest.

    Nothing passes an encoder, and only the chosen views are made.
    """

    prior: ViewSource
    candidates: int  # views that the prior draws
    views: int  # of them that are kept
    effects: NDArray[np.float64]  # of each bin of each feature of a pair's placement on its loss
    chooses_crops: ClassVar[bool] = True

    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        """Draw subpolicies for n images, without a choice: that needs crops."""
        drawn = self.prior.sample(n, generator)
        return replace(drawn, ops=drawn.ops[:, : self.views], levels=drawn.levels[:, : self.views])

    def draw_plan(
        self,
        n: int,
        image_size: Size,
        generator: np.random.Generator,
        placement: Placement | None = None,
        sizes: tuple[Size, ...] = (),
    ) -> Plan:
        """Draw a plan for n images: the views of the best pairs, the best first."""
        plan = Plan.draw(self.prior, n, image_size, generator, placement, sizes[:1] * self.candidates)
        first, second = np.array(list(itertools.combinations(range(self.candidates), 2))).T
        pairs = self.effects[FIRSTS + pair_bins(plan, first, second)].sum(2)  # (n, P)
        best = np.empty((n, self.candidates))  # of the pairs that a view is in
        for view in range(self.candidates):
            best[:, view] = pairs[:, (first == view) | (second == view)].max(1)
        hardest = pairs.argmax(1)
        for views in (first, second):  # several pairs may be equally hard: this one stays together
            best[np.arange(n), views[hardest]] = np.inf
        return plan.with_views(np.argsort(-best, axis=1, kind="stable")[:, : self.views])
