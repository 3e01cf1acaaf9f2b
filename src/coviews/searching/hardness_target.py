"""A target for the hardness of a search's views: the slope of the reward follows how far they are from it."""

import math

_PROPORTIONAL, _INTEGRAL = 40.0, 4.0  # slope for each unit of hardness that is missing now, and in all so far
_STEEPEST = 20.0
_SMOOTHING = 0.3  # the share of the newest iteration in the hardness that counts: few samples are noisy


class HardnessTarget:
    """Steers a search so that its views get as hard as asked, and no harder.

    Hardness is the share of the way from the reference loss (0) to the loss of views that lost their image (1). The
    reward up to its bound is multiplied by `slope`: above 0 hard views are rewarded, below 0 easy ones; what lies over
    the bound is punished as ever.

    Args:
        hardness: the target.
    """

    def __init__(self, hardness: float) -> None:
        self.hardness = hardness
        self.slope = 1.0
        self._smooth: float | None = None
        self._missing = 0.0  # in all iterations so far

    def steer(self, loss: float, reference: float, chance: float) -> None:
        """Set the slope, given the mean loss of the views that were just drawn."""
        if not (reference < chance and math.isfinite(loss)):
            return  # the encoder tells no pair from another
        now = (loss - reference) / (chance - reference)
        self._smooth = now if self._smooth is None else self._smooth + _SMOOTHING * (now - self._smooth)
        missing = self.hardness - self._smooth
        limit = _STEEPEST / _INTEGRAL
        self._missing = min(max(self._missing + missing, -limit), limit)
        slope = _PROPORTIONAL * missing + _INTEGRAL * self._missing
        self.slope = min(max(slope, -_STEEPEST), _STEEPEST)
