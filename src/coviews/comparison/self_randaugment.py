"""SelfRandAugment: RandAugment's two numbers, chosen without labels by the rotation probe of short trainings.

Reed et al., SelfAugment: Automatic Augmentation Policies for Self-Supervised Learning, CVPR 2021. A pilot is trained
with each number of operations (N) and each magnitude (M) of a grid; the encoder that tells quarter turns best wins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coviews.comparison.compare import carry_out, failure, protocol
from coviews.comparison.pilot_folder import pilot_settings
from coviews.comparison.plan import Plan
from coviews.comparison.search_time import timed_search
from coviews.errors import CoviewsError
from coviews.runs.settings import PretrainSettings

STEPS, MAGNITUDES = (1, 2, 3), (3, 9, 15)


@dataclass(frozen=True)
class RandAugmentChoice:
    """What the pilots say."""

    settings: PretrainSettings
    """The settings with RandAugment of the best pilot."""
    scores: dict[tuple[int, int], float]
    """The rotation probe of each pilot, a share in 0..1, by its operations and its magnitude."""

    @property
    def sentence(self) -> str:
        """For a reader."""
        s, (first, second) = self.settings, sorted(self.scores.values(), reverse=True)[:2]
        return (
            f"RandAugment with {s.randaugment_steps} operation{'s' * (s.randaugment_steps > 1)} at magnitude "
            f"{s.magnitude}: the rotation probe of its pilot is {first:.3f}, that of the next best {second:.3f}."
        )


def self_randaugment(
    settings: PretrainSettings,
    out: str | Path,
    *,
    epochs: int | None = None,
    steps: Sequence[int] = STEPS,
    magnitudes: Sequence[int] = MAGNITUDES,
    jobs: int = 1,
    progress: bool = True,
) -> RandAugmentChoice:
    """Train a pilot with each number of operations and each magnitude, and choose by the rotation probe.

    Called again with the same folder it goes on where it was.

    Args:
        settings: of the training that is to follow.
        out: the folder for the pilots.
        epochs: of each pilot; by default a tenth of those of the training.
        steps: numbers of operations in a row.
        magnitudes: of 0 to 30.
        jobs: pilots at once.
        progress: show what is going on.
    """
    grid = [(n, m) for n in steps for m in magnitudes]
    if len(set(grid)) < 2:
        raise CoviewsError("SelfRandAugment needs two different pairs of operations and magnitude to choose from")
    shared = pilot_settings(settings, "randaugment", epochs)
    variants = {f"N={n} M={m}": shared.replaced(randaugment_steps=n, magnitude=m) for n, m in grid}
    plan = Plan(variants, (settings.seed,), {**protocol(None, False), "baselines": False})
    with timed_search(Path(out)):
        comparison = carry_out(plan, Path(out), jobs=jobs, progress=progress)
    if comparison.failed:
        raise failure(comparison.failed)
    scores = {}
    for (n, m), name in zip(grid, variants, strict=True):
        result = comparison.results.get(name, settings.seed)
        if result is None or "rotation" not in result.quality:
            raise CoviewsError("SelfRandAugment needs square images: the shape of others gives a quarter turn away")
        scores[n, m] = result.quality["rotation"]
    best_steps, best_magnitude = max(scores, key=lambda pair: scores[pair])  # of equals the mildest
    chosen = settings.replaced(views="randaugment", randaugment_steps=best_steps, magnitude=best_magnitude)
    return RandAugmentChoice(chosen, scores)
