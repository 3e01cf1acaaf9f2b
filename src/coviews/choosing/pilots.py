"""Pilots: short trainings, each with one family, in processes of their own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coviews.boundary.json_text import read_json
from coviews.choosing.agreement import agreements, weight
from coviews.choosing.model import Observations
from coviews.choosing.options import ChooseOptions
from coviews.choosing.pilot_plan import PilotPlan
from coviews.choosing.pilot_worker import SIGNALS
from coviews.choosing.probes import class_chances, leave_one_out
from coviews.choosing.score import observed
from coviews.comparison.plan import Job, folder_name
from coviews.comparison.workers import Workers
from coviews.console.progress import Display
from coviews.data.imageset import ImageSet
from coviews.encoders.features import features
from coviews.encoders.images import normalisation
from coviews.encoders.open import open_encoder
from coviews.errors import CoviewsError
from coviews.launching.task import Task, Training
from coviews.ops.images import Images
from coviews.policies.factors import Family
from coviews.runs.settings import PretrainSettings
from coviews.training.precision import fast_precision

BATCH = 64
LR = 0.12
NAMED = 1000  # unlabelled images that pilots name


@dataclass(frozen=True)
class Pilot:
    """One short training with one family."""

    family: Family
    seed: int
    folder: Path

    @property
    def signals(self) -> dict[str, float] | None:
        """What its encoder shows without labels; None if it is not done."""
        try:
            return read_json(self.folder / SIGNALS, dict[str, float], "signals")
        except CoviewsError:
            return None


def begun_pilots(folder: Path, pilots: Sequence[tuple[Family, int]]) -> list[Pilot]:
    """The pilots of a choice's folder."""
    return [Pilot(f, seed, folder / "runs" / f"{folder_name(f.text)}-{seed}") for f, seed in pilots]


def pilot_settings(data: str, options: ChooseOptions, images: int, channels: int) -> PretrainSettings:
    """What all pilots share, but for their length."""
    o = options
    count = min(images, o.images)
    return PretrainSettings(
        data=data, size=o.size, channels=channels if channels in (1, 3) else None,
        subset=str(count) if count < images else None, subset_seed=o.seed, encoder=o.encoder, views="recipe",
        batch_size=max(2, min(BATCH, count // 4)), lr=LR, lr_warmup_epochs=2, knn_every=0, report=False,
        tensorboard=False, data_root=o.data_root, cache=o.cache, accelerator="cpu", save_every=30.0,
        precision=fast_precision("cpu"), forbid=o.forbid, cap=o.cap,
    )  # fmt: skip


class HitsByPilot:
    """How well each pilot's encoder recognises the labelled images; computed once for each."""

    def __init__(self, labelled: ImageSet | None, images: ImageSet, display: Display | None = None) -> None:
        self.labelled, self._display = labelled, display
        self._unlabelled = images.images[:0] if labelled is None else _others(images.images, labelled.images)
        self._known: dict[Path, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}

    def of(self, pilot: Pilot) -> NDArray[np.float64] | None:
        """Hits and chances (2, images) in 0..1 (`leave_one_out`); None without labels."""
        judged = self._judged(pilot)
        return judged and judged[0]

    def _judged(self, pilot: Pilot) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """The hits, and the chance of each class for unlabelled images."""
        if self.labelled is None or self.labelled.labels is None:
            return None
        if pilot.folder not in self._known:
            model, labels = open_encoder(pilot.folder), self.labelled.labels
            mean, std = normalisation(model, self.labelled)
            known = features(model.encoder, self.labelled.images, mean, std)
            others = features(model.encoder, self._unlabelled, mean, std) if len(self._unlabelled) else known[:0]
            self._known[pilot.folder] = leave_one_out(known, labels), class_chances(known, labels, others)
        return self._known[pilot.folder]

    def accuracy(self, pilot: Pilot) -> float | None:
        """The mean, in percent."""
        hits = self.of(pilot)
        return None if hits is None else 100 * float(hits[0].mean())

    def observations(self, pilots: Sequence[Pilot]) -> Observations:
        """The scores of pilots; there must be labels."""
        assert self.labelled is not None
        assert self.labelled.labels is not None
        judged = []
        for i, pilot in enumerate(pilots):
            # several at once after a stop, or when labels came
            if self._display is not None and pilot.folder not in self._known:
                self._display.update("judging pilots", i, len(pilots), "")
            if (hits := self.of(pilot)) is not None:
                judged.append(hits)
        families = [pilot.family for pilot in pilots]
        return observed(families, judged, self.agreements(pilots), weight(self.labelled.labels, len(self._unlabelled)))

    def agreements(self, pilots: Sequence[Pilot]) -> NDArray[np.float64] | None:
        """How far each pilot names unlabelled images as the others do (`agreement.agreements`)."""
        chances = [judged[1] for pilot in pilots if (judged := self._judged(pilot)) is not None]
        return agreements([pilot.family for pilot in pilots], chances)


def _others(images: Images, labelled: Images) -> Images:
    """At most NAMED images, evenly spread, without those that are labelled."""
    rows = np.unique(np.linspace(0, len(images) - 1, min(len(images), NAMED)).astype(int))
    known = {image.tobytes() for image in labelled}
    return np.asarray(images[[i for i in rows if images[i].tobytes() not in known]])


class PilotRunner:
    """Runs pilots in processes of their own; those that are done are not run again."""

    def __init__(
        self,
        folder: Path,
        settings: PretrainSettings,
        plan: PilotPlan,
        at_once: int,
        display: Display,
        report: Callable[[Pilot], str],
        start: Callable[[Task], Training],
    ) -> None:
        """The pilots of a choice, of which none is started yet.

        Args:
            folder: of the choice.
            settings: what all pilots share.
            plan: how many there are, and how long each is.
            at_once: pilots.
            display: where what is going on is shown.
            report: what to show of a pilot when it is done.
            start: starts a pilot, here or elsewhere.
        """
        self.settings, self.plan, self.report = settings.replaced(epochs=plan.epochs), plan, report
        self.failed: dict[str, str] = {}
        self._expected: dict[str, float] = {}
        self._workers = Workers(
            folder, self._expected, at_once, 1, display, module="coviews.choosing.pilot_worker", start=start
        )

    def run(self, families: Sequence[tuple[Family, int]]) -> list[Pilot]:
        """Pilots for families, each with its seed; those that fail are left out and named in `failed`."""
        jobs = [Job(f.text, self.settings.replaced(views=f.text, seed=seed), {"seed": 0}) for f, seed in families]
        pilots = {
            job.name: Pilot(family, seed, self._workers.run_folder(job))
            for (family, seed), job in zip(families, jobs, strict=True)
        }
        to_do = [job for job in jobs if pilots[job.name].signals is None]
        self._expected |= {job.name: self.plan.seconds for job in to_do}
        self._workers.before += len(jobs) - len(to_do)
        self._workers.after = max(0, self.plan.count - self._workers.before - len(to_do))
        if to_do:
            self.failed |= self._workers.work_off(to_do, lambda job: self.report(pilots[job.name]))
        return [pilot for pilot in pilots.values() if pilot.signals is not None]


def signals_in_words(signals: Mapping[str, float]) -> str:
    """What an encoder shows without labels, in a few words."""
    return f"mirror images are told apart in {signals['mirrored']:.0f} % (chance: 50 %)"
