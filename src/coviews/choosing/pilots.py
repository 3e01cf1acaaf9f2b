"""Pilots: how many short trainings the budget allows, of what length; and running them."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coviews.choosing.options import ChooseOptions
from coviews.choosing.pilot_worker import SIGNALS
from coviews.comparison.estimate import EncoderTimes, expected_seconds, measured_pace
from coviews.comparison.plan import Job
from coviews.comparison.workers import Workers
from coviews.console.progress import Display
from coviews.data.imageset import ImageSet
from coviews.errors import CoviewsError
from coviews.policies.factors import Family
from coviews.runs.settings import PretrainSettings

BATCH = 64
LR = 0.12
EPOCHS = (8, 10, 12, 16, 20, 24, 32, 40)  # of a pilot, to choose from
PILOTS = (12, 16, 20, 24, 32)
AFTER = 0.5  # pilots after the screening, as a share of those in it
_START = 10.0  # seconds that a pilot takes besides its training


@dataclass(frozen=True)
class PilotPlan:
    """How many pilots there are, and how long each is trained."""

    count: int
    epochs: int
    seconds: float  # of one, expected


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
            values = json.loads((self.folder / SIGNALS).read_text())
            return {str(name): float(value) for name, value in values.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return None


def pilot_settings(data: str, options: ChooseOptions, images: int, channels: int, epochs: int) -> PretrainSettings:
    """What all pilots share."""
    o = options
    count = min(images, o.images)
    return PretrainSettings(
        data=data, size=o.size, channels=channels if channels in (1, 3) else None,
        subset=str(count) if count < images else None, subset_seed=o.seed, encoder=o.encoder, views="recipe",
        epochs=epochs, batch_size=max(2, min(BATCH, count // 4)), lr=LR, lr_warmup_epochs=2, knn_every=0, report=False,
        tensorboard=False, data_root=o.data_root, cache=o.cache, accelerator="cpu", save_every=30.0,
    )  # fmt: skip


def plan_pilots(settings: PretrainSettings, options: ChooseOptions, images: ImageSet, screened: int) -> PilotPlan:
    """As many pilots as the design needs and half as many again, each as long as the budget allows.

    screened: the families of the screening design.
    """
    o = options
    if o.pilots is not None and o.epochs is not None:
        pace = EncoderTimes(0.05, 0.001)
    else:
        pace = measured_pace(settings, images, 1)

    def seconds(epochs: int) -> float:
        return _START + expected_seconds(settings.replaced(epochs=epochs), pace, min(len(images), o.images), 0)

    available = o.seconds * o.at_once
    most = o.pilots or math.ceil((1 + AFTER) * screened)
    for count in range(most, 1, -1):
        fitting = [e for e in ((o.epochs,) if o.epochs else EPOCHS) if count * seconds(e) <= available]
        if fitting:
            # many short pilots tell more than few long ones, but below a third of the design nothing is left of it
            return PilotPlan(count, max(fitting), seconds(max(fitting)))
        if o.pilots and o.epochs:
            return PilotPlan(count, o.epochs, seconds(o.epochs))
    raise CoviewsError(
        f"--budget {o.budget} is too little for two pilots of {min(EPOCHS)} epochs on {min(len(images), o.images):,} "
        f"images: give {math.ceil(2 * seconds(min(EPOCHS)) / o.at_once / 60)}m or more, or fewer --images"
    )


class PilotRunner:
    """Runs pilots in processes of their own; those that are done are not run again."""

    def __init__(
        self, folder: Path, settings: PretrainSettings, plan: PilotPlan, at_once: int, display: Display
    ) -> None:
        self.folder, self.settings, self.plan, self.at_once, self.display = folder, settings, plan, at_once, display
        self.failed: dict[str, str] = {}

    def run(self, families: Sequence[tuple[Family, int]]) -> list[Pilot]:
        """Pilots for families, each with its seed; those that fail are left out and named in `failed`."""
        jobs = [Job(f.text, self.settings.replaced(views=f.text, seed=seed), {"seed": 0}) for f, seed in families]
        pilots = [
            Pilot(family, seed, self.folder / "runs" / job.name)
            for (family, seed), job in zip(families, jobs, strict=True)
        ]
        to_do = [job for job, pilot in zip(jobs, pilots, strict=True) if pilot.signals is None]
        expected = {job.name: self.plan.seconds for job in to_do}
        workers = Workers(self.folder, expected, self.at_once, 1, self.display, module="coviews.choosing.pilot_worker")
        if to_do:
            self.failed |= workers.work_off(to_do, lambda job: "done")
        return [pilot for pilot in pilots if pilot.signals is not None]
