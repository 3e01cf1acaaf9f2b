"""Kill everything that resumes at many moments, or let its disk be full; go on, and compare with what nobody stopped.

A program of its own: it loads everything once and forks a process for each run, so that a kill costs a second.
`python tests/killed_runs.py all --kills 100` is part of `make fuzz`.
"""

import argparse
import fcntl
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import coviews.comparison.compare
import coviews.comparison.worker
import coviews.features.embed
import coviews.features.parts
import coviews.files.atomic
import coviews.ops.engine
import coviews.runs.folder
import coviews.training.batches
import coviews.training.pair_losses
import coviews.training.pretrain
from coviews import CoviewsError, pretrain
from coviews.searching.known import SEARCHES
from small_runs import BY_TABLE, SMALL, content, differing, trust_young_encoders
from trainings_here import train_here

DISKS = (0, 300, 20_000, 200_000)  # bytes that a file may have on a disk that is full
_MOST_SAID = 1 << 20  # bytes that a process may say before somebody reads it
_COMPILED = (".nbi", ".nbc")  # files of numba: it writes them where something runs for the first time
FULL, WRONG = 3, 1  # exit codes: ended with an error that says so, or with any other


class Moments:
    """Counts what happens in a run; before the wanted moment, it kills the process or fills the disk."""

    def __init__(self, stop_at: tuple[str, int] | None = None, disk: int | None = None) -> None:
        self.stop_at, self.disk, self.seen = stop_at, disk, {}

    def __call__(self, kind: str) -> None:
        self.seen[kind] = self.seen.get(kind, 0) + 1
        if self.stop_at != (kind, self.seen[kind]):
            return
        if self.disk is None:
            os.kill(os.getpid(), signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.disk, resource.RLIM_INFINITY))

    def watch(self, owner, name: str, kind: str) -> None:
        old = getattr(owner, name)

        def new(*args, **kwargs):
            if owner is not os or not str(args[-1]).endswith(_COMPILED):
                self(kind)
            return old(*args, **kwargs)

        setattr(owner, name, new)

    def install(self) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # what is too long is an error, as on a full disk
        self.watch(coviews.training.batches.Batches, "make", "training")
        self.watch(coviews.training.pair_losses.PairLosses, "_batch_losses", "searching")
        self.watch(coviews.LossTable, "policy", "searching")
        self.watch(coviews.LossTable, "add", "training")
        self.watch(torch.optim.SGD, "step", "training")
        self.watch(os, "replace", "saving")
        self.watch(os, "fsync", "saving")
        self.watch(coviews.runs.folder.Run, "log", "between")
        self.watch(coviews.training.pretrain, "finish", "between")
        self.watch(coviews.comparison.compare, "collect", "between")
        self.watch(coviews.comparison.worker, "begin_or_continue", "between")
        self.watch(coviews.features.parts, "check_features", "training")
        self.watch(coviews.features.embed, "write_features", "between")
        moments = self

        class Halfway(io.BufferedWriter):
            """A file of which half is on the disk at the moment."""

            def write(self, data) -> int:
                whole = bytes(data)
                if len(whole) > 100:
                    super().write(whole[: len(whole) // 2])
                    self.flush()
                    moments("writing")
                    whole = whole[len(whole) // 2 :]
                super().write(whole)
                return len(data)

        coviews.files.atomic.open = lambda path, mode: Halfway(io.FileIO(path, mode))


def child(function: Callable[[], object]) -> int:
    """Run in a process of its own; its exit status. What it said is shown where it ended wrongly."""
    said, stream_end = os.pipe()  # no file: that would be on the full disk too
    fcntl.fcntl(stream_end, fcntl.F_SETPIPE_SZ, _MOST_SAID)
    with open(said, errors="replace") as words:
        pid = os.fork()
        if pid == 0:
            for stream in (1, 2):
                os.dup2(stream_end, stream)
            code = 0
            try:
                function()
            except BaseException as error:
                is_full = isinstance(error, CoviewsError) and _is_full(str(error))
                code = FULL if is_full else WRONG
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(code)
        os.close(stream_end)
        status = os.waitpid(pid, 0)[1]
        text = words.read()
        if status not in (0, FULL << 8, signal.SIGKILL):
            print(text[-3000:], file=sys.stderr)
    return status


def _is_full(message: str) -> bool:
    """Whether an error says, shortly, that something could not be written."""
    lines = message.splitlines()
    short = len(lines) <= 2 and max(map(len, lines)) <= 300
    return short and any(words in message for words in ("cannot write", "File too large", "disk is full"))


# ---------------------------------------------------------------------------------------------- what resumes


@dataclass(frozen=True)
class Subject:
    """Something that can be stopped: how it is begun and continued in a folder, and what it leaves there."""

    begin: Callable[[Path], object]
    go_on: Callable[[Path], object]
    content: Callable[[Path], dict]
    rare: Callable[[Path], object] | None = None  # begun so that it saves rarely: it loses more, and redoes it


def _training(**changes) -> Subject:
    settings = SMALL.replaced(threads=1, **changes)
    return Subject(
        lambda out: pretrain(settings=settings.replaced(out=out, save_every=0), progress=False),
        lambda out: pretrain(resume=out, progress=False),
        content,
        lambda out: pretrain(settings=settings.replaced(out=out, save_every=1e6), progress=False),
    )


def _compare(out: Path) -> None:
    train_here()
    settings = SMALL.replaced(epochs=2, knn_every=1, threads=1, save_every=0, search=BY_TABLE)
    comparison = coviews.compare(settings=settings, views=["coviews"], seeds=1, out=out, progress=False)
    if comparison.failed:
        raise coviews.comparison.compare.failure(comparison.failed)


def _reproduce(out: Path) -> None:
    train_here()
    made = coviews.reproduce(
        "table-less-data", data="shapes:160", columns="CIFAR-10 10%", rows="Random", epochs=2, seeds=1, out=out,
        progress=False,
    )  # fmt: skip
    if made.comparison.failed:
        raise coviews.comparison.compare.failure(made.comparison.failed)


def _compared(out: Path) -> dict:
    """What a comparison leaves, without the times."""
    results = json.loads((out / "results.json").read_text())
    for run in results["runs"]:
        run["curve"] = [[epoch, accuracy] for epoch, _, accuracy in run["curve"]]
        del run["seconds"], run["searching"]
    files = {"results.json": results}
    for run in sorted((out / "runs").iterdir()):
        for name, value in content(run).items():
            if name == "evaluations.jsonl":
                value = [json.loads(line)["results"] for line in value.splitlines()]
                value = [{k: v for k, v in line.items() if k != "seconds"} for line in value]
            if not name.startswith(".") and name != "config.yaml":
                files[f"{run.name}/{name}"] = value
    return files


def _embed(out: Path) -> None:
    coviews.features.parts.PART = 16
    encoder = out.parent / "encoder.safetensors"
    out.mkdir(exist_ok=True)
    if not (out / "features.npz").exists():
        coviews.embed(encoder, "shapes:100", out=out / "features.npz", batch_size=8, progress=False)


def _embedded(out: Path) -> dict:
    return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}


def _encoder(folder: Path) -> None:
    """What `embed` needs."""
    from coviews.encoders.file import save_encoder

    torch.manual_seed(0)
    image = {"image_size": (16, 16), "channels": 3, "mean": (0.5,) * 3, "std": (0.2,) * 3}
    save_encoder(folder / "encoder.safetensors", coviews.make_encoder("resnet8", 16, 3), name="resnet8", **image)


SUBJECTS = {
    "ppo": _training(),
    "table": _training(search=BY_TABLE),
    "moco": _training(method="moco"),
    "hardviews": _training(views="hardviews", hard_views=3, tensorboard=True),
    "viewmaker": _training(views="viewmaker"),
    "infomin-flow": _training(views="infomin-flow"),
    "compare": Subject(_compare, _compare, _compared),
    "reproduce": Subject(_reproduce, _reproduce, _compared),
    "embed": Subject(_embed, _embed, _embedded),
}


# ---------------------------------------------------------------------------------------------- stopping it


@dataclass
class Counts:
    """How the stops of one subject ended."""

    kills: int = 0
    full: int = 0
    wrong: int = 0


def stop_often(name: str, folder: Path, kills: int, seed: int, only: int | None = None) -> Counts:
    """Kill a subject at some moments and fill its disk at others, go on, and compare."""
    subject, counts, folder = SUBJECTS[name], Counts(), folder / name
    folder.mkdir()
    _encoder(folder)

    def uninterrupted() -> None:
        moments = Moments()
        moments.install()
        subject.begin(folder / "whole")
        (folder / "moments.json").write_text(json.dumps(moments.seen))

    if child(uninterrupted):
        counts.wrong += 1
        return counts
    seen = json.loads((folder / "moments.json").read_text())
    expected = subject.content(folder / "whole")
    if name in ("ppo", "table"):
        assert len({expected[n] for n in expected if n.startswith("policies")}) == 3, list(expected)
    for i in range(kills):
        chance = random.Random(f"{name} {seed} {i}")
        kind = chance.choice(sorted(seen))
        moment = (kind, seen[kind] if chance.random() < 0.1 else chance.randint(1, seen[kind]))
        disk = chance.choice(DISKS) if i % 4 == 3 else None
        begin = subject.rare if subject.rare is not None and chance.random() < 0.3 else subject.begin
        if only not in (None, i):
            continue
        out = folder / f"stopped-{i}"

        def stopped(out=out, moment=moment, disk=disk, begin=begin) -> None:
            Moments(moment, disk).install()
            begin(out)

        status = child(stopped)
        problem = "" if status in (0, FULL << 8, signal.SIGKILL) else f"it ended with the status {status}"
        if status == 0 and disk is None and begin is subject.begin:  # one that saves rarely may be spared
            problem = "it was not killed"
        counts.kills += status == signal.SIGKILL
        counts.full += disk is not None
        # of a run that had not begun there is nothing to resume: the same command begins it
        again = subject.go_on if subject.rare is None or (out / "config.yaml").exists() else begin
        if not problem and child(lambda out=out, again=again: again(out)):
            problem = "it does not go on"
        elif not problem and (different := differing(expected, subject.content(out))):
            problem = f"{', '.join(different)} differ"
        if problem:
            counts.wrong += 1
            how = "killed" if disk is None else f"with a disk of {disk} bytes"
            print(f"{name}, {how} at {moment}: {problem}", flush=True)
            print(
                f"repeat with: python tests/killed_runs.py {name} --seed {seed} --kills {i + 1} --only {i}", flush=True
            )
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("subjects", help=f"with commas between: {', '.join(SUBJECTS)}; or all")
    parser.add_argument("--kills", type=int, default=8, help="in all; every fourth is a full disk instead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="only this one of a subject's kills, counted from 0")
    options = parser.parse_args()
    names = list(SUBJECTS) if options.subjects == "all" else options.subjects.split(",")
    np.seterr(all="raise", under="ignore")
    torch.set_num_threads(1)  # so that a fork is safe
    for kind in SEARCHES.values():  # the encoder is too young to judge policies
        kind.objection = staticmethod(lambda policy: None)
    trust_young_encoders()
    coviews.ops.engine._kernels(coviews.space("all"), np.dtype(np.uint8))  # once, not in every process
    start, rows = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        for place, name in enumerate(names):
            kills = len(range(place, options.kills, len(names)))
            rows.append((name, stop_often(name, Path(folder), kills, options.seed, options.only)))
    print(f"{'stopped':<12}{'kills':>10}{'full disks':>14}{'not equal':>14}")
    for name, counts in rows:
        print(f"{name:<12}{counts.kills:>10}{counts.full:>14}{counts.wrong:>14}")
    wrong = sum(counts.wrong for _, counts in rows)
    stops = sum(counts.kills + counts.full for _, counts in rows)
    print(f"{stops} stops in {time.monotonic() - start:.0f} s, {wrong} of them not equal to what nobody stopped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
