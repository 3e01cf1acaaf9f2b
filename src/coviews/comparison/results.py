"""The results of each training of a comparison, in one small file that outlives the run folders."""

import contextlib
import dataclasses
import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from coviews.boundary.json_text import json_lines, read_json
from coviews.boundary.schema import Count, Name, OpenSchema, Schema, checked
from coviews.comparison.plan import Job, Plan
from coviews.comparison.search_time import seconds_of_search
from coviews.compat import cores
from coviews.errors import CoviewsError
from coviews.evaluation.measures import accuracy_measures
from coviews.evaluation.records import FILE as EVALUATIONS
from coviews.evaluation.train_and_test import shared_text
from coviews.files.atomic import write_whole
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import plain_settings, settings_of

FORMAT = 1
T = TypeVar("T")
_Three = Annotated[list[float], msgspec.Meta(min_length=3, max_length=3)]
_Two = Annotated[list[int], msgspec.Meta(min_length=2, max_length=2)]


@dataclass(frozen=True)
class Result:
    """One training, judged."""

    variant: str
    seed: int
    accuracy: dict[str, float]  # in percent, by measure; empty without labels
    quality: dict[str, float]  # what needs no labels
    untrained: dict[str, float]  # the accuracies before training
    curve: list[_Three]  # the looks during training: epoch, seconds, kNN in percent (RankMe without labels)
    seconds: float  # of training, searches and looks
    searching: float  # of them, in searches
    images: _Two  # to learn from and to judge
    made: str  # versions and machine
    shared: int = 0  # test images that are among the training images
    pretrained_on: int = 0  # images; 0 in files of version 0.1.0


@dataclass
class Results:
    """All results of a comparison."""

    variants: dict[str, PretrainSettings] = field(default_factory=dict)
    evaluation: dict[str, Any] = field(default_factory=dict)  # how all were judged
    runs: list[Result] = field(default_factory=list)

    def get(self, variant: str, seed: int) -> Result | None:
        """The result of one training, if it is done."""
        return next((r for r in self.runs if (r.variant, r.seed) == (variant, seed)), None)

    def of(self, variant: str, seeds: Sequence[int] | None = None) -> list[Result]:
        """The results of a variant, by seed."""
        runs = [r for r in self.runs if r.variant == variant and (seeds is None or r.seed in seeds)]
        return sorted(runs, key=lambda r: r.seed)

    @property
    def step(self) -> float:
        """What one test image more or less makes of an accuracy, in points."""
        fewest = min((run.images[1] for run in self.runs if run.images[1]), default=0)
        return 100 / fewest if fewest else 0.0

    @property
    def leak(self) -> str:
        """What is said of test images that are among the training images; empty if there are none."""
        worst = max(self.runs, key=lambda run: run.shared, default=None)
        return "" if worst is None else shared_text(worst.shared, worst.images[1])

    def agree(self, plan: Plan, where: Path) -> None:
        """Add the plan's variants; refuse those that were trained or judged in another way before."""
        if self.runs and self.evaluation != dict(plan.evaluation):
            raise CoviewsError(
                f"{where} holds results that were judged in another way: choose another --out, or remove that file "
                "(finished runs are judged again, not trained again)"
            )
        for name, settings in plan.variants.items():
            before = self.variants.get(name)
            if before is not None and self.of(name):
                for setting, (was, now) in before.differences(settings).items():
                    if setting != "seed":
                        raise CoviewsError(
                            f"{where} holds {name} with another {setting} ({was!r}, not {now!r}): choose another --out"
                        )
            self.variants[name] = settings.replaced(seed=0, out=None)
        self.evaluation = dict(plan.evaluation)

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        content = {
            "format": FORMAT,
            "evaluation": self.evaluation,
            "variants": {name: plain_settings(s) for name, s in self.variants.items()},
            "runs": [dataclasses.asdict(r) for r in self.runs],
        }
        write_whole(path, (json.dumps(content, indent=1) + "\n").encode())


class _ResultsFile(Schema):
    """What `Results.save` writes."""

    format: int
    evaluation: dict[str, Any]
    variants: dict[Name, dict[str, Any]]
    runs: list[Result]

    def __post_init__(self) -> None:
        for run in self.runs:
            if run.variant not in self.variants:
                raise ValueError(f"the run {run.variant} {run.seed} is of none of its variants")


