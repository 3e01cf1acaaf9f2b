"""Which variant wins, and whether by more than the noise of the seeds."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """The mean difference of two variants trained with the same seeds, and its 95 % interval."""

    mean: float
    half: float  # of the interval's width; infinite with one seed
    seeds: int

    @property
    def beyond_noise(self) -> bool:
        """Whether the interval excludes zero."""
        return abs(self.mean) > self.half

    def __str__(self) -> str:
        mean = f"{round(self.mean, 1) + 0.0:+.1f}"  # + 0.0: no "-0.0"
        return mean if math.isinf(self.half) else f"{mean} ± {self.half:.1f}"


def paired(one: Mapping[int, float], other: Mapping[int, float], step: float = 0.0) -> Difference | None:
    """The difference over the seeds that both have.

    step: what one test image more or less makes. Differences of few seeds on few images can be equal by chance, so
        they count as at least as uncertain as two rounded numbers are.
    """
    gaps = [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]
    if not gaps:
        return None
    if len(gaps) == 1:
        return Difference(gaps[0], math.inf, 1)
    from scipy.special import stdtrit  # takes a moment to load

    t = float(stdtrit(len(gaps) - 1, 0.975))  # Student's t: 97.5 % lie below
    deviation = max(statistics.stdev(gaps), step / math.sqrt(6))  # a rounded number has the variance step² / 12
    return Difference(statistics.fmean(gaps), t * deviation / math.sqrt(len(gaps)), len(gaps))


def winner_sentence(scores: Mapping[str, Mapping[int, float]], measure: str, step: float = 0.0) -> str:
    """Which variant wins, in one sentence; scores in percent by variant and seed, `step` is one test image's share."""
    known = {name: by_seed for name, by_seed in scores.items() if by_seed}
    if not known:
        return "Without labels there is no accuracy, and nobody wins: RankMe and its like tell how features are spread."
    ranked = sorted(known, key=lambda name: -statistics.fmean(known[name].values()))
    best = ranked[0]
    top = f"{best} is first by {measure} with {statistics.fmean(known[best].values()):.1f} %"
    if len(ranked) == 1:
        return (
            f"{best} has {statistics.fmean(known[best].values()):.1f} % by {measure}; there is nothing to compare with."
        )
    gap = paired(known[best], known[ranked[1]], step)
    if gap is None:
        return f"{top}, but {ranked[1]}, the next, has no seed in common with it."
    if gap.seeds == 1:
        return (
            f"{top}, {gap.mean:.1f} points above {ranked[1]}: one seed cannot tell whether that is chance "
            "(give --seeds 3)."
        )
    interval = f"{gap.mean - gap.half:+.1f} to {gap.mean + gap.half:+.1f}, 95 % interval over {gap.seeds} paired seeds"
    if gap.beyond_noise:
        return f"{top}, {gap.mean:.1f} points above {ranked[1]}, the next: more than the noise ({interval})."
    similar = [name for name in ranked[1:] if not _apart(known[best], known[name], step)]
    below = f"{ranked[1]} is {gap.mean:.1f} points below ({interval})"
    return f"{top}, but it cannot be told from {_listed(similar)}: {below}."


def _apart(one: Mapping[int, float], other: Mapping[int, float], step: float) -> bool:
    gap = paired(one, other, step)
    return gap is not None and gap.beyond_noise


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
