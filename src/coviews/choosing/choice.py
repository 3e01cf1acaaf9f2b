"""What came out of `choose`: for the terminal, for Python, and as a file."""

import dataclasses
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from coviews.choosing.model import Effect
from coviews.choosing.pilot_plan import PilotPlan
from coviews.choosing.verdict import Standing, Verdict, points
from coviews.errors import CoviewsError
from coviews.evaluation.text_tables import as_text
from coviews.files.atomic import write_whole
from coviews.policies.factors import Family, change_in_words, listed

VIEWS, RESULT, PAGE = "views.yaml", "choice.json", "choice.html"
_BAR = 10  # characters of the longest bar
_SHOWN = 8  # families in the terminal; the page has all


@dataclass(frozen=True)
class PilotScore:
    """What one pilot reached."""

    family: Family
    seed: int
    accuracy: float | None  # of the labelled images, in percent; None without labels
    signals: Mapping[str, float]


@dataclass(frozen=True, eq=False, repr=False)
class Choice:
    """What came out; printed, it is what the command shows."""

    path: Path  # of the folder
    data: str
    judged_by: str  # in words
    images: int  # that pilots learned from
    labels: int  # that pilots were judged by
    locks: Mapping[str, bool]  # factors that --matters and --ignores decided, and whether they are on
    plan: PilotPlan
    settings: Mapping[str, Any]  # of all pilots, what is needed to repeat them
    verdict: Verdict | None = None  # None after a dry run
    pilots: tuple[PilotScore, ...] = ()
    failed: Mapping[str, str] = dataclasses.field(default_factory=dict)  # what went wrong, by the name of the pilot
    alike_in_colour: float | None = None  # `signals.alike_in_colour`; None where colour is not to be decided

    @property
    def decided(self) -> Verdict:
        """The verdict; an error after a dry run."""
        if self.verdict is None:
            raise CoviewsError("nothing is chosen after a dry run: leave it out")
        return self.verdict

    @property
    def family(self) -> Family:
        """The views to take."""
        return self.decided.family

    @property
    def file(self) -> Path:
        """The views as a file for `pretrain --views`."""
        return self.path / VIEWS

    def __rich__(self) -> RenderableType:
        if self.verdict is None:
            return Text(f"dry run: {self.plan.count} pilots of {self.plan.epochs} epochs, nothing was trained")
        v = self.verdict
        return Group(
            Text(v.sentence), Text(""), _effects_table(v.effects), Text(""), _standings_table(v), Text(""),
            Text(v.family.sentence),
        )  # fmt: skip

    def __repr__(self) -> str:
        return as_text(self)

    def write(self) -> None:
        """Write the views and the result."""
        v = self.decided
        self.family.write(self.file, f"Made by coviews choose. {v.sentence}")
        content = {
            "version": importlib.metadata.version("coviews"), "sentence": v.sentence, "family": v.family.text,
            "recipe": v.recipe.text, "gain": v.gain, "error": v.error, "data": self.data, "images": self.images,
            "labels": self.labels, "judged_by": self.judged_by, "locks": dict(self.locks), **self.settings,
            "effects": [dataclasses.asdict(e) for e in v.effects],
            "standings": [{**dataclasses.asdict(s), "family": s.family.text} for s in v.standings],
            "pilots": [{**dataclasses.asdict(p), "family": p.family.text} for p in self.pilots],
            "failed": dict(self.failed), "alike_in_colour": self.alike_in_colour,
        }  # fmt: skip
        write_whole(self.path / RESULT, (json.dumps(_rounded(content), indent=1) + "\n").encode())


def effect_in_words(effect: Effect) -> str:
    """A change of a factor as an imperative, such as "do not mirror"."""
    return change_in_words(effect.factor, effect.value).partition(" (")[0]


def family_in_words(family: Family, verdict: Verdict) -> str:
    """A family as a line, with what it is for."""
    notes = [n for n, other in (("the choice", verdict.family), ("the recipe", verdict.recipe)) if family == other]
    return family.text + (f" ({' and '.join(notes)})" if notes else "")


def best_first(effects: tuple[Effect, ...]) -> list[Effect]:
    """The changes that help most first."""
    return sorted(effects, key=lambda e: -e.points)


def colours_in_words(alike_in_colour: float) -> str:
    """How far images that look alike without colour have the same."""
    return f"alike in colour by {alike_in_colour:.2f} (1: the same colour, 0: like any two images)"


def without_labels(free: Sequence[str]) -> str:
    """What cannot be known; free: the factors that pilots decide."""
    words = {"light": "brightness", "colour": "colour", "turns": "up and down"}
    unknown = [word for name, word in words.items() if name in free]
    about = f" Whether {listed(unknown)} may change cannot be seen:" if unknown else ""
    end = "answer --matters or --ignores, or give 10 labels a class."
    return f"Without labels the choice is uncertain.{about} {end if unknown else end[0].upper() + end[1:]}"


def _effects_table(effects: tuple[Effect, ...]) -> Table:
    table = _table("change of the recipe", "points", "")
    most = max((abs(e.points) + e.error for e in effects), default=1.0) or 1.0  # noise does not fill the width
    for e in best_first(effects):
        table.add_row(effect_in_words(e), points(e.points, e.error), _bar(e.points / most))
    return table


def _bar(share: float) -> str:
    """A bar to the right of a line, or to the left if it is negative; share: of the longest, in -1..1."""
    length = round(_BAR * abs(share))
    return f"{' ' * _BAR}│{'█' * length}" if share >= 0 else f"{'█' * length:>{_BAR}}│"


def _standings_table(verdict: Verdict) -> Table:
    table = _table("families tried", "score" if verdict.labelled else "relative score", "gain", "pilots")
    shown = list(verdict.standings[:_SHOWN])
    shown += [s for s in verdict.standings[_SHOWN:] if s.family == verdict.recipe]
    for s in shown:
        table.add_row(family_in_words(s.family, verdict), f"{s.score:.1f}", gain_in_words(s, verdict), str(s.pilots))
    if more := len(verdict.standings) - len(shown):
        table.add_row(f"and {more} more, in {PAGE}", "", "", "")
    return table


def gain_in_words(standing: Standing, verdict: Verdict) -> str:
    """The gain over the recipe; nothing for the recipe itself."""
    return "" if standing.family == verdict.recipe else points(standing.gain, standing.error)


def _table(*heads: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i, head in enumerate(heads):
        table.add_column(head, justify="left" if i == 0 or not head else "right", overflow="fold")
    return table


def _rounded(value: Any) -> Any:
    """Numbers to four digits behind the point, in dictionaries and lists."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, Mapping):
        return {name: _rounded(v) for name, v in value.items()}
    return [_rounded(v) for v in value] if isinstance(value, list | tuple) else value
