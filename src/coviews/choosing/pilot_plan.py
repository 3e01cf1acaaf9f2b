"""How many pilots there are and how long each is trained; and the file that keeps it, so that a choice can go on."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from coviews.boundary.json_text import read_json
from coviews.boundary.schema import Count, Positive, Schema
from coviews.choosing.options import ChooseOptions
from coviews.data.imageset import ImageSet
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole
from coviews.policies.factors import Family, family
from coviews.runs.settings import PretrainSettings
from coviews.training.estimate import expected_seconds, measured_pace

PLAN = "plan.json"
EPOCHS = (8, 10, 12, 16, 20, 24, 32, 40)  # of a pilot, to choose from
_START = 10.0  # seconds that a pilot takes besides its training
_FORMAT = 1
_COMPARED = 64  # images that tell one data set from another

Round = Sequence[tuple[Family, int]]  # families that are tried at once, each with the seed of its pilot


@dataclass(frozen=True)
class PilotPlan:
    """How many pilots there are, and how long each is trained."""

    count: int
    epochs: int
    seconds: float  # of one, expected
    per_round: int  # after the screening, the pilots from one look at all to the next
    labelled: bool = True  # whether it was made for labels, which need more pilots


def plan_pilots(settings: PretrainSettings, options: ChooseOptions, images: ImageSet, wanted: int) -> PilotPlan:
    """As many pilots as are wanted, each as long as the budget allows; fewer if it is too little for that."""
    if not wanted and not options.pilots:
        return PilotPlan(0, options.epochs or EPOCHS[0], 0.0, options.at_once)
    o, pace, trained_on = options, measured_pace(settings, images, 1), min(len(images), options.images)

    def seconds(epochs: int) -> float:
        return _START + expected_seconds(settings.replaced(epochs=epochs), pace, trained_on, 0)

    def total(count: int, epochs: int) -> float:
        return math.ceil(count / o.at_once) * seconds(epochs)

    counts = [o.pilots] if o.pilots else range(wanted, 1, -1)
    lengths = [o.epochs] if o.epochs else EPOCHS
    for count in counts:  # many short pilots tell more than few long ones
        fitting = [epochs for epochs in lengths if total(count, epochs) <= o.seconds]
        if fitting or o.pilots:
            epochs = max(fitting, default=lengths[0])
            return PilotPlan(count, epochs, seconds(epochs), o.at_once)
    raise CoviewsError(
        f"--budget {o.budget} is too little for two pilots of {lengths[0]} epochs on {trained_on:,} images: "
        f"give {math.ceil(total(2, lengths[0]) / 60)}m or more, or fewer --images"
    )


class _PlanContent(Schema):
    """What `PlanFile.save` writes."""

    format: int
    count: Count
    epochs: Positive
    seconds: float
    per_round: Positive
    spent: float
    facts: dict[str, Any]
    rounds: list[list[tuple[str, Count]]]
    labelled: bool = True


@dataclass
class PlanFile:
    """`plan.json`: what is chosen, the plan, and every round of pilots that was begun."""

    path: Path
    facts: Mapping[str, Any]  # of what two choices must agree in to share pilots
    plan: PilotPlan
    rounds: list[Round] = field(default_factory=list)
    spent: float = 0.0  # seconds, for whole rounds

    @property
    def pilots(self) -> list[tuple[Family, int]]:
        """All families that were begun, each with its seed."""
        return [pilot for round_ in self.rounds for pilot in round_]

    def begin_round(self, families: Sequence[Family], seed: int) -> Round:
        """Note a round before it is run: a family that was tried before gets another seed."""
        round_: list[tuple[Family, int]] = []
        for some in families:
            earlier = sum(some == other for other, _ in [*self.pilots, *round_])
            round_.append((some, seed + earlier))
        self.rounds.append(round_)
        self.save()
        return round_

    def check(self, facts: Mapping[str, Any]) -> None:
        """An error where this is the plan of another choice."""
        for name, value in facts.items():
            old = self.facts.get(name)
            if old != value:
                is_sum = name == "pixels"
                words = "are others" if is_sum else f"differ in {name} ({_short(old)}, not {_short(value)})"
                raise CoviewsError(
                    f"{self.path.parent} holds pilots for another choice: its "
                    f"{'images' if is_sum else 'pilots'} {words}; choose another --out"
                )

    def save(self) -> None:
        """Write the file."""
        rounds = [[[some.text, seed] for some, seed in round_] for round_ in self.rounds]
        content = {
            "format": _FORMAT, **asdict(self.plan), "spent": round(self.spent, 1), "facts": dict(self.facts),
            "rounds": rounds,
        }  # fmt: skip
        write_whole(self.path, (json.dumps(content, indent=1) + "\n").encode())

    @classmethod
    def read(cls, folder: Path) -> "PlanFile | None":
        """The plan of a folder; None if none was begun there."""
        path = folder / PLAN
        if not path.exists():
            _check_free(folder)
            return None
        try:
            content = read_json(path, _PlanContent, "plan of pilots")
            rounds: list[Round] = [[(family(text), seed) for text, seed in r] for r in content.rounds]
        except CoviewsError as error:
            raise CoviewsError(f"{path} is damaged ({error}): remove it, or choose another --out") from error
        if content.format != _FORMAT:
            raise CoviewsError(f"{path} is of another version of coviews: choose another --out")
        plan = PilotPlan(content.count, content.epochs, content.seconds, content.per_round, content.labelled)
        return cls(path, content.facts, plan, rounds, content.spent)


def choice_facts(options: ChooseOptions, images: ImageSet, locks: Mapping[str, bool]) -> dict[str, Any]:
    """What two choices must agree in to share pilots; the labels are not of it."""
    count, height, width, channels = images.images.shape
    return {
        "size": options.size, "pixels": _checksum(images), "all images": count, "height": height, "width": width,
        "channels": channels, "images": min(options.images, count), "encoder": options.encoder, "seed": options.seed,
        "locks": dict(locks), "forbid": options.forbid, "cap": options.cap,
    }  # fmt: skip


def _checksum(images: ImageSet) -> str:
    count = len(images)
    rows = np.unique(np.linspace(0, count - 1, min(count, _COMPARED)).astype(int))
    content = hashlib.sha256(str(images.images.shape).encode())
    for row in rows:
        content.update(np.ascontiguousarray(images.images[row]).tobytes())
    return content.hexdigest()[:16]


def _check_free(folder: Path) -> None:
    """An error where the folder holds a run, a comparison, or is none."""
    if folder.exists() and not folder.is_dir():
        raise CoviewsError(f"{folder} is not a folder: choose another --out")
    for name in ("config.yaml", "results.json", "runs"):
        if (folder / name).exists():
            raise CoviewsError(f"{folder} holds something else ({name}): choose another --out")


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {'on' if on else 'off'}" for name, on in value.items()) or "none"
    return str(value)
