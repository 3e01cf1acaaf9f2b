"""The run directory: settings, metrics, checkpoints, policies; whole after a kill at any moment."""

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import torch

from coviews.boundary.checkpoints import check_plain, read_pickled
from coviews.boundary.json_text import json_lines
from coviews.boundary.schema import Count, OpenSchema, Positive, checked
from coviews.errors import CoviewsError
from coviews.files.atomic import remove_partial, write_whole, writing
from coviews.files.lock import FolderLock, lock_folder
from coviews.policies.learned import AnyPolicy, load_policy
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import read_settings, settings_yaml

FORMAT = 3  # of the checkpoint; goes up when one version would misread another's
# all that a run writes: what --overwrite may delete
_OURS = ("config.yaml", "metrics.jsonl", "broken.txt", "checkpoints", "policies", "tensorboard", "encoder.safetensors",
         "viewmaker.safetensors", "report.html", "check.json", "evaluations.jsonl", ".evaluations.jsonl.lock",
         ".lock")  # fmt: skip
CHOICE = "choice"  # what `pretrain --views choose` writes there before the run begins; it stays


class Start(OpenSchema):
    """How a run began: the line of its metrics that the program itself needs later."""

    images: Positive
    height: Positive
    width: Positive
    channels: Positive
    mean: list[float]
    std: list[float]


class _Checkpoint(OpenSchema):
    """The plain values in a checkpoint; its weights, and the states of optimiser and search, are judged by these."""

    format: int
    metrics: Count  # bytes
    settings: str
    data: list[float]
    epoch: Positive
    step: Count
    total: float
    searched: Count
    queued: list[Positive]
    quality: dict[str, float]
    untrained: dict[str, float]
    seconds: dict[str, float]
    method: dict[str, Any]
    optimizer: dict[str, Any]
    precision: dict[str, Any]
    search: dict[str, Any]
    looks: dict[str, Any] = msgspec.field(default_factory=dict)
    keeping: dict[str, Any] = msgspec.field(default_factory=dict)
    hard_views: dict[str, Any] = msgspec.field(name="hard views", default_factory=dict)


