"""`choose`: which views are useful for these images?

Short pilot trainings, each with other factors on, are judged by a few labels and by what can be told without; a model
of all pilots at once says what each factor does, and which family to take.
"""

import dataclasses
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from coviews.choosing import unlabelled
from coviews.choosing.choice import PAGE, Choice, PilotScore, colours_in_words, without_labels
from coviews.choosing.design import expected_best, most_informative, screening
from coviews.choosing.labelled import describe, labelled_images
from coviews.choosing.model import FamilyModel, factor_names
from coviews.choosing.options import ChooseOptions
from coviews.choosing.page import choice_page
from coviews.choosing.pilot_plan import PLAN, PilotPlan, PlanFile, choice_facts, plan_pilots
from coviews.choosing.pilots import (
    HitsByPilot,
    Pilot,
    PilotRunner,
    begun_pilots,
    pilot_settings,
    signals_in_words,
)
from coviews.choosing.signals import alike_in_colour
from coviews.choosing.verdict import Verdict, verdict
from coviews.console.option_types import ChooseKeywords
from coviews.console.options import replaced
from coviews.console.progress import Display, duration
from coviews.data.colours import has_colour
from coviews.data.imageset import ImageSet
from coviews.data.load import load_images
from coviews.errors import CoviewsError
from coviews.files.lock import lock_folder
from coviews.launching.launchers import named_launcher
from coviews.policies.factors import FACTORS, RECIPE, VIEW_FACTORS, Family, with_locks
from coviews.report.page import write_page
from coviews.runs.settings import FROM_PYTHON
from coviews.training.setup import name_of_data

LEAST_IMAGES = 16
AFTER = 2.0  # pilots after the screening, as a share of those in it (docs/results.md)
_MARGIN = 1.1  # times the budget: no round of pilots begins that is expected to end later


@dataclass(frozen=True)
class Candidates:
    """The families that pilots decide between."""

    start: Family  # the recipe, with what is locked
    free: tuple[str, ...]  # the factors that are not locked
    alike_in_colour: float | None = None  # `signals.alike_in_colour`; None where colour is not to be decided

    @property
    def screened(self) -> tuple[str, ...]:
        """The factors that the first pilots tell apart; plain pairs take a part of the others' changes away."""
        return tuple(name for name in self.free if name != "plain")

    def model(self, pilots: Sequence[Pilot], hits: HitsByPilot) -> FamilyModel:
        """What some pilots teach about all, by the labels that they recognise, on top of what the images show."""
        signs = unlabelled.seen_gains(self.free, _mirrored(pilots), self.alike_in_colour)
        return FamilyModel(self.start, self.free, hits.observations(pilots), signs)

    def pilots(self, labelled: bool) -> int:
        """How many pilots there should be: for the screening and twice as many after it, or those without labels."""
        if labelled:
            return math.ceil((1 + AFTER) * len(screening(self.start, self.screened)))
        told = "mirror" in self.free and not self.start.turns and not unlabelled.belong_to_things(self.alike_in_colour)
        return unlabelled.PILOTS if told else 0

    def verdict(self, pilots: Sequence[Pilot], hits: HitsByPilot) -> Verdict:
        """What the pilots say, with labels or without."""
        if hits.labelled is not None:
            guess = self.without_labels(pilots).family
            return verdict(self.model(pilots, hits), [pilot.family for pilot in pilots], guess)
        return self.without_labels(pilots)

    def without_labels(self, pilots: Sequence[Pilot]) -> Verdict:
        """What the pilots and the images say without labels."""
        return unlabelled.verdict_without_labels(self.start, self.free, _mirrored(pilots), self.alike_in_colour)


def _mirrored(pilots: Sequence[Pilot]) -> list[float]:
    """How well pilots tell mirror images, in percent: of those whose views were neither mirrored nor turned."""
    able = [p.signals or {} for p in pilots if not p.family.mirror and not p.family.turns]
    return [signals["mirrored"] for signals in able if "mirrored" in signals]


