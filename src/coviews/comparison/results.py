"""The results of each training of a comparison, in one small file that outlives the run folders."""

import dataclasses
import importlib.metadata
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coviews.comparison.plan import Job, Plan
from coviews.errors import CoviewsError
from coviews.evaluation.measures import accuracy_measures
from coviews.evaluation.records import FILE as EVALUATIONS
from coviews.evaluation.train_and_test import shared_text
from coviews.files.atomic import write_whole
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import plain_settings, settings_of

FORMAT = 1


@dataclass(frozen=True)
class Result:
    """One training, judged."""

    variant: str
    seed: int
    accuracy: dict[str, float]  # in percent, by measure; empty without labels
    quality: dict[str, float]  # what needs no labels
    untrained: dict[str, float]  # the accuracies before training
    curve: list[list[float]]  # the looks during training: epoch, seconds, kNN in percent (RankMe without labels)
    seconds: float  # of training, searches and looks
    searching: float  # of them, in searches
    images: list[int]  # to learn from and to judge
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


def read_results(path: Path) -> Results:
    """Read what `Results.save` wrote; no results if there is no file yet."""
    if not path.exists():
        return Results()
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != FORMAT:
            raise CoviewsError(f"{path} has the format {content['format']!r}, and this version reads {FORMAT}")
        variants = {str(name): settings_of(settings, str(path)) for name, settings in content["variants"].items()}
        runs = [Result(**run) for run in content["runs"]]
        for run in runs:
            numbers = [*run.accuracy.values(), run.seconds, run.searching, *(v for row in run.curve for v in row)]
            if run.variant not in variants or not all(math.isfinite(v) for v in numbers):
                raise ValueError(f"the run {run.variant} {run.seed}")
        return Results(variants, dict(content["evaluation"]), runs)
    except OSError as error:
        raise CoviewsError(f"cannot read {path}: {error.strerror}") from error
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise CoviewsError(f"{path} holds no results of a comparison, or is damaged: {error!r}") from error


def collect(job: Job, folder: Path, threads: int) -> Result | None:
    """The result in a run's folder, if the run is finished and judged."""
    if not (folder / "encoder.safetensors").exists():
        return None
    evaluations = [r for r in _lines(folder / EVALUATIONS) if _fits(r, job.evaluation)]
    if not evaluations:
        return None
    evaluation, records = evaluations[-1]["results"], list(_lines(folder / "metrics.jsonl"))
    seconds, searching, curve = 0.0, 0.0, []
    for record in records:
        spent = float(record.get("time", {}).get("seconds", 0.0))
        seconds += spent
        searching += spent if record["kind"] == "search" else 0.0
        if record["kind"] == "look":
            curve.append([record["epoch"], round(seconds, 2), round(record.get("knn", record["rankme"]), 3)])
    return Result(
        variant=job.variant,
        seed=job.seed,
        accuracy=_accuracies(evaluation),
        quality={name: round(value, 4) for name, value in evaluation["quality"].items()},
        untrained=_accuracies(evaluation["baselines"].get("untrained", {})),
        curve=curve,
        seconds=round(seconds, 2),
        searching=round(searching, 2),
        images=[evaluation["images"]["train"], evaluation["images"]["test"]],
        made=made_with(threads),
        shared=int(evaluation["images"].get("shared", 0)),
        pretrained_on=next((int(r["images"]) for r in records if r["kind"] == "start"), 0),
    )


def _accuracies(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """In percent, the main measure first."""
    names = [measure.name for measure in accuracy_measures(main_first=True)]
    shares = {name: evaluation[name]["accuracy"] for name in names if "accuracy" in evaluation.get(name, {})}
    return {name: round(100 * share, 3) for name, share in shares.items()}


def made_with(threads: int) -> str:
    """Versions and machine, which every result names."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("coviews", "torch", "numpy"))
    cores = f"{os.cpu_count()} cores, {threads} thread{'s' if threads > 1 else ''} a run"
    return f"{versions}, Python {platform.python_version()}, {platform.machine()}, {cores}"


def _fits(record: dict[str, Any], evaluation: Mapping[str, Any]) -> bool:
    options = {**record.get("options", {}), **{name: record.get(name) for name in ("data", "test_data")}}
    finished = options.get("epoch") is None
    return finished and all(options.get(name) == value for name, value in evaluation.items())


def _lines(path: Path) -> list[dict[str, Any]]:
    records = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue  # a line that a kill cut off
    return records
