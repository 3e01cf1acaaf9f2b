"""Population based augmentation: a schedule of operations, learned by a population of short trainings.

Ho et al., Population Based Augmentation: Efficient Learning of Augmentation Policy Schedules, ICML 2019. Sixteen
members train, each with operations of its own. Every few epochs all are judged; the worst quarter take over the weights
and the operations of members of the best quarter, and change the operations a little (`searching/population.py`). The
schedule is what the best member at the end was trained with, from its first epoch on, through all of its ancestors.

Where the paper is silent, or we do otherwise: it judges by the accuracy of a classifier, and we have none, so members
are judged by the rotation probe of their encoder (Reed et al., CVPR 2021), or by kNN where labels may be used. In the
paper members train for 200 epochs, with copies every 3; here, with a tenth of the epochs of the training, copies are
made as often in proportion. All members begin with the same weights, so all but the first begin with operations that
were changed once: otherwise they would be the same training. Crops and flips are those of the training.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import torch

from coviews.boundary.json_text import read_json
from coviews.boundary.schema import Count, Name, Schema
from coviews.comparison.pilot_folder import PilotFolder, pilot_epochs
from coviews.console.progress import Display
from coviews.encoders.features import features
from coviews.errors import CoviewsError, unknown
from coviews.evaluation.turns import rotation_probe, turns
from coviews.files.atomic import write_whole, writing
from coviews.policies.fixed import fitted_source
from coviews.policies.json_policies import range_space
from coviews.policies.schedule import Schedule, ScheduledOperation, Stage
from coviews.runs.folder import Run
from coviews.runs.settings import PretrainSettings
from coviews.searching.population import Operations, explored, replacements, unused
from coviews.training.lifecycle import begin
from coviews.training.pretrain import train
from coviews.training.setup import make_fabric
from coviews.training.signals import listening
from coviews.training.state import Training

if TYPE_CHECKING:
    from lightning_fabric import Fabric

MEMBERS = 16
PAPER_EPOCHS, PAPER_EVERY = 200, 3  # of a member, and from one copying to the next
MOST_JUDGED = 1000  # images that the rotation probe looks at
SCHEDULE, STATE, RUNS = "schedule.json", "population.json", "members"
EXPLORE, REPLACE, JUDGED = 13, 14, 15  # streams of random numbers


def _rotation(t: Training) -> float:
    images = t.images.images
    generator = np.random.default_rng([t.settings.seed, JUDGED])
    some = images[np.sort(generator.choice(len(images), min(len(images), MOST_JUDGED), replace=False))]
    mean, std = t.views.mean, t.views.std
    return rotation_probe(*(features(t.bare.encoder, turned, mean, std) for turned in turns(some)))


def _knn(t: Training) -> float:
    return t.monitor(t.bare.encoder, t.fabric.device)["knn"] / 100


SCORES: dict[str, Callable[[Training], float]] = {"rotation": _rotation, "knn": _knn}


@dataclass(frozen=True)
class PopulationChoice:
    """What the population learned."""

    settings: PretrainSettings
    """The settings with the schedule."""
    schedule: Schedule
    file: Path
    """Where the schedule is."""
    scores: list[float]
    """Of all members at the end, shares in 0..1."""
    score: str
    """What they are judged by."""

    @property
    def sentence(self) -> str:
        """For a reader."""
        return (
            f"The best of {len(self.scores)} members has a schedule of {len(self.schedule.stages)} stages "
            f"({self.file}): its {self.score} score is {max(self.scores):.3f}, the median {np.median(self.scores):.3f}."
        )


def population_augment(
    settings: PretrainSettings,
    out: str | Path,
    *,
    epochs: int | None = None,
    members: int = MEMBERS,
    every: int | None = None,
    score: str = "rotation",
    progress: bool = True,
) -> PopulationChoice:
    """Learn a schedule of operations by a population of short trainings.

    Called again with the same folder it goes on where it was; the same seed gives the same schedule.

    Args:
        settings: of the training that is to follow; its `space` has the operations, AutoAugment's by default.
        out: the folder for the members and the schedule.
        epochs: of each member; by default a tenth of those of the training.
        members: of the population, two or more.
        every: epochs from one copying to the next; by default as many as in the paper, in proportion.
        score: what members are judged by: "rotation" (the rotation probe, without labels) or "knn" (with labels).
        progress: show what is going on.
    """
    if score not in SCORES:
        raise unknown("score of a population", score, SCORES)
    if members < 2 or (every is not None and every < 1):
        raise CoviewsError("a population needs two members or more, and an epoch or more from one copying to the next")
    length = epochs or pilot_epochs(settings)
    every = every or max(1, round(length * PAPER_EVERY / PAPER_EPOCHS))
    figures: dict[str, int | float | str] = {"members": members, "every": every, "score": score}
    turned = score == "rotation"
    with PilotFolder.opened("a population", settings, out, length, figures, progress, turned=turned) as folder:
        if score == "knn" and folder.images.labels is None:
            raise CoviewsError(f"{settings.data} has no labels to judge by kNN: judge by the rotation probe")
        with Display(progress) as display:
            display.line(f"population: {members} members of {length} epochs, copied every {every}, in {folder.path}")
            population = _Population(folder, members, every, SCORES[score], display)
            population.train()
        file = folder.path / SCHEDULE
        schedule = Schedule(_joined(population.best.stages), space=population.space)
        scores = [member.score or 0.0 for member in population.state.members]
        schedule.save(file, {"search": "population", "seed": settings.seed, "scores": scores, **figures})
        with writing(folder.path / RUNS):
            shutil.rmtree(folder.path / RUNS, ignore_errors=True)  # their checkpoints are large
    return PopulationChoice(settings.replaced(views=str(file)), schedule, file, scores, score)


_Rows = list[tuple[Name, int, int]]


class _Stage(Schema):
    epochs: Count
    operations: _Rows


class _Member(Schema):
    operations: _Rows  # of the next epochs
    stages: list[_Stage] = msgspec.field(default_factory=list)  # of those before
    score: float | None = None  # at the end of the epochs that are being trained


class _State(Schema):
    """Where a population is."""

    members: list[_Member]
    epoch: Count = 0  # that all members have done
    copies: list[tuple[int, int]] = msgspec.field(default_factory=list)  # weights that are still to be copied


class _Population:
    """Trains the members in turn; all that it decides is on the disk before anything depends on it."""

    def __init__(
        self, folder: PilotFolder, members: int, every: int, score: Callable[[Training], float], display: Display
    ) -> None:
        self.folder, self.every, self.score, self.display = folder, every, score, display
        s, images = folder.settings, folder.images.images
        self.settings, self.fits = s, (images.shape[3], images.dtype)
        self.space = range_space(s.space)
        ops = [op for op in s.limits.space(self.space).fitting(*self.fits).ops if op != "Identity"]
        if not ops:
            raise CoviewsError("--matters and --forbid leave no operation to learn: allow some")
        self.file = folder.path / STATE
        if self.file.exists():
            self.state = read_json(self.file, _State, "state of a population")
        else:
            start = unused(ops)
            others = [explored(start, self._generator(EXPLORE, 0, member)) for member in range(1, members)]
            self.state = _State([_Member(list(operations)) for operations in (start, *others)])

    @property
    def best(self) -> _Member:
        """The member with the highest score; of equals the first."""
        return max(self.state.members, key=lambda member: member.score or 0.0)

    def train(self) -> None:
        """Train all members to the end."""
        fabric, epochs = make_fabric(self.settings), self.settings.epochs
        while True:
            self._copy()
            if self.state.epoch >= epochs:
                return
            until = min(self.state.epoch + self.every, epochs)
            for number, member in enumerate(self.state.members):
                if member.score is None:
                    text = f"member {number + 1} of {len(self.state.members)}"
                    self.display.update(f"population: epoch {until}", until - self.every, epochs, text)
                    member.score = self._train_member(number, _operations(member.operations), until, fabric)
                    self._save()
            self._end_round(until)

    def _end_round(self, until: int) -> None:
        """Note what all members did, and decide who becomes a copy of whom."""
        state, epochs = self.state, until - self.state.epoch
        scores = [member.score or 0.0 for member in state.members]
        for member in state.members:
            member.stages = [*member.stages, _Stage(epochs, member.operations)]
        self.display.line(f"population: epoch {until}, best score {max(scores):.3f}", always=False)
        state.epoch = until
        if until < self.settings.epochs:
            state.copies = replacements(scores, self._generator(REPLACE, until))
            for loser, winner in state.copies:
                better = state.members[winner]
                operations = explored(_operations(better.operations), self._generator(EXPLORE, until, loser))
                state.members[loser] = _Member(list(operations), better.stages)
            for member in state.members:
                member.score = None
        self._save()

    def _copy(self) -> None:
        """Give weights to the members that are copies; whoever is copied stays, so that it can be done again."""
        for loser, winner in self.state.copies:
            source, target = (Run(self._path(member), writes=False) for member in (winner, loser))
            for file in (source.path / "metrics.jsonl", source.checkpoint):
                with writing(target.path), open(file, "rb") as content:
                    write_whole(target.path / file.relative_to(source.path), partial(shutil.copyfileobj, content))
        if self.state.copies:
            self.state.copies = []
            self._save()

    def _train_member(self, number: int, operations: Operations, until: int, fabric: "Fabric") -> float:
        """Train a member to the end of an epoch, from wherever it is, and judge it."""
        path = self._path(number)
        resumed = (path / "config.yaml").exists()
        source = self.settings.limits.source(Schedule((Stage(1, operations),), space=self.space))
        with torch.random.fork_rng(), Display(enabled=False) as silent:
            s = self.settings.replaced(out=path)
            trained = Run(path, writes=False).checkpoint.exists()  # then the weights are in it
            start = s.replaced(init_from=None) if trained else s
            t = Training(start, fabric, silent, self.folder.images, None, resumed=resumed)
            t.settings = t.settings.replaced(init_from=s.init_from)
            t.first_source = fitted_source(source, *self.fits)
            try:
                begin(t, path if resumed else None, overwrite=False)
                with listening(t.stop_request, self.display.line):
                    train(t, until)
                return self.score(t)
            finally:
                t.close()

    def _path(self, member: int) -> Path:
        return self.folder.path / RUNS / f"{member:02d}"

    def _generator(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng([self.settings.seed, *stream])

    def _save(self) -> None:
        write_whole(self.file, json.dumps(msgspec.to_builtins(self.state)).encode())


def _joined(stages: list[_Stage]) -> tuple[Stage, ...]:
    """The stages, those with equal operations in a row as one."""
    joined: list[Stage] = []
    for stage in stages:
        operations = _operations(stage.operations)
        if joined and joined[-1].operations == operations:
            joined[-1] = Stage(joined[-1].epochs + stage.epochs, operations)
        else:
            joined.append(Stage(stage.epochs, operations))
    return tuple(joined)


def _operations(rows: _Rows) -> Operations:
    return tuple(ScheduledOperation(*row) for row in rows)
