"""What is chosen without labels: the recipe, and what lets an encoder keep what views change.

The keeping head helped on average over the sets of images that were studied, and was nowhere far behind the best views.
Plain pairs helped where there is no colour that an encoder should ignore: on grey images, and where images that look
alike without colour also have the same colour; there, a strong head helped, too. Where mirror images can be told from
images, mirroring harms, and so did the head.

Other signals (how well encoders tell quarter turns apart, find images again, how many dimensions they use, how far
pilots agree on which images are alike) did not foretell which views are useful on sets that they were not fitted to.
See docs/results.md.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from coviews.choosing.model import GAINS, Effect
from coviews.choosing.verdict import Standing, Verdict
from coviews.policies.factors import FACTORS, Family

PILOTS = 2  # with the recipe's views, but not mirrored: they can tell mirror images
# Points that it gains not to mirror: for each percent by which mirror images are told apart beyond chance. A line
# through what it gained on six sets: -0.1 on average where 50 to 60 % are told apart, 4 where 83 to 88 % are
_PER_PERCENT, _BY_CHANCE, _WITHOUT = 0.2, 53.0, -0.7
_MIRROR = 1.5  # points: the standard deviation of that
_CLEARLY = 2.5  # standard deviations: where mirror images stand out by less, mirroring did no harm
_KEPT = -2.5  # points that the keeping head gains where mirror images stand out: the mean of two sets
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


def seen_gains(
    free: Sequence[str], mirrored: Sequence[float], alike_in_colour: float | None
) -> dict[tuple[str, Any], float]:
    """Points that changes of the recipe gain, as far as the images show it; the arguments of `verdict_without_labels`.

    A choice with labels begins with them.
    """
    if not mirrored or "mirror" not in free or belong_to_things(alike_in_colour):
        return {}
    unmirrored = {("mirror", False): unmirrored_gain(mirrored)}
    return unmirrored | {("keep", value): _KEPT for value in ("some", "much") if stands_out(mirrored)}


def stands_out(mirrored: Sequence[float]) -> bool:
    """Whether mirror images can clearly be told."""
    return unmirrored_gain(mirrored) > _CLEARLY * _MIRROR


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
    if gains := seen_gains(free, mirrored, alike_in_colour):
        effect = Effect("mirror", "off", gains["mirror", False], _MIRROR)
        (made if stands_out(mirrored) else seen).append(effect)
        family = replace(family, mirror=not stands_out(mirrored))
    if family == start and "keep" in free:
        family = replace(family, keep="much" if of_things else "some")
        made.append(Effect("keep", family.keep, *GAINS["keep", family.keep]))
    if "plain" in free:
        family = replace(family, plain=True)
        made.append(Effect("plain", "on", *GAINS["plain", True]))
    gain, error = sum(e.points for e in made), sum(e.error**2 for e in made) ** 0.5
    standings = [Standing(family, gain, gain, error, 0)] if made else []
    standings.append(Standing(start, 0.0, 0.0, 0.0, 0))
    return Verdict(family, start, gain, error, (*made, *seen), tuple(standings), labelled=False)


def may_be_plain(start: Family, locked: Collection[str], alike_in_colour: float | None) -> bool:
    """Whether plain pairs may help: where there is no colour to ignore; views without operations must be no copies.

    Args:
        start: the recipe, with what is locked.
        locked: the factors that are not decided; where an operation is asked for, it is in every pair.
        alike_in_colour: as in `verdict_without_labels`.
    """
    asked_for = any(FACTORS[name].ops and start.is_on(name) for name in locked)
    colour_to_ignore = start.colour and not belong_to_things(alike_in_colour)
    return not colour_to_ignore and start.source().changes and start.crop != "whole" and not asked_for
