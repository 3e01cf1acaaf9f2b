"""A run as it lies on the disk: whole or not, finished or not, with a list of what is missing."""

import json
import math
import operator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from coviews.errors import CoviewsError
from coviews.policies.learned import AnyPolicy, Policy, load_policy
from coviews.policies.queue import PolicyQueue
from coviews.policies.statistics import PolicyStatistics, mixed_statistics, policy_statistics
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import read_settings

Record = dict[str, Any]

_MOST = 80  # policies that are looked at: more cannot be told apart in a chart, and each takes a moment
_KINDS = ("start", "look", "epoch", "search", "warning")


@dataclass(frozen=True, eq=False)
class RunRecord:
    """What a run's folder tells; nothing in it is trusted to be there, or to be of its type."""

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
        """The folder's."""
        return self.path.resolve().name

    @cached_property
    def start(self) -> Record:
        """How the run began; empty if that was lost."""
        return next(iter(self.of_kind("start")), {})

    def of_kind(self, kind: str) -> list[Record]:
        """The records of one kind."""
        return [record for record in self.records if record.get("kind") == kind]

    def series(self, kind: str, name: str, *, by_time: bool = False) -> tuple[list[float], list[float]]:
        """The epochs (or the seconds since the start), and a number that the records of a kind hold."""
        x, y, seconds = [], [], 0.0
        for record in self.records:
            seconds += number(record.get("time"), "seconds") or 0.0
            epoch, value = number(record, "epoch"), number(record, name)
            if record.get("kind") == kind and epoch is not None and value is not None:
                x.append(seconds if by_time else epoch)
                y.append(value)
        return x, y

    def seconds(self, *kinds: str) -> float:
        """The time that went into records of these kinds, or into all."""
        return sum(number(r.get("time"), "seconds") or 0.0 for r in self.records if not kinds or r["kind"] in kinds)

    @property
    def epochs_done(self) -> int:
        """How many epochs were trained."""
        return int(max(self.series("epoch", "loss")[0], default=0))

    @property
    def alike(self) -> dict[int, AnyPolicy]:
        """The policies that can be compared: those with the operations and steps of the newest."""
        kinds = {epoch: (p.space, p.views, p.steps) for epoch, p in self.policies.items()}
        return {epoch: p for epoch, p in self.policies.items() if kinds[epoch] == kinds[max(kinds)]}

    @cached_property
    def statistics(self) -> dict[int, PolicyStatistics]:
        """Those of all policies that can be compared."""
        found = {}
        alike = self.alike
        every = sorted(alike)
        for epoch in every if len(every) <= _MOST else [every[i] for i in _spread(len(every))]:
            policy = alike[epoch]
            weights = _weights(policy)
            try:
                if weights not in self.remembered:
                    self.remembered[weights] = policy_statistics(policy)
                found[epoch] = self.remembered[weights]
            except CoviewsError as error:
                self.missing.append(f"The policy of epoch {epoch} is not shown: {error}.")
        return found

    @cached_property
    def queues(self) -> dict[int, PolicyStatistics]:
        """Those of the queue after each search that gave a policy."""
        noted = {number(r, "epoch"): _queue(r) for r in self.of_kind("search")}
        made = {}
        for epoch in self.statistics:
            queue = noted.get(epoch) or self._usual_queue(epoch)
            known = [(e, w) for e, w in queue if e in self.statistics and w > 0]
            known = known or [(epoch, 1.0)]
            made[epoch] = mixed_statistics([self.statistics[e] for e, _ in known], [w for _, w in known])
        return made

    def _usual_queue(self, epoch: int) -> list[tuple[int, float]]:
        queue = PolicyQueue(self.settings.queue_size, self.settings.queue_p) if self.settings else PolicyQueue()
        before = sorted((e for e in self.statistics if e <= epoch), reverse=True)[: queue.size]
        return [(e, queue.p * (1 - queue.p) ** i) for i, e in enumerate(before)]


def read_run(path: Path, remembered: dict[bytes, PolicyStatistics] | None = None) -> RunRecord:
    """Read what can be read of a run.

    remembered: statistics of policies from an earlier reading of the same run, which this one adds to.
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


def number(record: Any, name: str) -> float | None:
    """A finite number of a record, if it has one of that name."""
    value = record.get(name) if isinstance(record, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def numbers(record: Any, name: str) -> list[float]:
    """A list of finite numbers of a record, or an empty one."""
    values = record.get(name) if isinstance(record, dict) else None
    kept = [number({"": v}, "") for v in values] if isinstance(values, list) else [None]
    return [v for v in kept if v is not None] if None not in kept else []


def _read_config(path: Path, missing: list[str]) -> tuple[PretrainSettings | None, Record, str]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        missing.append(f"The settings cannot be read (config.yaml: {error.strerror}).")
        return None, {}, ""
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        content = None
    config = {str(k): v for k, v in content.items()} if isinstance(content, dict) else {}
    try:
        return read_settings(path), config, text
    except CoviewsError as error:
        missing.append(f"The settings are not those of this version of coviews: {error}")
        return None, config, text


def _read_lines(path: Path, missing: list[str], *, optional: bool = False) -> list[Record]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        if not optional or path.exists():
            missing.append(f"{path.name} cannot be read: {error.strerror}.")
        return []
    found, damaged = [], 0
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            found.append(record)
        else:
            damaged += 1
    if damaged:
        missing.append(f"{path.name}: {damaged} of {len(lines)} lines are damaged and left out.")
    return found


def _read_policies(folder: Path, missing: list[str]) -> dict[int, AnyPolicy]:
    found = {}
    for path in sorted(folder.glob("[0-9]*.safetensors")):
        try:
            found[int(path.stem)] = load_policy(path)
        except (CoviewsError, ValueError) as error:
            missing.append(f"The policy {path.name} cannot be read: {str(error).splitlines()[0]}")
    return found


def _weights(policy: AnyPolicy) -> bytes:
    if isinstance(policy, Policy):
        return policy.network.flat.tobytes()
    numbers = repr((policy.kind, policy.tilt, policy.effects.constant, policy.keep)).encode()
    return policy.effects.steps.tobytes() + policy.effects.pairs.tobytes() + numbers


def _spread(count: int) -> list[int]:
    """So many of `count` that a chart can show, evenly, the first and the last among them."""
    return [round(i * (count - 1) / (_MOST - 1)) for i in range(_MOST)]


def _queue(search: Record) -> list[tuple[int, float]]:
    queue = search.get("queue")
    epochs, weights = numbers(queue, "epochs"), numbers(queue, "weights")
    return [(operator.index(int(e)), w) for e, w in zip(epochs, weights, strict=False)]
