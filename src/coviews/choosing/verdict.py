"""What the pilots say: the family to take, the effect of each factor, and one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

from coviews.choosing.model import Effect, FamilyModel
from coviews.policies.factors import FACTORS, Family, change_in_words, listed, value_in_words

# Standard deviations by which a family must be better than what would be taken without labels. With fewer, choices from
# three labels or few pilots were often worse than it; with more, good views were missed (docs/results.md)
BEYOND_NOISE = 1.5


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
    beyond_noise: bool = True  # whether it is better than what would be taken without labels, by more than the noise

    @property
    def differs(self) -> bool:
        """Whether views other than the recipe's are taken."""
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
            return text + self._few_pilots
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
        text = (
            f"{text[0].upper()}{text[1:]}; the rest as in the recipe. "
            f"Expected gain over the recipe{source}: {points(self.gain, self.error)} points."
        )
        if self.beyond_noise:
            return text
        best = self.standings[0]
        gap = f" ({points(best.gain, best.error)})" if best.family != self.family else ""
        return (
            f"{text} Without labels it would be the same: no views that were tried are better{gap} beyond the "
            f"noise.{self._few_pilots}"
        )

    @property
    def _few_pilots(self) -> str:
        pilots, factors = sum(s.pilots for s in self.standings), len({e.factor for e in self.effects})
        few = f" {pilots} pilots are few for {factors} factors: more of them tell more (--pilots)."
        return few if pilots <= factors else ""


def points(value: float, error: float) -> str:
    """Points with their standard deviation."""
    return f"{round(value, 1) + 0.0:+.1f} ± {error:.1f}"  # + 0.0: no "-0.0"


def verdict(model: FamilyModel, families: Sequence[Family], without_labels: Family | None = None) -> Verdict:
    """Decide among the families that were tried, by the labels that their pilots recognised.

    Args:
        model: what all pilots say.
        families: of the pilots.
        without_labels: what is taken without labels; others must be better than it beyond the noise.
    """
    counts = {family: list(families).count(family) for family in families}
    recipe, tried = model.start, list(counts)
    guess = without_labels or recipe
    base = guess if model.expected([guess])[0] > model.expected([recipe])[0] else recipe
    best = tried[int(model.expected(tried).argmax())]
    over_base, error = (float(values[0]) for values in model.gains([best], base))
    better = over_base > BEYOND_NOISE * error
    shown = tried if better or base in tried else [*tried, base]
    gains, errors = model.gains(shown, recipe)
    standings = [
        Standing(family, score, gain, error, counts.get(family, 0))
        for family, score, gain, error in zip(
            shown, model.expected(shown).tolist(), gains.tolist(), errors.tolist(), strict=True
        )
    ]
    standings.sort(key=lambda s: -s.score)
    choice = next(s for s in standings if s.family == (best if better else base))
    return Verdict(
        choice.family, recipe, choice.gain, choice.error, tuple(model.effects()), tuple(standings), True, better
    )
