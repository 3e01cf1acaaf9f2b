"""The least squares of the loss table: which effects a pair has, and the normal equations of some batches."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coviews.policies.blas_threads import one_blas_thread
from coviews.policies.subpolicy import Subpolicies
from coviews.policies.tilted import level_bins

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Equations:
    """The normal equations of some batches, each less its own mean."""

    gram: Numbers  # (F, F)
    right: Numbers  # (F,)
    terms: NDArray[np.int64]  # (K, n)
    losses: Numbers  # (n,), each less its batch's mean
    batch: NDArray[np.int64]  # (n,)
    sizes: NDArray[np.int64]

    @classmethod
    def none(cls, features: int) -> "Equations":
        """Those of no batch."""
        empty = np.empty(0, np.int64)
        return cls(np.zeros((features, features)), np.zeros(features), empty, np.empty(0), empty, empty)

    @classmethod
    def of(cls, terms: NDArray[np.int64], losses: Numbers, sizes: NDArray[np.int64], features: int) -> "Equations":
        """Those of batches of the given sizes, one after the other."""
        batch = np.repeat(np.arange(len(sizes)), sizes)
        centred = _centred(losses, batch, sizes)
        above = np.zeros(features**2, np.int64)
        for i in range(len(terms) - 1):  # how often two effects meet, each pair of terms once
            above += np.bincount((terms[i] * features + terms[i + 1 :]).ravel(), minlength=features**2)
        square = above.reshape(features, features)
        gram = (square + square.T).astype(np.float64)
        gram.flat[:: features + 1] += np.bincount(terms.ravel(), minlength=features)
        cells = np.bincount((batch * features + terms).ravel(), minlength=len(sizes) * features)
        sums = cells.reshape(len(sizes), features) / np.sqrt(sizes)[:, None]
        with one_blas_thread():
            gram -= sums.T @ sums
        right: Numbers = np.bincount(terms.ravel(), np.tile(centred, len(terms)), features).astype(np.float64)
        return cls(gram, right, terms, centred, batch, sizes)

    def of_first(self, features: int) -> "Equations":
        """Those of the first features alone, as if there were no others: for solving, not for judging."""
        return replace(self, gram=self.gram[:features, :features].copy(), right=self.right[:features])

    def explained_by(self, values: Numbers) -> float:
        """The share of the variance within batches that effects explain which were fitted to others."""
        left = self.losses - _centred(values[self.terms].sum(0), self.batch, self.sizes)
        total = float((self.losses**2).sum())
        return 1 - float((left**2).sum()) / total if total > 0 else 0.0


def effect_indices(drawn: Subpolicies, cooperative: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which effect belongs to each (step, operation, bin), and to each pair of operations (none if views are apart)."""
    bins, n_ops = int(level_bins(drawn.space.levels)[-1]) + 1, len(drawn.space.ops)
    own = np.where(drawn.space.has_magnitude[:, None], np.arange(bins), 0)  # (O, bins): a level without meaning is 0
    first = np.concatenate([[0], np.cumsum(own[:, -1] + 1)])
    steps = np.arange(drawn.steps)[:, None, None] * first[-1] + first[:-1, None] + own  # (S, O, bins)
    if not cooperative:
        return steps, np.empty((0, 0), np.int64)
    low, high = (
        np.minimum.outer(np.arange(n_ops), np.arange(n_ops)),
        np.maximum.outer(np.arange(n_ops), np.arange(n_ops)),
    )
    return steps, int(steps.max()) + 1 + high * (high + 1) // 2 + low


def _centred(values: Numbers, batch: NDArray[np.int64], sizes: NDArray[np.int64]) -> Numbers:
    return values - (np.bincount(batch, values, len(sizes)) / sizes)[batch]
