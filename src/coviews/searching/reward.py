"""The bounded InfoNCE reward: hard views are good, views that lost their image are not."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coviews.errors import CoviewsError, unknown

NONE = "none"
THRESHOLDS = {"capped": 1.3, "ratio": 1.3, "relative": 0.69, NONE: math.inf}
CAP = 0.69  # of the way from the reference to the ceiling: what a ratio of 1.3 means for a well-trained encoder


@dataclass(frozen=True)
class BoundedReward:
    """A reward that rises with a pair's loss up to a bound, and falls beyond it.

    Its methods take the losses of pairs, the reference (the mean loss of ordinary pairs) and the ceiling (the
    loss of views that have lost their image, about log(2N - 1) with N pairs in a batch).
    """

    bound: str = "capped"
    """What is bounded: "ratio", the loss over the reference, as in the paper; "relative", where the loss lies between
    the reference (0) and the ceiling (1); "capped", the ratio, but never more than 0.69 of the way to the ceiling, so
    that the bound is never empty; or "none", the ratio without a bound."""
    threshold: float | None = None
    """The bound: by default 1.3 for "capped" and "ratio", 0.69 for "relative"."""
    tolerance: float = 0.2
    """How far beyond the bound the reward is still above zero."""

    def __post_init__(self) -> None:
        if self.bound not in THRESHOLDS:
            raise unknown("bound", self.bound, THRESHOLDS)
        threshold = self._threshold
        if self.bound == NONE and self.threshold is not None:
            raise CoviewsError(f"without a bound there is no threshold: leave out {self.threshold}")
        if self.bound not in ("relative", NONE) and not (1 < threshold < math.inf):
            raise CoviewsError(
                f"the threshold of the {self.bound} bound must be above 1, not {threshold}: "
                "at 1, ordinary pairs would be too hard"
            )
        if self.bound == "relative" and not 0 < threshold < 1:
            raise CoviewsError(
                f"the threshold of the relative bound must lie between 0 (the reference) and 1 (the ceiling), "
                f"not at {threshold}"
            )
        if not 0 < self.tolerance < math.inf:
            raise CoviewsError(f"the tolerance beyond the bound must be above 0, not {self.tolerance}")

    @property
    def _threshold(self) -> float:
        return THRESHOLDS[self.bound] if self.threshold is None else self.threshold

    def limit(self, reference: float, ceiling: float) -> float:
        """The bound, on the scale of `hardness`."""
        _check(reference, ceiling)
        if self.bound == "relative" and reference >= ceiling:
            raise CoviewsError(
                f"the reference loss {reference:.4g} is not below {ceiling:.4g}, that of views that lost their image: "
                "the encoder tells no pair from another yet.\n"
                "Train it longer before the search, or, if the loss is your own, give its chance"
            )
        if self.bound == "capped":
            return min(self._threshold, 1 + CAP * max(ceiling / reference - 1, 0.0))
        return self._threshold

    def hardness(self, losses: ArrayLike, reference: float, ceiling: float) -> NDArray[np.float64]:
        """The losses on the scale of the bound."""
        _check(reference, ceiling)
        losses = np.asarray(losses, np.float64)
        if self.bound == "relative":
            return (losses - reference) / (ceiling - reference)
        return losses / reference

    def over(self, losses: ArrayLike, reference: float, ceiling: float) -> NDArray[np.bool_]:
        """Which pairs are over the bound."""
        limit = self.limit(reference, ceiling)
        return self.hardness(losses, reference, ceiling) >= limit

    def __call__(self, losses: ArrayLike, reference: float, ceiling: float, slope: float = 1.0) -> NDArray[np.float64]:
        """The reward of each pair; slope: how fast it rises up to the bound, 1 in the paper."""
        limit, b = self.limit(reference, ceiling), self.tolerance
        hardness = self.hardness(losses, reference, ceiling)
        if self.bound == NONE:
            return slope * hardness
        rising = hardness if slope == 1 else limit - slope * (limit - hardness)
        return np.where(hardness < limit, rising, -(limit / b) * (hardness - (limit + b)))

    def empty(self, reference: float, ceiling: float) -> bool:
        """Whether the bound lies so high that no pair can be over it."""
        return self.bound == "ratio" and self.limit(reference, ceiling) * reference >= ceiling

    def empty_message(self, reference: float, ceiling: float) -> str:
        """What to tell the user where the bound is empty."""
        return (
            f"the reward has no upper bound: {self._threshold:g} x the reference loss {reference:.3g} is not below "
            f"{ceiling:.3g}, the loss of views that have lost their image.\n"
            'The search will prefer such views. Use bound="capped", or search later, when the loss is lower.'
        )


def _check(reference: float, ceiling: float) -> None:
    for name, value in (("reference loss", reference), ("ceiling", ceiling)):
        if not 0 < value < math.inf:
            raise CoviewsError(f"the {name} of the reward must be a number above 0, not {value}")
