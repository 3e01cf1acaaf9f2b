"""What is chosen without labels: the recipe, and no mirror where mirror images stand out.

Of all that was tried (how well encoders tell quarter turns apart, find images again, how many dimensions they use, how
far pilots agree, and changes that helped on average on other sets), only one signal foretold which views are useful on
sets that it was not fitted to: where mirror images can be told from images, mirroring harms. See docs/results.md.
"""

from collections.abc import Sequence
from dataclasses import replace

from coviews.choosing.model import Effect
from coviews.choosing.verdict import Standing, Verdict
from coviews.policies.factors import Family

PILOTS = 2  # with the recipe's views, but not mirrored: they can tell mirror images
# Points that it gains not to mirror: for each percent by which mirror images are told apart beyond chance
_PER_PERCENT, _BY_CHANCE, _WITHOUT = 0.13, 53.0, -0.7
_MIRROR_ERROR = 0.7


def pilot_family(start: Family) -> Family:
    """What the pilots are trained with."""
    return replace(start, mirror=False)


def verdict_without_labels(start: Family, free: Sequence[str], mirrored: Sequence[float]) -> Verdict:
    """The family to take; mirrored: how well each pilot tells mirror images, in percent."""
    if not mirrored or "mirror" not in free:
        return Verdict(start, start, 0.0, 0.0, (), (Standing(start, 0.0, 0.0, 0.0, 0),), labelled=False)
    points = _WITHOUT + _PER_PERCENT * (sum(mirrored) / len(mirrored) - _BY_CHANCE)
    effect = Effect("mirror", "off", points, _MIRROR_ERROR)
    other = Standing(pilot_family(start), points, points, _MIRROR_ERROR, len(mirrored))
    standings = sorted([other, Standing(start, 0.0, 0.0, 0.0, 0)], key=lambda standing: -standing.score)
    if points <= 0:
        return Verdict(start, start, 0.0, 0.0, (effect,), tuple(standings), labelled=False)
    return Verdict(other.family, start, points, _MIRROR_ERROR, (effect,), tuple(standings), labelled=False)
