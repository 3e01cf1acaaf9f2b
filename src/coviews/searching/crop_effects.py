"""What the crops of a pair add to its loss, learned from training's own losses as it goes on."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from coviews.errors import CoviewsError
from coviews.ops.plan import Plan
from coviews.policies.blas_threads import one_blas_thread
from coviews.policies.placement_effects import COUNTS, FIRSTS, placement_bins
from coviews.searching.table_equations import Equations, Numbers

MEMORY = 50_000  # pairs, after which what was seen counts for about a third
RIDGE = 20.0  # an effect that was seen in so many pairs counts for half of what it seems to be
_BINS = int(COUNTS.sum())


class CropEffects:
    """The least squares of the loss on where the two crops lie and how they are turned; older pairs count less.

    It is the part of the loss table that knows of crops, for views whose operations are not learned.
    """

    def __init__(self) -> None:
        self.gram, self.right = np.zeros((_BINS, _BINS)), np.zeros(_BINS)

    def observe(self, plan: Plan, losses: Any) -> None:
        """Hear of a batch of pairs, and of the loss of each (n,), an array or a tensor."""
        terms = (FIRSTS + placement_bins(plan)).T
        equations = Equations.of(terms, np.asarray(losses, np.float64), np.array([len(plan)]), _BINS)
        older = max(0.0, 1 - len(plan) / MEMORY)
        self.gram = older * self.gram + equations.gram
        self.right = older * self.right + equations.right

    def solved(self) -> Numbers:
        """The effect of each bin of each feature."""
        with one_blas_thread():
            return np.linalg.solve(self.gram + RIDGE * np.eye(_BINS), self.right).astype(np.float64)

    def state_dict(self) -> dict[str, Any]:
        """All that the next effects depend on."""
        return {"gram": self.gram, "right": self.right}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where the effects were that gave this state."""
        gram, right = (np.asarray(state[name], np.float64) for name in ("gram", "right"))
        fits = gram.shape == self.gram.shape and right.shape == self.right.shape
        if not fits or not (np.isfinite(gram).all() and np.isfinite(right).all()):
            raise CoviewsError("the saved effects of crops do not fit this version of coviews")
        self.gram, self.right = gram, right
