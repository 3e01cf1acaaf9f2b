"""What the pilots say: the family to take, the effect of each factor, and one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

from coviews.choosing.model import Effect, FamilyModel
from coviews.policies.factors import FACTORS, Family, change_in_words, listed, value_in_words

# Standard deviations by which a family must be better than the recipe to be taken: with more, choices from few labels
# keep the recipe where it is far behind (docs/results.md)
BEYOND_NOISE = 1.0


@dataclass(frozen=True)
class Standing:
    """A family that was tried."""

    family: Family
    score: float  # expected, in points: an accuracy where there are labels, or relative to the mean of all pilots
    gain: float  # over the recipe
    error: float  # standard deviation of the gain
    pilots: int


@dataclass(frozen=True)
class Verdict:
    """The family to take, and why."""

    family: Family
    recipe: Family  # the recipe, with what is locked
    gain: float  # of the family over the recipe, in points
    error: float  # its standard deviation
    effects: tuple[Effect, ...]  # of each change of a factor
    standings: tuple[Standing, ...]  # the best first
    labelled: bool

    @property
    def differs(self) -> bool:
        """Whether something is better than the recipe beyond the noise."""
        return self.family != self.recipe

    @property
    def sentence(self) -> str:
        """What to do with these images' views, and what is gained by it."""
        if not self.differs and not self.labelled:
            seen = "mirror images cannot clearly be told from these images, and " if self.effects else ""
            return f"Take the recipe: {seen}nothing else can be judged without labels."
        if not self.differs:
            best = self.standings[0]
            text = "Take the recipe: no views that were tried are better beyond the noise."
            if best.gain > 0:
                text += f" The best others: {points(best.gain, best.error)} points."
            pilots, factors = sum(s.pilots for s in self.standings), len({e.factor for e in self.effects})
            few = f" {pilots} pilots are few for {factors} factors: more of them tell more (--pilots)."
            return text + few if pilots <= factors else text
        effects = {(e.factor, e.value): e for e in self.effects}
        changes: list[str] = []
        others: list[str] = []
        for name in FACTORS:
            if getattr(self.family, name) == getattr(self.recipe, name):
                continue
            value = value_in_words(getattr(self.family, name))
            words, effect = change_in_words(name, value), effects.get((name, value))
            if effect is not None:
                words += f" ({points(effect.points, effect.error)})"
            (others if effect is not None and round(effect.points, 1) < 0 else changes).append(words)
        text = listed(changes or others)
        if changes and others:  # on average they cost points, and still the best views that were tried have them
            text += f"; with these, also {listed(others)}"
        source = "" if self.labelled else ", as on other images"
        return (
            f"{text[0].upper()}{text[1:]}; the rest as in the recipe. "
            f"Expected gain over the recipe{source}: {points(self.gain, self.error)} points."
        )


def points(value: float, error: float) -> str:
    """Points with their standard deviation."""
    return f"{round(value, 1) + 0.0:+.1f} ± {error:.1f}"  # + 0.0: no "-0.0"


def verdict(model: FamilyModel, families: Sequence[Family]) -> Verdict:
    """Decide among the families that were tried, by the labels that their pilots recognised."""
    counts = {family: list(families).count(family) for family in families}
    tried = list(counts)
    recipe = model.start
    gains, errors = model.gains(tried, recipe)
    standings = [
        Standing(family, score, gain, error, counts[family])
        for family, score, gain, error in zip(
            tried, model.expected(tried).tolist(), gains.tolist(), errors.tolist(), strict=True
        )
    ]
    standings.sort(key=lambda s: -s.score)
    best = standings[0]
    choice = best if best.gain > BEYOND_NOISE * best.error else None
    return Verdict(
        choice.family if choice else recipe, recipe, choice.gain if choice else 0.0, choice.error if choice else 0.0,
        tuple(model.effects()), tuple(standings), True,
    )  # fmt: skip
