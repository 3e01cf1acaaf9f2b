"""What pilots teach about factors: a Gaussian model of the score of every family, fitted to all pilots at once.

    score(family) = mean + effect of each factor + what the family has beyond its factors + noise

Each part is Gaussian, so the model is a Gaussian process over families. It gives the effect of each factor, and the
expected score of every family, tried or not, with its uncertainty.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from coviews.policies.factors import FACTORS, Family

Numbers = NDArray[np.float64]

CROPS_TRIED = ("large", "small", "tiny")
_MEAN = 30.0  # points: the standard deviation of the overall mean, which the pilots decide
# Standard deviations in points: of a factor's effect, of what a family has beyond its factors, and of the noise of a
# pilot beside that of its score. Fitted to the scores of a dozen pilots they were often far too small, and the choice
# missed effects of ten points (docs/results.md).
EFFECT, BEYOND, NOISE = 2.5, 0.7, 1.5
_ALIKE = 0.6  # correlation, for each factor that differs, of what families have beyond their factors
DEPARTURE = 0.1  # points that each departure from the recipe is expected to cost, before any pilot
KEPT, KEPT_SPREAD = 3.0, 3.0  # points that the keeping head gains: mean and standard deviation over five sets of images


@dataclass(frozen=True, eq=False)
class Observations:
    """Scores of pilots in points, and how far they may be off; a pilot may have several scores."""

    families: tuple[Family, ...]  # (n), one for each score
    scores: Numbers  # (n,)
    errors: Numbers  # (n, n): the covariance of the scores' errors, without the noise of training

    def __len__(self) -> int:
        return len(self.families)


@dataclass(frozen=True)
class Effect:
    """What a change of one factor does to the score, in points."""

    factor: str
    value: str  # what the factor is changed to from what it is in the recipe: "on", "off" or a crop
    points: float
    error: float  # standard deviation


def families(start: Family, free: Sequence[str]) -> list[Family]:
    """Every family that differs from the start in free factors only; the start is the first."""
    choices = [[getattr(start, name), *_others(start, name)] for name in free]
    return [replace(start, **dict(zip(free, values, strict=True))) for values in itertools.product(*choices)]


def _others(start: Family, name: str) -> list[Any]:
    """The values that a factor may be changed to."""
    value = getattr(start, name)
    return [crop for crop in CROPS_TRIED if crop != value] if name == "crop" else [not value]


@dataclass(frozen=True, eq=False)
class FamilyModel:
    """The model after some pilots."""

    start: Family  # the recipe with its locks: effects are changes from it
    free: tuple[str, ...]  # the factors that are not locked
    observations: Observations

    def _codes(self, some: Sequence[Family]) -> NDArray[np.int64]:
        """(n, F): the value of each free factor, 0 where it is the start's."""
        codes = np.zeros((len(some), len(self.free)), np.int64)
        for j, name in enumerate(self.free):
            values = CROPS_TRIED if name == "crop" else (False, True)
            home = values.index(getattr(self.start, name)) if getattr(self.start, name) in values else 0
            codes[:, j] = [values.index(getattr(family, name)) - home for family in some]
        return codes

    def _prior_mean(self, codes: NDArray[np.int64]) -> Numbers:
        return (codes != 0) @ np.array([_expected(name) for name in self.free])

    def _covariance(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> Numbers:
        same = sum((_indicators(a, code) @ _indicators(b, code).T for code in np.unique(a)), np.zeros((len(a), len(b))))
        # an effect is the difference of two values of a factor: each value has half of its variance
        return _MEAN**2 + same * EFFECT**2 / 2 + BEYOND**2 * _ALIKE ** (len(self.free) - same)

    @property
    def _solved(self) -> tuple[NDArray[np.int64], Any, Numbers]:
        seen = self.observations
        codes = self._codes(seen.families)
        noise = seen.errors + NOISE**2 * np.eye(len(seen))
        factor = linalg.cho_factor(self._covariance(codes, codes) + noise, lower=True)
        residual = seen.scores - self._prior_mean(codes)
        return codes, factor, residual

    def predict(self, some: Sequence[Family]) -> tuple[Numbers, Numbers]:
        """The expected scores (n,) of families, and their covariance (n, n)."""
        codes = self._codes(some)
        mean, covariance = self._prior_mean(codes), self._covariance(codes, codes)
        if not len(self.observations):
            return mean, covariance
        seen, factor, residual = self._solved
        between = self._covariance(codes, seen)
        return mean + between @ linalg.cho_solve(factor, residual), covariance - between @ linalg.cho_solve(
            factor, between.T
        )

    def gain(self, family: Family, over: Family) -> tuple[float, float]:
        """By how much one family is better than another, in points, and the standard deviation of that."""
        mean, covariance = self.predict([family, over])
        variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
        return float(mean[0] - mean[1]), float(np.sqrt(max(variance, 0.0)))

    def effects(self) -> list[Effect]:
        """What the change of each free factor from the recipe does, over all families alike."""
        effects = []
        for name in self.free:
            for value in _others(self.start, name):
                points, error = self._contrast(name, value)
                words = str(value) if name == "crop" else "on" if value else "off"
                effects.append(Effect(name, words, points, error))
        return effects

    def _contrast(self, name: str, value: Any) -> tuple[float, float]:
        """The effect of one value of a factor against the start's: part of the model, so its posterior is exact."""
        j = self.free.index(name)
        code = self._codes([replace(self.start, **{name: value})])[0, j]
        if not len(self.observations):
            return _expected(name), float(EFFECT)
        seen, factor, residual = self._solved
        half = EFFECT**2 / 2
        between = half * ((seen[:, j] == code).astype(float) - (seen[:, j] == 0))
        points = _expected(name) + between @ linalg.cho_solve(factor, residual)
        variance = EFFECT**2 - between @ linalg.cho_solve(factor, between)
        return float(points), float(np.sqrt(max(variance, 0.0)))


def _expected(factor: str) -> float:
    """What a departure from the recipe in this factor gains before any pilot, in points."""
    return KEPT if factor == "keep" else -DEPARTURE


def _indicators(codes: NDArray[np.int64], code: np.int64) -> Numbers:
    """1 where a factor has this value."""
    return (codes == code).astype(np.float64)


def factor_names() -> list[str]:
    """All factors, in the order of a family's fields."""
    return [f.name for f in fields(Family) if f.name in FACTORS]
