"""What is chosen without labels: the recipe, not mirrored where mirror images stand out, else with the keeping head.

A strong keeping head helped most on average over the sets of images that were studied, and was nowhere far behind the
best views. But on views that were not mirrored because mirror images stand out, it did harm: so only the change that
promises more is made.

Of all signals that were tried (how well encoders tell quarter turns apart, find images again, how many dimensions they
use, how far pilots agree), only one foretold which views are useful on sets that it was not fitted to: where mirror
images can be told from images, mirroring harms. See docs/results.md.
"""

from collections.abc import Sequence
from dataclasses import replace

from coviews.choosing.model import KEPT, Effect
from coviews.choosing.verdict import Standing, Verdict
from coviews.policies.factors import Family

PILOTS = 2  # with the recipe's views, but not mirrored: they can tell mirror images
# Points that it gains not to mirror: for each percent by which mirror images are told apart beyond chance. A line
# through what it gained on five sets: -0.6 on average where 50 to 64 % are told apart, 7 where 87 % are
_PER_PERCENT, _BY_CHANCE, _WITHOUT = 0.2, 53.0, -0.7
_MIRROR_ERROR = 1.5


def pilot_family(start: Family) -> Family:
    """What the pilots are trained with."""
    return replace(start, mirror=False)


def unmirrored_gain(mirrored: Sequence[float]) -> float:
    """Points that it gains not to mirror, by how well each pilot tells mirror images, in percent."""
    return _WITHOUT + _PER_PERCENT * (sum(mirrored) / len(mirrored) - _BY_CHANCE)


def verdict_without_labels(start: Family, free: Sequence[str], mirrored: Sequence[float]) -> Verdict:
    """The family to take; mirrored: how well each pilot tells mirror images, in percent."""
    effects = []
    if mirrored and "mirror" in free:
        effects.append(Effect("mirror", "off", unmirrored_gain(mirrored), _MIRROR_ERROR))
    if "keep" in free:
        effects += [Effect("keep", value, *KEPT[value]) for value in KEPT]
    best = max(effects, key=lambda e: e.points, default=None)
    if best is None or best.points <= 0:
        return Verdict(start, start, 0.0, 0.0, tuple(effects), (Standing(start, 0.0, 0.0, 0.0, 0),), labelled=False)
    family = replace(start, mirror=False) if best.factor == "mirror" else replace(start, keep=best.value)
    standings = (Standing(family, best.points, best.points, best.error, 0), Standing(start, 0.0, 0.0, 0.0, 0))
    return Verdict(family, start, best.points, best.error, tuple(effects), standings, labelled=False)