class Run:
    """The folder of one run. It is locked while it is open for writing: two processes cannot train in it."""

    def __init__(self, path: Path, *, writes: bool = True) -> None:
        self.path, self.writes = path, writes
        self._metrics: BinaryIO | None = None
        self._lock: FolderLock | None = None

    @classmethod
    def create(cls, path: Path, settings: PretrainSettings, *, overwrite: bool = False, writes: bool = True) -> "Run":
        """A new run in an empty folder, or in one that held another run if it may be overwritten."""
        run = cls(path, writes=writes)
        if writes:
            run._make_room(overwrite)
            run._take_lock()
            run._make_folders()
            remove_partial(path)
            write_whole(path / "config.yaml", settings_yaml(settings).encode())
            run.start_metrics(0)
        return run

    @classmethod
    def open(cls, path: Path, *, writes: bool = True) -> "Run":
        """A run that is there."""
        if not (path / "config.yaml").is_file():
            if not path.exists():
                raise CoviewsError(f"there is no run {path}: give the folder that coviews pretrain wrote")
            raise CoviewsError(f"{path} is not a run: it has no config.yaml")
        run = cls(path, writes=writes)
        if writes:
            run._take_lock()
            run._make_folders()
            remove_partial(path)
        return run

    def close(self) -> None:
        """Let go of the folder."""
        metrics, lock = self._metrics, self._lock
        self._metrics = self._lock = None
        try:
            if metrics is not None:
                with writing(self.path / "metrics.jsonl"):  # what a full disk did not take is tried once more
                    metrics.close()
        finally:
            if lock is not None:
                lock.close()

    @property
    def settings(self) -> PretrainSettings:
        """As they were given."""
        return read_settings(self.path / "config.yaml")

    @property
    def checkpoint(self) -> Path:
        """The last one."""
        return self.path / "checkpoints" / "last.pt"

    @property
    def encoder(self) -> Path:
        """The encoder's file."""
        return self.path / "encoder.safetensors"

    @property
    def viewmaker(self) -> Path:
        """The network that made the views, once the run is finished, if it has one."""
        return self.path / "viewmaker.safetensors"

    # ---------------------------------------------------------------------------------------------- metrics

    def start_metrics(self, length: int) -> None:
        """Go on writing metrics after the first `length` bytes; what stands behind them is dropped."""
        if not self.writes:
            return
        path = self.path / "metrics.jsonl"
        with writing(path):
            path.touch()
            if path.stat().st_size < length:
                raise CoviewsError(f"{path} is shorter than when the checkpoint was saved: the run is damaged")
            self._metrics = open(path, "r+b")  # noqa: SIM115 - open for as long as the run is
            self._metrics.truncate(length)
            self._metrics.seek(length)

    def log(self, record: dict[str, Any]) -> None:
        """One more line of metrics."""
        if self._metrics is not None:
            try:
                self._metrics.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
                self._metrics.flush()
            except OSError as error:
                raise CoviewsError(f"cannot write {self.path / 'metrics.jsonl'}: {error.strerror}") from error

    def metrics(self) -> list[dict[str, Any]]:
        """All lines of metrics that are whole."""
        return [line for line in json_lines(self.path / "metrics.jsonl", "metrics") if line is not None]

    def start(self) -> Start:
        """How the run began."""
        line = next((line for line in self.metrics() if line.get("kind") == "start"), {})
        return checked(line, Start, f"how the run {self.path} started, as its metrics have it,")

    # ------------------------------------------------------------------------------- checkpoints and policies

    def save(self, state: dict[str, Any], keep: int | None = None) -> None:
        """Replace the checkpoint; until the new one is whole, the old one stays.

        keep: the epoch for which it is kept for good as well.
        """
        if not self.writes:
            return
        assert self._metrics is not None
        with writing(self.path / "metrics.jsonl"):
            os.fsync(self._metrics.fileno())
        write = torch_writer({"format": FORMAT, "metrics": self._metrics.tell(), **state})
        if keep is not None:  # first: after the last checkpoint nobody would come back to it
            write_whole(self.checkpoint.with_name(f"epoch-{keep:04d}.pt"), write)
        write_whole(self.checkpoint, write)

    def load(self) -> dict[str, Any] | None:
        """The last checkpoint, if there is one; nothing in it is executed."""
        if not self.checkpoint.exists():
            return None
        try:
            return read_checkpoint(self.checkpoint)
        except CoviewsError as error:
            kept = sorted(path.name for path in self.checkpoint.parent.glob("epoch-*.pt"))
            advice = f"copy {kept[-1]} over it and resume" if kept else "no other was kept: begin anew with --overwrite"
            raise CoviewsError(f"{error}; {advice}") from error

    def policy_path(self, epoch: int) -> Path:
        """Where the policy is that was learned before this epoch."""
        return self.path / "policies" / f"{epoch:04d}.safetensors"

    def save_policy(self, epoch: int, policy: AnyPolicy) -> None:
        """Keep a policy."""
        if self.writes:
            policy.save(self.policy_path(epoch))

    def policies(self) -> dict[int, AnyPolicy]:
        """All policies, by the epoch before which they were learned."""
        return {int(p.stem): load_policy(p) for p in sorted((self.path / "policies").glob("[0-9]*.safetensors"))}

    # ---------------------------------------------------------------------------------------------- the folder

    def _make_folders(self) -> None:
        for folder in ("checkpoints", "policies"):
            with writing(self.path / folder):
                (self.path / folder).mkdir(exist_ok=True)

    def _make_room(self, overwrite: bool) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            there = [entry.name for entry in os.scandir(self.path)]
        except OSError as error:
            raise CoviewsError(f"cannot write to {self.path}: {error.strerror}") from error
        if "config.yaml" not in there and all(n in (*_OURS, CHOICE) or n.endswith(".partial") for n in there):
            return  # empty, or what a kill left of a run that had not begun
        if "config.yaml" not in there:
            raise CoviewsError(f"{self.path} is not empty, and not a run: choose another --out")
        if not overwrite:
            raise CoviewsError(
                f"{self.path} holds a run: continue it with --resume {self.path}, choose another --out, or --overwrite"
            )
        self._take_lock()  # nobody may be training in it
        for name in sorted(
            (n for n in there if n in _OURS and n != ".lock"), key="config.yaml".__eq__
        ):  # that one last
            entry = self.path / name
            with writing(entry):
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()

    def _take_lock(self) -> None:
        if self._lock is None:
            self._lock = lock_folder(self.path)


def torch_writer(content: Any) -> Callable[[BinaryIO], None]:
    """A function that writes something with torch; what fails is an OSError."""

    def write(file: BinaryIO) -> None:
        try:
            torch.save(content, file)
        except RuntimeError as error:  # torch's own words for a full disk are no help
            raise OSError(28, "the disk is full, or cannot be written to") from error

    return write


def read_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint, if it is whole and of this format."""
    state = read_pickled(path, "checkpoint")
    if not isinstance(state, dict) or type(state.get("format")) is not int:
        raise CoviewsError(f"the checkpoint {path} is damaged: it holds no run")
    check_plain(state, f"the checkpoint {path}")
    if state["format"] == 2 and "table" in state:  # of version 0.1.0
        state |= {"format": FORMAT, "search": state.pop("table") or {}}
    if state["format"] != FORMAT:
        raise CoviewsError(
            f"the checkpoint {path} has the format {state['format']!r}, and this version of coviews reads {FORMAT}"
        )
    plain = {k: v for k, v in state.items() if k in _Checkpoint.__struct_encode_fields__}
    checked(plain, _Checkpoint, f"the checkpoint {path}")
    if not all(isinstance(k, str) and isinstance(v, torch.Tensor) for k, v in state["method"].items()):
        raise CoviewsError(f"the checkpoint {path} is wrong: its weights are not names with tensors")
    if not all(0 <= spent < math.inf for spent in state["seconds"].values()):
        raise CoviewsError(f"the checkpoint {path} is wrong: it has times that are not finite")
    return state
