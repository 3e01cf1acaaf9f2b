"""`choose`: which views are useful for these images?

Short pilot trainings, each with other factors on, are judged by a few labels and by what can be told without; a model
of all pilots at once says what each factor does, and which family to take.
"""

import dataclasses
import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.choosing.design import most_promising, screening
from coviews.choosing.labelled import describe, labelled_images
from coviews.choosing.model import FamilyModel, factor_names, families
from coviews.choosing.options import ChooseOptions
from coviews.choosing.pilots import Pilot, PilotPlan, PilotRunner, pilot_settings, plan_pilots
from coviews.choosing.probes import leave_one_out
from coviews.choosing.score import observed
from coviews.choosing.verdict import Verdict, verdict
from coviews.console.options import replaced
from coviews.console.progress import Display, duration
from coviews.data.imageset import ImageSet
from coviews.data.load import load_images
from coviews.encoders.features import features
from coviews.encoders.images import normalisation
from coviews.encoders.open import open_encoder
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole
from coviews.files.lock import lock_folder
from coviews.policies.factors import FACTORS, RECIPE, Family, locked, with_locks
from coviews.runs.settings import PretrainSettings

VIEWS, RESULT, PAGE = "views.yaml", "choice.json", "choice.html"
_MARGIN = 1.25  # times the budget: then no further round of pilots begins


@dataclass(frozen=True, eq=False, repr=False)
class Choice:
    """What came out; printed, it is what the command shows."""

    path: Path  # of the folder
    verdict: Verdict
    judged_by: str  # in words
    pilots: tuple[Pilot, ...]
    failed: dict[str, str]  # what went wrong, by the name of the pilot

    @property
    def family(self) -> Family:
        """The views to take."""
        return self.verdict.family

    @property
    def file(self) -> Path:
        """The views as a file for `pretrain --views`."""
        return self.path / VIEWS

    def __repr__(self) -> str:
        return f"{self.verdict.sentence}\n{self.family.sentence}"


def choose(data: Any, *, options: ChooseOptions | None = None, labels: Any = None, **changes: Any) -> Choice:
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
    locks = locked(o.words("matters"), o.words("ignores"))
    with Display(o.progress) as display:
        images = load_images(
            str(data), size=o.size, channels=o.channels, root=o.data_root, cache=o.cache, progress=o.progress
        )
        labelled = labelled_images(o, images, labels)
        judged_by = describe(labelled, o.labels or str(data))
        start, free = _free_factors(images, locks)
        design = screening(start, free)
        settings = pilot_settings(str(data), o, len(images), images.images.shape[3], epochs=8)
        plan = _kept_plan(o, settings, images, len(design))
        settings = settings.replaced(epochs=plan.epochs)
        display.line(_announcement(plan, o, free, judged_by))
        if labelled is None:
            display.line(_without_labels(free))
        if o.dry_run:
            raise SystemExit(0)
        with lock_folder(o.out):
            _write_plan(o, plan, settings)
            runner = PilotRunner(o.out, settings, plan, o.at_once, display)
            pilots = _run_pilots(runner, design, start, free, labelled, plan, o)
            result = _judge(pilots, start, free, labelled)
            choice = Choice(o.out, result, judged_by, tuple(pilots), runner.failed)
            _write(choice, images, plan)
    return choice


def _free_factors(images: ImageSet, locks: dict[str, bool]) -> tuple[Family, list[str]]:
    """The recipe with what is locked, and the factors that pilots decide."""
    grey = images.images.shape[3] != 3
    start = with_locks(RECIPE.without_colour() if grey else RECIPE, locks)
    free = [n for n in factor_names() if n not in locks and not (grey and FACTORS[n].colour)]
    if not free:
        raise CoviewsError("all factors are locked by --matters and --ignores: there is nothing left to choose")
    return start, free


def _run_pilots(
    runner: PilotRunner,
    design: Sequence[Family],
    start: Family,
    free: Sequence[str],
    labelled: ImageSet | None,
    plan: PilotPlan,
    options: ChooseOptions,
) -> list[Pilot]:
    """The screening design, then rounds of what promises most; the best is among those tried."""
    began, o = time.monotonic(), options
    every = families(start, free)
    hits = HitsByPilot(labelled)
    queue = [(family, o.seed) for family in design[: plan.count]]
    pilots = runner.run(queue)
    _check_enough(pilots, runner)
    trained, round_ = len(queue), 1
    while trained < plan.count and time.monotonic() - began < _MARGIN * o.seconds:
        model = _model(pilots, start, free, hits)
        count = min(o.at_once, plan.count - trained)
        generator = np.random.default_rng([o.seed, round_])
        picks = most_promising(model, every, count, generator)
        if trained + count >= plan.count:  # the last round: what is taken must have been tried
            mean, _ = model.predict(every)
            best = every[int(mean.argmax())]
            if best not in picks and best not in [p.family for p in pilots]:
                picks[-1] = best
        if round_ == 1 and start not in picks:
            picks[0] = start  # everything is compared with it: once more, with another seed
        pilots += runner.run([(family, o.seed + round_) for family in picks])
        trained, round_ = trained + count, round_ + 1
    return pilots


