"""How strongly a prior is tilted: as far as to a target loss, or to what stops it before."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coviews.policies.tilted import Tilt

Numbers = NDArray[np.float64]

_RARE = 0.001  # what is rarer gains no more: for so few, many draws of the prior would have to be refused
_LEAST = 0.02  # of the prior's draws are accepted, whatever the target
_DOUBLINGS, _HALVINGS = 30, 25


class Expectation(NamedTuple):
    """What a policy is expected to do."""

    loss: float
    over: float  # share of pairs over the bound
    accepted: float  # of the prior's draws


class PriorSample:
    """Draws of the prior, which stand for any tilt of it by their weights."""

    def __init__(self, units: Numbers, losses: Numbers, over: NDArray[np.bool_], unit: Tilt, keep: float) -> None:
        self.losses, self.over, self.keep = losses, over, keep  # (n,)
        tilts = unit(units)  # (n, 1) of pairs, or (n, 2) of views
        self.unit = replace(unit, top=float(np.quantile(tilts, 1 - _RARE)))
        self._below = (np.minimum(tilts, self.unit.top) - self.unit.top) / units.shape[1]  # of views, by half

    def tilted(self, strength: float) -> Expectation:
        """What the policy of this strength does, the share that is the prior's included."""
        weights = np.exp(strength * self._below)
        means = weights.mean(0)
        pairs = (self.keep + (1 - self.keep) * weights / means).prod(1)
        pairs /= pairs.sum()
        return Expectation(float(pairs @ self.losses), float(pairs @ self.over), float(means.min()))


def tilt_strength(sample: PriorSample, target_loss: float, target: float, most_over: float) -> tuple[float, str | None]:
    """The strength of the tilt, and what keeps it from the target, if something does.

    Args:
        sample: draws of the prior.
        target_loss: the mean loss to reach.
        target: the hardness that it stands for: above 0 for harder views than the prior's, below for easier ones.
        most_over: the largest share of pairs over the bound.
    """
    if target == 0:
        return 0.0, None
    allowed = max(most_over, sample.tilted(0.0).over)

    def stopped(strength: float) -> str | None:
        now = sample.tilted(strength)
        if (now.loss > target_loss) if target > 0 else (now.loss < target_loss):
            return "target"
        if now.over > allowed:
            return "share over the bound"
        return "variety" if now.accepted < _LEAST else None

    low, high, limit = 0.0, 2.0**-6, None
    for _ in range(_DOUBLINGS):
        limit = stopped(high)
        if limit is not None:
            break
        low, high = high, 2 * high
    for _ in range(_HALVINGS if limit is not None else 0):
        middle = (low + high) / 2
        now = stopped(middle)
        low, high, limit = (middle, high, limit) if now is None else (low, middle, now)
    return low, None if limit == "target" else limit
