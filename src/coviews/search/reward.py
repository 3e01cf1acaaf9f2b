"""The bounded InfoNCE reward: hard views are good, views that lost their image are not."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coviews.errors import CoviewsError, unknown

THRESHOLDS = {"ratio": 1.3, "relative": 0.69}


@dataclass(frozen=True)
class BoundedReward:
    """A reward that rises with a pair's loss up to a bound, and falls beyond it.

    Its methods take the losses of pairs, the reference (the mean loss of ordinary pairs) and the ceiling (the
    loss of views that have lost their image, about log(2N - 1) with N pairs in a batch).
    """

    bound: str = "ratio"
    """What is bounded: "ratio", the loss over the reference, as in the paper; or "relative", where the loss lies
    between the reference (0) and the ceiling (1), which means the same at every stage of training."""
    threshold: float | None = None
    """The bound: by default 1.3 for "ratio" and 0.69 for "relative"."""
    tolerance: float = 0.2
    """How far beyond the bound the reward is still above zero."""

    def __post_init__(self) -> None:
        if self.bound not in THRESHOLDS:
            raise unknown("bound", self.bound, THRESHOLDS)
        if self.bound == "ratio" and not (1 < self.limit < math.inf):
            raise CoviewsError(
                f"the threshold of the ratio bound must be above 1, not {self.limit}: "
                "at 1, ordinary pairs would be too hard"
            )
        if self.bound == "relative" and not 0 < self.limit < 1:
            raise CoviewsError(
                f"the threshold of the relative bound must lie between 0 (the reference) and 1 (the ceiling), "
                f"not at {self.limit}"
            )
        if not 0 < self.tolerance < math.inf:
            raise CoviewsError(f"the tolerance beyond the bound must be above 0, not {self.tolerance}")

    @property
    def limit(self) -> float:
        """The threshold in use."""
        return THRESHOLDS[self.bound] if self.threshold is None else self.threshold

    def hardness(self, losses: ArrayLike, reference: float, ceiling: float) -> NDArray[np.float64]:
        """The losses on the scale of the bound."""
        _check(reference, ceiling)
        losses = np.asarray(losses, np.float64)
        if self.bound == "ratio":
            return losses / reference
        if reference >= ceiling:
            raise CoviewsError(
                f"the reference loss {reference:.4g} is not below the ceiling {ceiling:.4g}: the encoder tells no "
                'pair from another yet; train it longer before the search, or use bound="ratio"'
            )
        return (losses - reference) / (ceiling - reference)

    def over(self, losses: ArrayLike, reference: float, ceiling: float) -> NDArray[np.bool_]:
        """Which pairs are over the bound."""
        return self.hardness(losses, reference, ceiling) >= self.limit

    def __call__(self, losses: ArrayLike, reference: float, ceiling: float) -> NDArray[np.float64]:
        """The reward of each pair."""
        hardness, limit, b = self.hardness(losses, reference, ceiling), self.limit, self.tolerance
        return np.where(hardness < limit, hardness, -(limit / b) * (hardness - (limit + b)))

    def empty(self, reference: float, ceiling: float) -> bool:
        """Whether the bound lies so high that no pair can be over it."""
        _check(reference, ceiling)
        return self.bound == "ratio" and self.limit * reference >= ceiling

    def empty_message(self, reference: float, ceiling: float) -> str:
        """What to tell the user where the bound is empty."""
        return (
            f"the reward has no upper bound: {self.limit:g} x the reference loss {reference:.3g} is not below "
            f"{ceiling:.3g}, the loss of views that have lost their image.\n"
            'The search will prefer such views. Use bound="relative", or search later, when the loss is lower.'
        )


def _check(reference: float, ceiling: float) -> None:
    for name, value in (("reference loss", reference), ("ceiling", ceiling)):
        if not 0 < value < math.inf:
            raise CoviewsError(f"the {name} of the reward must be a number above 0, not {value}")
