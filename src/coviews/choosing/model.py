"""What pilots teach about factors: a Gaussian model of the score of every family, fitted to all pilots at once.

    score(family) = mean + effect of each factor + what the family has beyond its factors + noise

Each part is Gaussian, so the model is a Gaussian process over families. It gives the effect of each factor, and the
expected score of every family, tried or not, with its uncertainty.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from coviews.policies.factors import KEEPS, Family, value_in_words

Numbers = NDArray[np.float64]

TRIED = {"crop": ("large", "small", "tiny"), "keep": KEEPS}  # the values of factors that are not only on or off
_MEAN = 30.0  # points: the standard deviation of the overall mean, which the pilots decide
# Standard deviations in points: of a factor's effect, of what a family has beyond its factors, and of the noise of a
# pilot beside that of its score. Fitted to the scores of a dozen pilots they were often far too small, and the choice
# missed effects of ten points; these gave the best choices on five sets with labels drawn 20 times (docs/results.md).
EFFECT, BEYOND, NOISE = 2.5, 2.0, 1.5
_EFFECTS = {"keep": 4.0}  # the same for factors whose effects are known to differ more
_ALIKE = 0.6  # correlation, for each factor that differs, of what families have beyond their factors
DEPARTURE = 0.1  # points that each departure from the recipe is expected to cost, before any pilot
# Points that a change gained on other sets of images, mean and standard deviation (docs/results.md)
GAINS: dict[tuple[str, Any], tuple[float, float]] = {
    ("keep", "some"): (3.0, 3.0),
    ("keep", "much"): (3.6, 5.9),
    ("plain", True): (1.2, 1.0),  # where pilots try it: where there is no colour to ignore
}


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
    choices = [[getattr(start, name), *other_values(start, name)] for name in free]
    return [replace(start, **dict(zip(free, values, strict=True))) for values in itertools.product(*choices)]


def other_values(start: Family, name: str) -> list[Any]:
    """The values that a factor may be changed to."""
    return [value for value in TRIED.get(name, (False, True)) if value != getattr(start, name)]


@dataclass(frozen=True, eq=False)
class FamilyModel:
    """The model after some pilots."""

    start: Family  # the recipe with its locks: effects are changes from it
    free: tuple[str, ...]  # the factors that are not locked
    observations: Observations
    signs: Mapping[tuple[str, Any], float] = field(default_factory=dict)  # points that a change gains, seen in images

    def _codes(self, some: Sequence[Family]) -> NDArray[np.int64]:
        """(n, F): the value of each free factor, 0 where it is the start's."""
        codes = np.zeros((len(some), len(self.free)), np.int64)
        for j, name in enumerate(self.free):
            codes[:, j] = [self._code(name, getattr(family, name)) for family in some]
        return codes

    def _prior_mean(self, codes: NDArray[np.int64]) -> Numbers:
        mean = np.zeros(len(codes))
        for j, name in enumerate(self.free):
            for value in other_values(self.start, name):
                mean[codes[:, j] == self._code(name, value)] += self._expected(name, value)
        return mean

    def _expected(self, name: str, value: Any) -> float:
        """What this departure from the recipe gains before any pilot is judged by labels, in points."""
        general = GAINS[name, value][0] if (name, value) in GAINS else -DEPARTURE
        return self.signs.get((name, value), general)

    def _code(self, name: str, value: Any) -> int:
        """Of a value of a factor: 0 for the start's."""
        values, home = TRIED.get(name, (False, True)), getattr(self.start, name)
        return values.index(value) - (values.index(home) if home in values else 0)

    def _covariance(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> Numbers:
        factors = np.zeros((len(a), len(b)))
        beyond = np.full((len(a), len(b)), BEYOND**2)
        for j, name in enumerate(self.free):
            same = a[:, j, None] == b[:, j]
            factors += same * _value_variance(name)
            beyond *= np.where(same, 1.0, _ALIKE)
        return _MEAN**2 + factors + beyond

    @property
    def _solved(self) -> tuple[NDArray[np.int64], Any, Numbers]:
        seen = self.observations
        codes = self._codes(seen.families)
        noise = seen.errors + NOISE**2 * np.eye(len(seen))
        factor = linalg.cho_factor(self._covariance(codes, codes) + noise, lower=True)
        residual = seen.scores - self._prior_mean(codes)
        return codes, factor, residual

    def expected(self, some: Sequence[Family]) -> Numbers:
        """The expected scores (n,) of families."""
        codes = self._codes(some)
        mean = self._prior_mean(codes)
        if not len(self.observations):
            return mean
        seen, factor, residual = self._solved
        return mean + self._covariance(codes, seen) @ linalg.cho_solve(factor, residual)

    def predict(self, some: Sequence[Family]) -> tuple[Numbers, Numbers]:
        """The expected scores (n,) of families, and their covariance (n, n)."""
        codes = self._codes(some)
        covariance = self._covariance(codes, codes)
        if len(self.observations):
            seen, factor, _ = self._solved
            between = self._covariance(codes, seen)
            covariance -= between @ linalg.cho_solve(factor, between.T)
        return self.expected(some), covariance

    def gains(self, some: Sequence[Family], over: Family) -> tuple[Numbers, Numbers]:
        """By how much each family is better than another one, in points (n,), and the standard deviations (n,)."""
        codes, base = self._codes(some), self._codes([over])
        variance = 2 * self._covariance(base, base)[0] - 2 * self._covariance(codes, base)[:, 0]
        if len(self.observations):
            seen, factor, _ = self._solved
            between = self._covariance(codes, seen) - self._covariance(base, seen)
            variance = variance - np.sum(between * linalg.cho_solve(factor, between.T).T, 1)
        points = self.expected(some) - self.expected([over])
        return points, np.sqrt(np.maximum(variance, 0.0))

    def outlook(self, some: Sequence[Family]) -> tuple[Numbers, Numbers]:
        """What one more pilot of each family would tell of all of them.

        Returns:
            The covariance (n, n) of each family's score with the result of a pilot of each, and that (n, n) of the
            results of pilots. Labels that misjudge a family misjudge it again, if it is tried again.
        """
        codes, (seen, factor, _) = self._codes(some), self._solved
        errors, tried = self.observations.errors, self.observations.families
        scores = self._covariance(codes, seen)
        place = {family: i for i, family in reversed(list(enumerate(tried)))}  # of its first pilot
        rows = np.array([i for i, family in enumerate(some) if family in place], np.int64)
        before = np.array([place[some[i]] for i in rows], np.int64)
        again, own = np.zeros_like(scores), np.eye(len(some)) * errors.diagonal().mean()
        again[rows] = errors[before]
        own[np.ix_(rows, rows)] = errors[np.ix_(before, before)]
        known = linalg.cho_solve(factor, (scores + again).T)
        prior = self._covariance(codes, codes)
        results = prior + own + NOISE**2 * np.eye(len(some)) - (scores + again) @ known
        return prior - scores @ known, results

    def effects(self) -> list[Effect]:
        """What the change of each free factor from the recipe does, over all families alike."""
        effects = []
        for name in self.free:
            for value in other_values(self.start, name):
                points, error = self._contrast(name, value)
                effects.append(Effect(name, value_in_words(value), points, error))
        return effects

    def _contrast(self, name: str, value: Any) -> tuple[float, float]:
        """The effect of one value of a factor against the start's: part of the model, so its posterior is exact."""
        j, half = self.free.index(name), _value_variance(name)
        if not len(self.observations):
            return self._expected(name, value), float(np.sqrt(2 * half))
        seen, factor, residual = self._solved
        between = half * ((seen[:, j] == self._code(name, value)).astype(float) - (seen[:, j] == 0))
        points = self._expected(name, value) + between @ linalg.cho_solve(factor, residual)
        variance = 2 * half - between @ linalg.cho_solve(factor, between)
        return float(points), float(np.sqrt(max(variance, 0.0)))


def _value_variance(factor: str) -> float:
    """Of each value of a factor: an effect is the difference of two of them, so each has half of its variance."""
    return _EFFECTS.get(factor, EFFECT) ** 2 / 2


def factor_names() -> list[str]:
    """The factors that pilots decide, in the order of a family's fields."""
    return [f.name for f in fields(Family)]
