"""How `choose` should spend the pilots after its screening: on the family that looks best, or on others?

Worlds are drawn from the model of `choose`, their effects scaled to those of real sets; in each, pilots are tried as
`choose` does, each with the noise of a training and of few labels. A round of two pilots has none, one or two leaders.

    python benchmarks/choose_rounds.py --worlds 40
"""

import argparse
import math

import numpy as np

from coviews.choosing.design import most_promising, screening
from coviews.choosing.model import FamilyModel, Observations, factor_names, families
from coviews.choosing.verdict import verdict
from coviews.policies.factors import RECIPE, Family

FREE = tuple(name for name in factor_names() if name != "plain")
SCALE = 0.75  # of the effects in a world, times those that the model expects
TRAINING, LABELS = 2.0, 2.0  # points: the standard deviation of a pilot's noise, and of what few labels misjudge
ALIKE = 0.75  # correlation of what labels misjudge, for each factor that differs
PER_ROUND = 2


def model_of(tried: list[Family], scores: list[float]) -> FamilyModel:
    """What is believed after some pilots; what their labels misjudge is known on average."""
    values = np.array([[getattr(f, name) for name in FREE] for f in tried], dtype=object).reshape(len(tried), -1)
    apart = (values[:, None] != values[None]).sum(2)
    errors = LABELS**2 * ALIKE**apart + 1e-6 * np.eye(len(tried))
    return FamilyModel(RECIPE, FREE, Observations(tuple(tried), np.array(scores), errors))


def points_lost(leaders: int, pilots: int, seed: int) -> tuple[float, float]:
    """The gain of the choice over the recipe in one world, and how far it is behind the best family of all."""
    every = families(RECIPE, FREE)
    before = FamilyModel(RECIPE, FREE, Observations((), np.zeros(0), np.zeros((0, 0))))
    generator = np.random.default_rng(seed)
    expected = before.expected(every)
    truth = dict(zip(every, expected + SCALE * (before.draw(1, generator)[0] - expected), strict=True))
    tried: list[Family] = []
    scores: list[float] = []
    misjudged: list[float] = []

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

    for family in [*screening(RECIPE, FREE), RECIPE]:
        pilot(family)
    while len(tried) < pilots:
        count = min(PER_ROUND, pilots - len(tried))
        for family in most_promising(model_of(tried, scores), count, min(leaders, count), generator):
            pilot(family)
    choice = truth[verdict(model_of(tried, scores), tried).family]
    return choice - truth[RECIPE], max(truth.values()) - choice


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--pilots", type=int, default=24)
    args = parser.parse_args()
    lost = {n: np.array([points_lost(n, args.pilots, seed) for seed in range(args.worlds)]) for n in (0, 1, 2)}
    for leaders, points in lost.items():
        (gain, behind), more = points.mean(0), points[:, 0] - lost[0][:, 0]
        error = more.std() / math.sqrt(len(more))
        print(
            f"{leaders} of {PER_ROUND} pilots of a round are leaders: {gain:.2f} points over the recipe, {behind:.2f} "
            f"behind the best of all; {more.mean():+.2f} ± {error:.2f} over none"
        )


if __name__ == "__main__":
    main()