def choose(
    data: Any, *, options: ChooseOptions | None = None, labels: Any = None, **changes: Unpack[ChooseKeywords]
) -> Choice:
    """Find out which views are useful for these images, by short pilot trainings.

    Called again with the same folder it goes on where it was: pilots that are done are not run again, so labels can be
    added later.

    Args:
        data: a folder, a file or the name of a known set, as for `pretrain`.
        options: what is known, and what it may cost.
        labels: where the labelled images are (as --labels), or the class of each image, None where it is not known.
        changes: fields of `ChooseOptions`.
    """
    o = replaced(options or ChooseOptions(), changes)
    if isinstance(labels, str | Path):
        o, labels = dataclasses.replace(o, labels=str(labels)), None
    name = name_of_data(data)
    if name.startswith(FROM_PYTHON):
        raise CoviewsError("pilots need data by name: a folder, a file (such as images.npy) or a known set")
    launcher = named_launcher(o.launcher, o.launcher_options)
    launcher.check()
    limits = o.limits
    locks = limits.locks
    with Display(o.progress) as display:
        images = load_images(
            name, size=o.size, channels=o.channels, root=o.data_root, cache=o.cache, progress=o.progress
        )
        if len(images) < LEAST_IMAGES:
            raise CoviewsError(f"pilots need {LEAST_IMAGES} images or more, and {name} has {len(images)}")
        labelled = labelled_images(o, images, labels, name)
        candidates = _candidates(images, locks)
        settings = pilot_settings(name, o, len(images), images.images.shape[3])
        file = _plan_file(o, choice_facts(o, images, locks))
        wanted = candidates.pilots(labelled is not None)
        if file is None:
            plan = plan_pilots(settings, o, images, wanted)
            file = PlanFile(o.out / PLAN, choice_facts(o, images, locks), plan)
        elif labelled is not None and file.plan.count < wanted and not o.pilots and not file.plan.labelled:
            given = dataclasses.replace(o, epochs=file.plan.epochs if file.rounds else o.epochs)  # labels have come
            file.plan = plan_pilots(settings, given, images, wanted)
        file.plan = dataclasses.replace(file.plan, labelled=labelled is not None)
        shared = {
            "pilot_epochs": file.plan.epochs, "batch_size": settings.batch_size, "lr": settings.lr,
            "encoder": settings.encoder, "size": o.size, "seed": o.seed, "forbid": o.forbid, "cap": o.cap,
        }  # fmt: skip
        choice = Choice(
            o.out, name, describe(labelled, o.labels or name), min(len(images), o.images),
            0 if labelled is None else len(labelled), locks, file.plan, shared,
            alike_in_colour=candidates.alike_in_colour,
        )  # fmt: skip
        for line in _announcement(choice, file, candidates, o, wanted):
            display.line(line)
        if o.dry_run:
            return choice
        _make_folder(o.out)
        with lock_folder(o.out), launcher.opened(o.out) as start:
            hits = HitsByPilot(labelled, images, display)

            def report(pilot: Pilot) -> str:
                accuracy = hits.accuracy(pilot)
                return signals_in_words(pilot.signals or {}) if accuracy is None else f"{accuracy:.1f} % by the labels"

            file.save()
            runner = PilotRunner(o.out, settings, file.plan, o.at_once, display, report, start)
            pilots = _run_pilots(runner, candidates, hits, file, o)
            if (begun := len(file.pilots)) < file.plan.count:
                minutes = math.ceil(file.spent * file.plan.count / begun / 60)
                display.line(
                    f"the budget was used up by {begun} of {file.plan.count} pilots, slower than expected: "
                    f"the same command with --budget {minutes}m goes on"
                )
            result = candidates.verdict(pilots, hits)
            scores = [PilotScore(p.family, p.seed, hits.accuracy(p), p.signals or {}) for p in pilots]
            choice = dataclasses.replace(choice, verdict=result, pilots=tuple(scores), failed=dict(runner.failed))
            display.update("writing the page", 0, 1, "")
            choice.write()
            write_page(o.out / PAGE, choice_page(choice, images, limits))
    for pilot, message in choice.failed.items():
        warnings.warn(f"the pilot {pilot} is left out: {message.removeprefix('failed: ')}", stacklevel=2)
    return choice


def _candidates(images: ImageSet, locks: Mapping[str, bool]) -> Candidates:
    """The recipe with what is locked, and the factors that pilots decide; none of colour for images without."""
    colour = images.images.shape[3] == 3 and has_colour(images)  # saturation and hue need red, green and blue
    start = with_locks(RECIPE if colour else RECIPE.without_colour(), locks)
    if not colour:
        start = start.without_colour()
    free = [n for n in factor_names() if n not in locks and (colour or not FACTORS[n].colour)]
    alike = alike_in_colour(images.images) if "colour" in free else None
    if not unlabelled.may_be_plain(start, locks, alike):
        free.remove("plain")
    if not VIEW_FACTORS.keys() & set(free):
        raise CoviewsError("all factors are locked by --matters and --ignores: there is nothing left to choose")
    return Candidates(start, tuple(free), alike)


