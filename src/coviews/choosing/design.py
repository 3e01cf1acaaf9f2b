"""Which families the pilots try: a screening design over all factors first, then what promises most."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from coviews.choosing.model import FamilyModel, families, other_values
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
    others = {name: itertools.cycle(other_values(start, name)) for name in free}  # in turn, where there are several
    return [
        replace(start, **{name: next(others[name]) for name, change in zip(free, row, strict=True) if change})
        for row in changed
    ]


def design_matrix(size: int) -> NDArray[np.bool_]:
    """(size, size - 1): a two-level design whose columns are orthogonal; nothing is changed in the first row."""
    if size in _PLACKETT_BURMAN:
        row = np.array([c == "1" for c in _PLACKETT_BURMAN[size]])
        return np.stack([np.zeros(size - 1, np.bool_), *(np.roll(row, k) for k in range(size - 1))])
    matrix = linalg.hadamard(size)[:, 1:] < 0
    # columns that are products of no two others first: where some are left out, effects of pairs stay apart
    order = sorted(range(size - 1), key=lambda c: (bin(c + 1).count("1") % 2 == 0, c))
    return np.asarray(matrix[:, order])


def most_promising(model: FamilyModel, count: int, leaders: int, generator: np.random.Generator) -> list[Family]:
    """Families to try next: so many that are expected to be the best, tried or not, and others that may be.

    A leader that is tried again with another seed is not taken for luck. The others are the best in worlds drawn from
    what the model believes (Thompson sampling): those that may be the best are tried often, those that cannot are not
    tried again.
    """
    every = families(model.start, model.free)
    picks: list[Family] = []
    worlds = [model.expected(every)] * leaders
    worlds.extend(model.draw(count - leaders, generator))
    for scores in worlds:
        ranked = (every[i] for i in np.argsort(-scores, kind="stable"))
        picks += itertools.islice((f for f in ranked if f not in picks and _can_be_tried(f)), 1)
    return picks


def _can_be_tried(family: Family) -> bool:
    """Whether it is another one than the same without plain pairs: some operations must be left out in these."""
    return not family.plain or family.source().changes
