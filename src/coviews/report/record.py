"""A run's folder as data, finished or not, complete or not, with a list of what is missing."""

import math
import operator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from coviews.boundary.json_text import json_lines, read_json
from coviews.boundary.regular import read_bounded
from coviews.boundary.yaml_text import LARGEST, parse_yaml
from coviews.errors import CoviewsError
from coviews.policies.learned import AnyPolicy, Policy, load_policy
from coviews.policies.queue import PolicyQueue
from coviews.policies.statistics import PolicyStatistics, mixed_statistics, policy_statistics
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import read_settings
from coviews.searching.known import SEARCHES
from coviews.searching.measures import SearchMeasure

Record = dict[str, Any]

_MOST = 80  # policies that are shown: more cannot be told apart in a chart, and each takes a moment
_MOST_READ = 1000  # policies that are read, the newest
CHECK = "check.json"  # what `coviews check` found, in the run's folder
_KINDS = ("start", "look", "epoch", "search", "warning")


@dataclass(frozen=True, eq=False)
class RunRecord:
    """The content of a run's folder; every part of it may be missing or of a wrong type."""

    path: Path
    config: Record  # as it is in the file
    config_text: str
    settings: PretrainSettings | None  # None where this version cannot read the file
    records: list[Record]  # in the order they were written
    evaluations: list[Record]
    policies: dict[int, AnyPolicy]  # by the epoch before which they were learned
    finished: bool
    missing: list[str] = field(default_factory=list)
    remembered: dict[bytes, PolicyStatistics] = field(default_factory=dict)  # by the weights

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.resolve().name

    @cached_property
    def check(self) -> Record:
        """What `coviews check` found; empty if it was not run."""
        try:
            return read_json(self.path / CHECK, dict[str, Any], most=LARGEST)
        except CoviewsError:
            return {}

    @cached_property
    def start(self) -> Record:
        """The record of the run's start; empty if it is missing."""
        return next(iter(self.of_kind("start")), {})

    def of_kind(self, kind: str) -> list[Record]:
        """The records of one kind."""
        return [record for record in self.records if record.get("kind") == kind]

    def series(self, kind: str, name: str, *, by_time: bool = False) -> tuple[list[float], list[float]]:
        """The epochs (or the seconds since the start), and the values of a number in the records of a kind."""
        x, y, seconds = [], [], 0.0
        for record in self.records:
            seconds += number(record.get("time"), "seconds") or 0.0
            epoch, value = number(record, "epoch"), number(record, name)
            if record.get("kind") == kind and epoch is not None and value is not None:
                x.append(seconds if by_time else epoch)
                y.append(value)
        return x, y

    def seconds(self, *kinds: str) -> float:
        """The time that the records of these kinds took, or all records."""
        return sum(number(r.get("time"), "seconds") or 0.0 for r in self.records if not kinds or r["kind"] in kinds)

    @property
    def epochs_done(self) -> int:
        """The number of epochs trained."""
        return int(max(self.series("epoch", "loss")[0], default=0))

    @property
    def alike(self) -> dict[int, AnyPolicy]:
        """The policies that can be compared: those with the same operations and steps as the newest."""
        kinds = {epoch: (p.space, p.views, p.steps) for epoch, p in self.policies.items()}
        return {epoch: p for epoch, p in self.policies.items() if kinds[epoch] == kinds[max(kinds)]}

    @cached_property
    def statistics(self) -> dict[int, PolicyStatistics]:
        """Statistics of the policies that can be compared, by epoch."""
        statistics = {}
        alike = self.alike
        epochs = sorted(alike)
        for epoch in epochs if len(epochs) <= _MOST else [epochs[i] for i in _spread(len(epochs))]:
            policy = alike[epoch]
            weights = _weights(policy)
            try:
                if weights not in self.remembered:
                    self.remembered[weights] = policy_statistics(policy)
                statistics[epoch] = self.remembered[weights]
            except CoviewsError as error:
                self.missing.append(f"The policy of epoch {epoch} is not shown: {error}.")
        return statistics

    @cached_property
    def queues(self) -> dict[int, PolicyStatistics]:
        """Statistics of the queue after each search that gave a policy, by epoch."""
        recorded = {number(r, "epoch"): _queue(r) for r in self.of_kind("search")}
        statistics = {}
        for epoch in self.statistics:
            queue = recorded.get(epoch) or self._usual_queue(epoch)
            known = [(e, w) for e, w in queue if e in self.statistics and w > 0]
            known = known or [(epoch, 1.0)]
            statistics[epoch] = mixed_statistics([self.statistics[e] for e, _ in known], [w for _, w in known])
        return statistics

    def _usual_queue(self, epoch: int) -> list[tuple[int, float]]:
        queue = PolicyQueue(self.settings.queue_size, self.settings.queue_p) if self.settings else PolicyQueue()
        before = sorted((e for e in self.statistics if e <= epoch), reverse=True)[: queue.size]
        return [(e, queue.p * (1 - queue.p) ** i) for i, e in enumerate(before)]


