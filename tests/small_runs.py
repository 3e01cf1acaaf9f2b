"""Runs that take a second: the settings, and what must be equal in two of them."""

import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import torch

from coviews import LossTable, PPOSettings, TableSettings
from coviews.methods.simclr import SimCLRSettings
from coviews.runs.settings import PretrainSettings
from coviews.training.state import Training

SEARCH = PPOSettings(iterations=3, samples=8, minibatch=8, batch=32, reference_batches=1, every=1)
SMALL = PretrainSettings(
    data="shapes:100", size=16, encoder="resnet8", epochs=4, batch_size=32, warmup_epochs=1,
    knn_every=2, method=SimCLRSettings(projector=32), space="autoaugment", search=SEARCH,
    tensorboard=False, report=False, accelerator="cpu", views="coviews",
)  # fmt: skip
BY_TABLE = TableSettings(ridge=0.5, gentle=2)


def trust_young_encoders(patch=setattr) -> None:
    """Let a table's policies differ from the prior, though the encoder tells no pair from another yet."""
    patch(LossTable, "_useless", lambda *_: None)
    patch(LossTable, "_chance", lambda _: 8.0)


@contextlib.contextmanager
def signalled(when: int | Callable[[Training], bool]) -> Iterator[None]:
    """SIGTERM reaches a training when it has looked for one so many times, or once a condition holds."""
    looks_for_one, looks = Training.stop_if_asked, []

    def looks_again(training: Training) -> None:
        looks.append(training.step)
        if when(training) if callable(when) else len(looks) == when:
            training.stop_request.signal = signal.SIGTERM
        looks_for_one(training)

    with mock.patch.object(Training, "stop_if_asked", looks_again):
        yield


def content(path: Path) -> dict:
    """All that a run leaves, by file, without the times."""
    found: dict = {}
    for file in sorted(p for p in path.rglob("*") if p.is_file() and "tensorboard" not in p.parts):
        name = str(file.relative_to(path))
        if name == "metrics.jsonl":
            records = [json.loads(line) for line in file.read_text().splitlines()]
            found[name] = [{k: v for k, v in r.items() if k != "time"} for r in records]
        elif file.suffix == ".pt":
            state = torch.load(file, weights_only=True)
            found[name] = {k: v for k, v in state.items() if k not in ("seconds", "metrics", "settings")}
        elif name == "config.yaml":
            found[name] = [
                line for line in file.read_text().splitlines() if not line.startswith(("out:", "save_every"))
            ]
        elif name not in (".lock", "report.html"):  # the page tells times
            found[name] = file.read_bytes()
    return found


def equal(one, other) -> bool:
    """To the last bit, through dictionaries and lists."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(equal(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other, strict=True))
    return one == other


def differing(one: dict, other: dict) -> list[str]:
    """The names of the files that are not equal."""
    return [name for name in sorted({*one, *other}) if not equal(one.get(name), other.get(name))]
