"""Which families the pilots try: a screening design over all factors first, then what tells most of the best."""

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from coviews.choosing.model import FamilyModel, families, other_values
from coviews.policies.factors import Family

# the first row of the Plackett-Burman designs whose other rows are its rotations; 1 is a change
_PLACKETT_BURMAN = {12: "11011100010", 20: "11001111010100001100"[:19]}
SIZES = (4, 8, 12, 16, 20)
CANDIDATES = 200  # families that may be the best, of which the next pilots are chosen
# what a pilot's score may be, in standard deviations from what is expected, and how likely that is
_OUTCOMES, _CHANCES = np.polynomial.hermite_e.hermegauss(11)
_CHANCES = _CHANCES / _CHANCES.sum()


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


def most_informative(
    model: FamilyModel, count: int, given: Sequence[Family] = (), without: Collection[Family] = ()
) -> list[Family]:
    """Families to try next: those whose pilots are expected to tell most about which family is the best.

    What a pilot is worth is the knowledge gradient: how much better, in expectation, the family is that is the best
    once its score is known. That may be an untried one, or the best so far again, with another seed. In a round of
    several pilots, each is chosen as if those before it had come out as expected.

    Args:
        model: what is believed.
        count: of the families, with those that are given.
        given: families that are tried in any case; they are the first.
        without: families that are not tried.
    """
    every, best = families(model.start, model.free), expected_best(model, without)
    gains, errors = model.gains(every, best)
    likely = itertools.islice(_ranked(every, gains + errors, without), CANDIDATES)
    tried = (family for family in model.observations.families if family not in without)
    candidates = list(dict.fromkeys([*given, best, *tried, *likely]))
    mean = model.expected(candidates)
    told, results = model.outlook(candidates)
    picks: list[int] = []
    while len(picks) < min(count, len(candidates)):
        if len(picks) < len(given):
            pick = len(picks)
        else:
            shifts = told / np.sqrt(results.diagonal())  # (m, m), by a pilot of each, as columns
            worth = (mean[:, None, None] + shifts[:, :, None] * _OUTCOMES).max(0) @ _CHANCES
            worth[picks] = -np.inf
            pick = int(worth.argmax())
        picks.append(pick)
        known = results[pick] / results[pick, pick]
        told, results = told - np.outer(told[:, pick], known), results - np.outer(results[:, pick], known)
        results[picks, picks] = 1.0  # they are known then: nothing is divided by zero
    return [candidates[i] for i in picks]


def expected_best(model: FamilyModel, without: Collection[Family] = ()) -> Family:
    """The family that is expected to be the best of all but some, tried or not."""
    every = families(model.start, model.free)
    return next(_ranked(every, model.expected(every), without))


def _ranked(some: Sequence[Family], scores: NDArray[np.float64], without: Collection[Family]) -> Iterator[Family]:
    """Families by their scores, the highest first, without some, and without those that are others in name only.

    Plain pairs make a difference only where there are operations that they can leave out.
    """
    for i in np.argsort(-scores, kind="stable"):
        if some[i] not in without and (not some[i].plain or some[i].source().changes):
            yield some[i]
