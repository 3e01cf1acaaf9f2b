"""How should `choose` spend the pilots after its screening, and how many?

Worlds are drawn from the model of `choose`, their effects scaled to those of real sets. In each, pilots are tried as
`choose` does, two at a time, each with the noise of a training and of few labels: by the knowledge gradient, by
Thompson sampling (the best of a world drawn from what is believed), or by Thompson sampling with the family that looks
best as one of the two.

    python benchmarks/choose_rounds.py --worlds 40
"""

import argparse
import math
from collections.abc import Callable
from functools import cache
from multiprocessing import Pool

import numpy as np

from coviews.choosing.design import expected_best, most_informative, screening
from coviews.choosing.model import FamilyModel, Observations, factor_names, families
from coviews.choosing.verdict import verdict
from coviews.policies.factors import RECIPE, Family

FREE = tuple(name for name in factor_names() if name != "plain")
SCALE = 0.75  # of the effects in a world, times those that the model expects
TRAINING, LABELS = 2.0, 2.0  # points: the standard deviation of a pilot's noise, and of what few labels misjudge
ALIKE = 0.75  # correlation of what labels misjudge, for each factor that differs
LENGTHS = (18, 24, 30, 36)  # pilots in all
NOTHING = Observations((), np.zeros(0), np.zeros((0, 0)))


def model_of(tried: list[Family], scores: list[float]) -> FamilyModel:
    """What is believed after some pilots; what their labels misjudge is known on average."""
    values = np.array([[getattr(f, name) for name in FREE] for f in tried], dtype=object).reshape(len(tried), -1)
    apart = (values[:, None] != values[None]).sum(2)
    errors = LABELS**2 * ALIKE**apart + 1e-6 * np.eye(len(tried))
    return FamilyModel(RECIPE, FREE, Observations(tuple(tried), np.array(scores), errors))


@cache
def beliefs() -> tuple[np.ndarray, np.ndarray]:
    """What is expected of every family before any pilot, and the Cholesky factor of how far it may be off."""
    mean, covariance = FamilyModel(RECIPE, FREE, NOTHING).predict(families(RECIPE, FREE))
    covariance -= covariance.min() - 1.0  # what all families have in common does not matter
    return mean, np.linalg.cholesky(covariance + 1e-6 * np.eye(len(mean)))


def thompson(model: FamilyModel, generator: np.random.Generator) -> Family:
    """The best family of a world drawn from what is believed: one from before, corrected by what was seen."""
    every, seen = families(RECIPE, FREE), model.observations
    off = beliefs()[1] @ generator.standard_normal(len(every))
    noise = np.linalg.cholesky(seen.errors + 1.5**2 * np.eye(len(seen))) @ generator.standard_normal(len(seen))
    scores = off[[every.index(f) for f in seen.families]] + noise
    corrected = FamilyModel(RECIPE, FREE, Observations(seen.families, seen.scores - scores, seen.errors))
    return every[int((corrected.expected(every) + off).argmax())]


def leader_and_thompson(model: FamilyModel, generator: np.random.Generator) -> list[Family]:
    return [expected_best(model), thompson(model, generator)]


WAYS: dict[str, Callable[[FamilyModel, np.random.Generator], list[Family]]] = {
    "Thompson sampling": lambda model, generator: [thompson(model, generator) for _ in range(2)],
    "the best and Thompson sampling": leader_and_thompson,
    "knowledge gradient": lambda model, _: most_informative(model, 2),
}


def points_lost(way: str, seed: int) -> list[float]:
    """How far the choices after so many pilots are behind the best family of all in one world."""
    every, generator = families(RECIPE, FREE), np.random.default_rng(seed)
    mean, factor = beliefs()
    truth = dict(zip(every, mean + SCALE * (factor @ generator.standard_normal(len(every))), strict=True))
    tried: list[Family] = []
    scores: list[float] = []
    misjudged: list[float] = []
    lost: list[float] = []

    def pilot(family: Family) -> None:
        if family in tried:
            error = misjudged[tried.index(family)]
        else:  # drawn given those of the families that were tried
            errors = model_of([*tried, family], [0.0] * (len(tried) + 1)).observations.errors
            weights = np.linalg.solve(errors[:-1, :-1], errors[:-1, -1])
            left = errors[-1, -1] - weights @ errors[:-1, -1]
            error = float(weights @ np.array(misjudged)) + math.sqrt(max(left, 0)) * generator.standard_normal()
        tried.append(family)
        misjudged.append(error)
        scores.append(truth[family] + error + TRAINING * generator.standard_normal())

    for family in [*screening(RECIPE, FREE), RECIPE, expected_best(FamilyModel(RECIPE, FREE, NOTHING))]:
        pilot(family)
    while len(tried) < LENGTHS[-1]:
        for family in WAYS[way](model_of(tried, scores), generator):
            pilot(family)
        if len(tried) in LENGTHS:
            choice = truth[verdict(model_of(tried, scores), tried).family]
            lost.append(max(truth.values()) - choice)
    return lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    beliefs()
    with Pool(args.jobs) as pool:
        jobs = [(way, seed) for way in WAYS for seed in range(args.worlds)]
        every = np.array(pool.starmap(points_lost, jobs, chunksize=1)).reshape(len(WAYS), args.worlds, -1)
    print(f"points behind the best family of all, mean ± standard error, after {LENGTHS} pilots:")
    for way, lost in zip(WAYS, every, strict=True):
        print(f"{way}: {in_words(lost)}")
        if way != next(iter(WAYS)):
            print(f"    more than the first: {in_words(lost - every[0])}")


def in_words(points: np.ndarray) -> str:
    """Means and standard errors over worlds."""
    means, errors = points.mean(0), points.std(0, ddof=1) / math.sqrt(len(points))
    return ", ".join(f"{mean:.2f} ± {error:.2f}" for mean, error in zip(means, errors, strict=True))


if __name__ == "__main__":
    main()
