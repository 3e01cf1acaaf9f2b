"""Which families the pilots try: a screening design over all factors first, then what promises most."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from coviews.choosing.model import CROPS_TRIED, FamilyModel
from coviews.policies.factors import Family

# the first row of the Plackett-Burman designs whose other rows are its rotations; 1 is a change
_PLACKETT_BURMAN = {12: "11011100010", 20: "11001111010100001100"[:19]}
SIZES = (4, 8, 12, 16, 20)


def screening(start: Family, free: Sequence[str]) -> list[Family]:
    """Families in which each free factor is changed in half of all, and any two factors independently.

    The first is the start itself. The number is the least of 4, 8, 12, 16 and 20 that is above that of the factors.
    """
    size = next(n for n in SIZES if n > len(free))
    changed = design_matrix(size)[:, : len(free)]
    crops = _other_crops(start)
    some = []
    for i, row in enumerate(changed):
        changes: dict[str, Any] = {
            name: crops[i % len(crops)] if name == "crop" else not getattr(start, name)
            for name, change in zip(free, row, strict=True)
            if change
        }
        some.append(replace(start, **changes))
    return some


def design_matrix(size: int) -> NDArray[np.bool_]:
    """(size, size - 1): a two-level design whose columns are orthogonal; nothing is changed in the first row."""
    if size in _PLACKETT_BURMAN:
        row = np.array([c == "1" for c in _PLACKETT_BURMAN[size]])
        return np.stack([np.zeros(size - 1, np.bool_), *(np.roll(row, k) for k in range(size - 1))])
    matrix = linalg.hadamard(size)[:, 1:] < 0
    # columns that are products of no two others first: where some are left out, effects of pairs stay apart
    order = sorted(range(size - 1), key=lambda c: (bin(c + 1).count("1") % 2 == 0, c))
    return np.asarray(matrix[:, order])


def _other_crops(start: Family) -> list[str]:
    return [crop for crop in CROPS_TRIED if crop != start.crop]


def most_promising(
    model: FamilyModel, families: Sequence[Family], count: int, generator: np.random.Generator
) -> list[Family]:
    """Families to try next, by Thompson sampling: each is the best in a world drawn from what the model believes.

    Those that may be the best are tried often; those that cannot are not tried again.
    """
    mean, covariance = model.predict(families)
    jitter = 1e-8 * float(np.trace(covariance)) / len(mean)
    lower = linalg.cholesky(covariance + jitter * np.eye(len(mean)), lower=True)
    picks: list[Family] = []
    for _ in range(count):
        scores = mean + lower @ generator.standard_normal(len(mean))
        order = np.argsort(-scores)
        picks.append(next(families[i] for i in order if families[i] not in picks))
    return picks