def read_run(path: Path, remembered: dict[bytes, PolicyStatistics] | None = None) -> RunRecord:
    """Read what can be read of a run.

    remembered: statistics of policies from an earlier reading of the same run; new ones are added to it.
    """
    if not path.is_dir():
        raise CoviewsError(f"there is no run {path}: give the folder that coviews pretrain wrote")
    if not any((path / name).exists() for name in ("config.yaml", "metrics.jsonl")):
        raise CoviewsError(f"{path} is not a run: it has neither config.yaml nor metrics.jsonl")
    missing: list[str] = []
    settings, config, text = _read_config(path / "config.yaml", missing)
    records = [r for r in _read_lines(path / "metrics.jsonl", missing) if r.get("kind") in _KINDS]
    evaluations = _read_lines(path / "evaluations.jsonl", missing, optional=True)
    policies = _read_policies(path / "policies", missing)
    run = RunRecord(path, config, text, settings, records, evaluations, policies,
                    (path / "encoder.safetensors").exists(), missing,
                    {} if remembered is None else remembered)  # fmt: skip
    if not run.start:
        missing.append("How the run began is not in its metrics: images, their size and the encoder's are not known.")
    if not run.finished:
        planned = number(config, "epochs")
        of = f" of {planned:.0f}" if planned else ""
        missing.append(
            f"The run is not finished: {run.epochs_done}{of} epochs are done, and this is what is known so far."
        )
    apart = len(policies) - len(run.alike)
    if apart:
        missing.append(f"{apart} policies have other operations or steps than the newest, and are not shown.")
    return run


def search_measures(run: RunRecord) -> tuple[SearchMeasure, ...]:
    """What the run's searches recorded."""
    return SEARCHES[run.settings.search.name].measures if run.settings is not None else ()


def number(record: Any, name: str) -> float | None:
    """The finite number of that name in a record, or None."""
    value = record.get(name) if isinstance(record, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def numbers(record: Any, name: str) -> list[float]:
    """The list of finite numbers of that name in a record, or an empty list."""
    values = record.get(name) if isinstance(record, dict) else None
    finite = [number({"": v}, "") for v in values] if isinstance(values, list) else []
    return [v for v in finite if v is not None] if None not in finite else []


def _read_config(path: Path, missing: list[str]) -> tuple[PretrainSettings | None, Record, str]:
    """The settings, the mapping that the file holds, and its text, as far as they can be read."""
    text, config = "", {}
    try:
        text = read_bounded(path, LARGEST, "settings").decode("utf-8", "replace")
        config = parse_yaml(text, dict[str, Any], "config.yaml")
        return read_settings(path), config, text
    except CoviewsError as error:
        wrong = "The settings are not those of this version of coviews" if text else "The settings cannot be read"
        missing.append(f"{wrong}: {error}")
        return None, config, text


def _read_lines(path: Path, missing: list[str], *, optional: bool = False) -> list[Record]:
    if optional and not path.exists():
        return []
    records, damaged = [], 0
    try:
        for record in json_lines(path):
            if record is None:
                damaged += 1
            else:
                records.append(record)
    except CoviewsError as error:
        missing.append(f"{path.name} cannot be read: {error}")
    if damaged:
        missing.append(f"{path.name}: {damaged} of {damaged + len(records)} lines are damaged and left out.")
    return records


def _read_policies(folder: Path, missing: list[str]) -> dict[int, AnyPolicy]:
    policies = {}
    paths = sorted(folder.glob("[0-9]*.safetensors"))
    for path in paths if len(paths) <= _MOST_READ else paths[-_MOST_READ:]:
        try:
            policies[int(path.stem)] = load_policy(path)
        except (CoviewsError, ValueError) as error:
            missing.append(f"The policy {path.name} cannot be read: {str(error).splitlines()[0]}")
    return policies


def _weights(policy: AnyPolicy) -> bytes:
    if isinstance(policy, Policy):
        return policy.network.flat.tobytes()
    numbers = repr((policy.kind, policy.tilt, policy.effects.constant, policy.keep)).encode()
    placement = policy.effects.placement
    crops = b"" if placement is None else placement.values.tobytes() + repr(placement.description()).encode()
    return policy.effects.steps.tobytes() + policy.effects.pairs.tobytes() + numbers + crops


def _spread(count: int) -> list[int]:
    """Indices of at most as many of `count` as a chart can show, evenly spaced, the first and the last included."""
    return [round(i * (count - 1) / (_MOST - 1)) for i in range(_MOST)]


def _queue(search: Record) -> list[tuple[int, float]]:
    queue = search.get("queue")
    epochs, weights = numbers(queue, "epochs"), numbers(queue, "weights")
    return [(operator.index(int(e)), w) for e, w in zip(epochs, weights, strict=False)]
