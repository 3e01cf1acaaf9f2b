"""What is chosen without labels: the recipe, and what lets an encoder keep what views change.

The keeping head helped on average over the sets of images that were studied, and was nowhere far behind the best views.
Plain pairs helped where there is no colour that an encoder should ignore: on grey images, and where images that look
alike without colour also have the same colour; there, a strong head helped, too. Where mirror images can be told from
images, mirroring harms, and so did the head.

Other signals (how well encoders tell quarter turns apart, find images again, how many dimensions they use, how far
pilots agree) did not foretell which views are useful on sets that they were not fitted to. See docs/results.md.
"""

from collections.abc import Sequence
from dataclasses import replace

from coviews.choosing.model import KEPT, Effect
from coviews.choosing.verdict import Standing, Verdict
from coviews.policies.factors import FACTORS, Family

PILOTS = 2  # with the recipe's views, but not mirrored: they can tell mirror images
# Points that it gains not to mirror: for each percent by which mirror images are told apart beyond chance. A line
# through what it gained on six sets: -0.1 on average where 50 to 60 % are told apart, 4 where 83 to 88 % are
_PER_PERCENT, _BY_CHANCE, _WITHOUT = 0.2, 53.0, -0.7
_MIRROR = 1.5  # points: the standard deviation of that
_CLEARLY = 2.5  # standard deviations: where mirror images stand out by less, mirroring did no harm
# Points that plain pairs gain: mean and standard deviation over the five sets where they are used
PLAIN_GAIN = (1.2, 1.0)
_OF_THINGS = 0.75  # alikeness in colour from which on colours belong to things: 0.97 on fruits, at most 0.53 elsewhere


def belong_to_things(alike_in_colour: float | None) -> bool:
    """Whether colours belong to things: images that look alike without colour also have the same colour.

    There are then several images of the same thing, which an encoder remembers from whatever side: so it says nothing
    of views if it tells their mirror images.
    """
    return alike_in_colour is not None and alike_in_colour > _OF_THINGS


def pilot_family(start: Family) -> Family:
    """What the pilots are trained with."""
    return replace(start, mirror=False)


def unmirrored_gain(mirrored: Sequence[float]) -> float:
    """Points that it gains not to mirror, by how well each pilot tells mirror images, in percent."""
    return _WITHOUT + _PER_PERCENT * (sum(mirrored) / len(mirrored) - _BY_CHANCE)


def verdict_without_labels(
    start: Family, free: Sequence[str], mirrored: Sequence[float], alike_in_colour: float | None
) -> Verdict:
    """The family to take.

    Args:
        start: the recipe, with what is locked.
        free: the factors that are not locked.
        mirrored: how well each pilot tells mirror images, in percent.
        alike_in_colour: see `signals.alike_in_colour`; None for images without colours.
    """
    family = start
    made: list[Effect] = []
    seen: list[Effect] = []  # what is not made
    of_things = belong_to_things(alike_in_colour)
    if mirrored and "mirror" in free and not of_things:
        effect = Effect("mirror", "off", unmirrored_gain(mirrored), _MIRROR)
        stands_out = effect.points > _CLEARLY * _MIRROR
        (made if stands_out else seen).append(effect)
        family = replace(family, mirror=not stands_out)
    if family == start and "keep" in free:
        family = replace(family, keep="much" if of_things else "some")
        made.append(Effect("keep", family.keep, *KEPT[family.keep]))
    if (of_things or not start.colour) and _may_be_plain(start, free):
        family = replace(family, plain=True)
        made.append(Effect("plain", "on", *PLAIN_GAIN))
    gain, error = sum(e.points for e in made), sum(e.error**2 for e in made) ** 0.5
    standings = [Standing(family, gain, gain, error, 0)] if made else []
    standings.append(Standing(start, 0.0, 0.0, 0.0, 0))
    return Verdict(family, start, gain, error, (*made, *seen), tuple(standings), labelled=False)


def _may_be_plain(start: Family, free: Sequence[str]) -> bool:
    """Whether views without operations are others than the rest, are no copies, and no operation is in every pair."""
    asked_for = any(f.ops and name not in free and start.is_on(name) for name, f in FACTORS.items())
    return start.source().changes and start.crop != "whole" and not asked_for