def read_results(path: Path) -> Results:
    """Read what `Results.save` wrote; no results if there is no file yet."""
    if not path.exists():
        return Results()
    content = read_json(path, _ResultsFile, "results")
    if content.format != FORMAT:
        raise CoviewsError(f"{path} has the format {content.format}, and this version reads {FORMAT}")
    variants = {name: settings_of(settings, str(path)) for name, settings in content.variants.items()}
    return Results(variants, content.evaluation, content.runs)


class _Time(OpenSchema):
    seconds: float = 0.0


class _Metrics(OpenSchema):
    """What is read of a line of a run's metrics."""

    kind: Name
    epoch: float = 0.0
    time: _Time = msgspec.field(default_factory=_Time)
    knn: float | None = None
    rankme: float | None = None
    images: int | None = None


class _Images(OpenSchema):
    train: Count
    test: Count
    shared: Count = 0


class _Evaluation(OpenSchema):
    """What is read of a line of a run's evaluations."""

    quality: dict[str, float]
    images: _Images
    baselines: dict[str, dict[str, Any]]


class _EvaluationLine(OpenSchema):
    results: dict[str, Any]
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    data: str | None = None
    test_data: str | None = None


def collect(job: Job, folder: Path, threads: int) -> Result | None:
    """The result in a run's folder, if the run is finished and judged."""
    if not (folder / "encoder.safetensors").exists():
        return None
    judged = [line for line in _lines(folder / EVALUATIONS, _EvaluationLine) if _fits(line, job.evaluation)]
    if not judged:
        return None
    results = judged[-1].results
    evaluation = checked(results, _Evaluation, f"the last evaluation in {folder}")
    before = seconds_of_search(folder)
    seconds, searching, curve, pretrained_on = before, before, [], 0
    for record in _lines(folder / "metrics.jsonl", _Metrics):
        seconds += record.time.seconds
        searching += record.time.seconds if record.kind == "search" else 0.0
        pretrained_on = record.images or pretrained_on
        quality = record.rankme if record.knn is None else record.knn
        if record.kind == "look" and quality is not None:
            curve.append([record.epoch, round(seconds, 2), round(quality, 3)])
    return Result(
        variant=job.variant,
        seed=job.seed,
        accuracy=_accuracies(results),
        quality={name: round(value, 4) for name, value in evaluation.quality.items()},
        untrained=_accuracies(evaluation.baselines.get("untrained", {})),
        curve=curve,
        seconds=round(seconds, 2),
        searching=round(searching, 2),
        images=[evaluation.images.train, evaluation.images.test],
        made=made_with(threads),
        shared=evaluation.images.shared,
        pretrained_on=pretrained_on,
    )


def _accuracies(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """In percent, the main measure first."""
    names = [measure.name for measure in accuracy_measures(main_first=True)]
    shares = {name: evaluation[name].get("accuracy") for name in names if isinstance(evaluation.get(name), dict)}
    return {name: round(100 * share, 3) for name, share in shares.items() if isinstance(share, int | float)}


def made_with(threads: int) -> str:
    """Versions and machine, which every result names."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("coviews", "torch", "numpy"))
    machine = f"{platform.machine()}, {cores()} core{'s' if cores() > 1 else ''}"
    each = f"{threads} thread{'s' if threads > 1 else ''} a run"
    return f"{versions}, Python {platform.python_version()}, {machine}, {each}"


def _fits(line: _EvaluationLine, evaluation: Mapping[str, Any]) -> bool:
    options = {**line.options, "data": line.data, "test_data": line.test_data}
    finished = options.get("epoch") is None
    return finished and all(options.get(name) == value for name, value in evaluation.items())


def _lines(path: Path, shape: type[T]) -> list[T]:
    """The lines of a file that are whole, and of this kind."""
    lines = []
    for line in json_lines(path) if path.exists() else ():
        with contextlib.suppress(CoviewsError):
            if line is not None:
                lines.append(checked(line, shape, "a line"))
    return lines