def _run_pilots(
    runner: PilotRunner, candidates: Candidates, hits: HitsByPilot, file: PlanFile, options: ChooseOptions
) -> list[Pilot]:
    """The screening design, then rounds of what tells most; rounds that were begun earlier come first."""
    pilots: list[Pilot] = []
    began = time.monotonic()
    if file.rounds:
        pilots = runner.run(file.pilots)
        _check_enough(pilots, runner, file.plan)
    while _goes_on(file, options):
        some = _next_round(file, candidates, pilots, hits)
        pilots += runner.run(file.begin_round(some, options.seed))
        _check_enough(pilots, runner, file.plan)
        now = time.monotonic()
        file.spent, began = file.spent + now - began, now
        file.save()
    return pilots


def _goes_on(file: PlanFile, options: ChooseOptions) -> bool:
    """Whether there is another round of pilots, by their number and by the budget."""
    begun = len(file.pilots)
    left = file.plan.count - begun
    if left <= 0 or options.pilots is not None:
        return left > 0
    a_round = file.spent / begun * min(left, file.plan.per_round) if begun else 0.0
    return file.spent + a_round <= _MARGIN * options.seconds


def _next_round(file: PlanFile, candidates: Candidates, pilots: Sequence[Pilot], hits: HitsByPilot) -> list[Family]:
    """What to try next: what is left of the screening design, or else the families that tell most."""
    trained, plan = len(file.pilots), file.plan
    if hits.labelled is None:
        return [unlabelled.pilot_family(candidates.start)] * (plan.count - trained)
    begun = [family for family, _ in file.pilots]
    design = [family for family in screening(candidates.start, candidates.screened) if family not in begun]
    if design:
        return design[: plan.count - trained]
    model = candidates.model(pilots, hits)
    failed = set(begun) - {pilot.family for pilot in pilots}
    count = min(plan.per_round, plan.count - trained)
    wanted = [candidates.without_labels(pilots).family]  # labels must show that others are better
    if trained + count >= plan.count:  # the last round: what is taken must have been tried
        wanted.insert(0, expected_best(model, failed))
    first = [some for some in wanted if some not in begun]
    if begun.count(candidates.start) == 1 and candidates.start not in failed:
        first.append(candidates.start)  # everything is compared with it: once more, with another seed
    return most_informative(model, count, list(dict.fromkeys(first))[:count], failed)


def _check_enough(pilots: Sequence[Pilot], runner: PilotRunner, plan: PilotPlan) -> None:
    least, words = (2, "fewer than two pilots") if plan.labelled else (1, "no pilot")
    if len(pilots) < least:
        reason = next(iter(runner.failed.values()), "none was trained").removeprefix("failed: ")
        raise CoviewsError(f"{words} came to an end: {reason}")


def _plan_file(options: ChooseOptions, facts: Mapping[str, Any]) -> PlanFile | None:
    """The plan of the folder, if one was begun there, of the same choice; there may be more pilots now."""
    file = PlanFile.read(options.out)
    if file is None:
        return None
    file.check(facts)
    if options.epochs not in (None, file.plan.epochs):
        raise CoviewsError(
            f"{options.out} holds pilots of {file.plan.epochs} epochs: leave out --epochs, or choose another --out"
        )
    if options.pilots is not None:
        file.plan = dataclasses.replace(file.plan, count=options.pilots)
    return file


def _announcement(
    choice: Choice, file: PlanFile, candidates: Candidates, options: ChooseOptions, wanted: int
) -> list[str]:
    """What will be tried, how long it takes, and what it is judged by."""
    plan, o = file.plan, options
    done = sum(pilot.signals is not None for pilot in begun_pilots(o.out, file.pilots))
    left = (plan.count if _goes_on(file, o) else len(file.pilots)) - done
    rounds = -(-left // o.at_once)
    again = f", {done} done earlier" if done else ""
    time_left = f": about {duration(rounds * plan.seconds)}, {o.at_once} at once" if left else ""
    count = len(candidates.free)
    lines = [
        f"{plan.count} pilots of {plan.epochs} epochs on {choice.images:,} images{again}{time_left}",
        f"{count} factor{'s' * (count > 1)} to decide: {', '.join(candidates.free)}; judged by {choice.judged_by}",
    ]
    if not choice.labels:
        lines = lines[: plan.count]
        if choice.alike_in_colour is not None:
            lines.append(f"images that look alike without colour are {colours_in_words(choice.alike_in_colour)}")
        return [*lines, without_labels(candidates.free)]
    if left and plan.count < wanted and o.pilots is None:
        minutes = math.ceil(-(-wanted // o.at_once) * plan.seconds / 60)
        lines.append(f"{wanted} pilots tell more, and take about {minutes} min in all: --pilots {wanted}")
    return lines


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CoviewsError(f"cannot write to {path}: {error.strerror}") from error
