"""What is chosen without labels: what helped on all development sets, and no mirror where mirror images stand out.

Of all that was tried (how well encoders tell quarter turns apart, find images again, how many dimensions they use, how
far pilots agree), only one signal foretold which views are useful on sets that it was not fitted to: where mirror
images can be told from images, mirroring harms. docs/results.md has the study.
"""

from collections.abc import Sequence
from dataclasses import replace

from coviews.choosing.model import Effect
from coviews.choosing.verdict import Standing, Verdict
from coviews.policies.factors import Family

PILOTS = 2  # with the recipe's views, but not mirrored: they can tell mirror images
# Points that a change of the recipe gained on five sets of images, and the standard deviation over the sets
HELPFUL = {"cutout": (0.9, 1.0)}
# Points that it gains not to mirror: for each percent by which mirror images are told apart beyond chance
_PER_PERCENT, _BY_CHANCE, _WITHOUT = 0.13, 53.0, -0.7
_MIRROR_ERROR = 0.7


def pilot_family(start: Family) -> Family:
    """What the pilots are trained with."""
    return replace(start, mirror=False)


def verdict_without_labels(start: Family, free: Sequence[str], mirrored: Sequence[float]) -> Verdict:
    """The family to take; mirrored: how well each pilot tells mirror images, in percent."""
    effects = [Effect(name, "on", *HELPFUL[name]) for name in free if name in HELPFUL and not getattr(start, name)]
    if mirrored and "mirror" in free:
        accuracy = sum(mirrored) / len(mirrored)
        points = _WITHOUT + _PER_PERCENT * (accuracy - _BY_CHANCE)
        effects.append(Effect("mirror", "off", points, _MIRROR_ERROR))
    changes = [e for e in effects if e.points > 0]
    family = replace(start, **{e.factor: e.value == "on" for e in changes})  # type: ignore[arg-type]
    gain, error = sum(e.points for e in changes), sum(e.error**2 for e in changes) ** 0.5
    standings = [Standing(start, 0.0, 0.0, 0.0, 0)]
    if changes:
        standings.insert(0, Standing(family, gain, gain, error, 0))
    return Verdict(family, start, gain, error, tuple(effects), tuple(standings), labelled=False)