def _check_enough(pilots: Sequence[Pilot], runner: PilotRunner) -> None:
    if len(pilots) < 2:
        reason = next(iter(runner.failed.values()), "none was trained")
        raise CoviewsError(f"fewer than two pilots came to an end: {reason}")
    for name, message in runner.failed.items():
        warnings.warn(f"the pilot {name} is left out: {message}", stacklevel=2)


class HitsByPilot:
    """How well each pilot's encoder recognises the labelled images; computed once for each."""

    def __init__(self, labelled: ImageSet | None) -> None:
        self.labelled = labelled
        self._known: dict[Path, NDArray[np.float64]] = {}

    def __call__(self, pilots: Sequence[Pilot]) -> list[NDArray[np.float64]] | None:
        """(images,) in 0..1 for each pilot; None without labels."""
        if self.labelled is None or self.labelled.labels is None:
            return None
        for pilot in pilots:
            if pilot.folder not in self._known:
                model = open_encoder(pilot.folder)
                mean, std = normalisation(model, self.labelled)
                values = features(model.encoder, self.labelled.images, mean, std)
                self._known[pilot.folder] = leave_one_out(values, self.labelled.labels)
        return [self._known[pilot.folder] for pilot in pilots]


def _model(pilots: Sequence[Pilot], start: Family, free: Sequence[str], hits: HitsByPilot) -> FamilyModel:
    signals = [pilot.signals or {} for pilot in pilots]
    return FamilyModel.fit(start, free, observed([p.family for p in pilots], hits(pilots), signals))


def _judge(pilots: Sequence[Pilot], start: Family, free: Sequence[str], labelled: ImageSet | None) -> Verdict:
    model = _model(pilots, start, free, HitsByPilot(labelled))
    return verdict(model, [pilot.family for pilot in pilots], labelled is not None)


def _kept_plan(options: ChooseOptions, settings: PretrainSettings, images: ImageSet, screened: int) -> PilotPlan:
    """The plan of the folder, if it was begun; otherwise one that fits the budget."""
    path = options.out / "plan.json"
    try:
        content = json.loads(path.read_text())
        return PilotPlan(int(content["pilots"]), int(content["epochs"]), float(content["seconds"]))
    except OSError:
        return plan_pilots(settings, options, images, screened)
    except (ValueError, KeyError, TypeError) as error:
        raise CoviewsError(f"{path} is damaged: remove it, or choose another --out") from error


def _write_plan(options: ChooseOptions, plan: PilotPlan, settings: PretrainSettings) -> None:
    content = {"pilots": plan.count, "epochs": plan.epochs, "seconds": round(plan.seconds, 1), "data": settings.data}
    write_whole(options.out / "plan.json", json.dumps(content).encode())


def _announcement(plan: PilotPlan, options: ChooseOptions, free: Sequence[str], judged_by: str) -> str:
    total = plan.count * plan.seconds / options.at_once
    return (
        f"{plan.count} pilots of {plan.epochs} epochs over {len(free)} factors ({', '.join(free)}), "
        f"{options.at_once} at once: about {duration(total)}; judged by {judged_by}"
    )


def _without_labels(free: Sequence[str]) -> str:
    unknown = [name for name in ("colour", "mirror", "turns") if name in free]
    about = f" Whether {' or '.join(unknown)} matters cannot be seen without labels:" if unknown else ""
    return f"Without labels the choice is uncertain.{about} answer --matters or --ignores, or give 5 labels a class."


def _write(choice: Choice, images: ImageSet, plan: PilotPlan) -> None:
    choice.family.write(choice.file, f"Made by coviews choose. {choice.verdict.sentence}")
    v = choice.verdict
    content = {
        "family": v.family.text, "recipe": v.recipe.text, "sentence": v.sentence, "gain": v.gain, "error": v.error,
        "judged_by": choice.judged_by, "pilots": plan.count, "epochs": plan.epochs,
        "effects": [dataclasses.asdict(e) for e in v.effects],
        "standings": [{**dataclasses.asdict(s), "family": s.family.text} for s in v.standings],
        "failed": choice.failed,
    }  # fmt: skip
    write_whole(choice.path / RESULT, (json.dumps(content, indent=1) + "\n").encode())
