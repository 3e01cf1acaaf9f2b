"""Kill runs at many moments, resume each, and compare with a run that nobody killed.

A program of its own: it loads everything once and forks a process for each run, so that a kill costs a second.
"""

import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import torch

import coviews.files.atomic
import coviews.ops.engine
import coviews.runs.folder
import coviews.training.batches
import coviews.training.pair_losses
import coviews.training.pretrain
from coviews import pretrain
from coviews.searching.known import SEARCHES
from small_runs import BY_TABLE, SMALL, content, differing, trust_young_encoders

MOMENTS = 5  # at random, besides the chosen ones


class Moments:
    """Counts what happens in a run, and kills the process at the wanted moment, before it happens."""

    def __init__(self, kill_at: tuple[str, int] | int | None = None) -> None:
        self.kill_at, self.seen, self.count = kill_at, {}, 0

    def __call__(self, kind: str) -> None:
        self.count += 1
        self.seen[kind] = self.seen.get(kind, 0) + 1
        if self.kill_at in (self.count, (kind, self.seen[kind])):
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, owner, name: str, kind: str) -> None:
        old = getattr(owner, name)

        def new(*args, **kwargs):
            self(kind)
            return old(*args, **kwargs)

        setattr(owner, name, new)

    def install(self) -> None:
        self.watch(coviews.training.batches.Batches, "make", "training")
        self.watch(coviews.training.pair_losses.PairLosses, "_batch_losses", "searching")
        self.watch(coviews.LossTable, "policy", "searching")
        self.watch(coviews.LossTable, "add", "training")
        self.watch(torch.optim.SGD, "step", "training")
        self.watch(os, "replace", "saving")
        self.watch(os, "fsync", "saving")
        self.watch(coviews.runs.folder.Run, "log", "between")
        self.watch(coviews.training.pretrain, "finish", "between")
        save = torch.save

        def half(state, file):
            import io

            whole = io.BytesIO()
            save(state, whole)
            data = whole.getvalue()
            file.write(data[: len(data) // 2])
            file.flush()
            self("saving")  # half of it is on the disk
            file.write(data[len(data) // 2 :])

        torch.save = half


def child(function) -> int:
    """Run in a process of its own; its exit status."""
    pid = os.fork()
    if pid == 0:
        code = 0
        try:
            function()
        except BaseException:
            traceback.print_exc()
            code = 1
        os._exit(code)
    return os.waitpid(pid, 0)[1]


def main(method: str, folder: Path, by: str = "ppo") -> None:
    torch.set_num_threads(1)  # so that a fork is safe
    settings = SMALL.replaced(method=method, threads=1, **({"search": BY_TABLE} if by == "table" else {}))
    for kind in SEARCHES.values():  # the encoder is too young to judge policies
        kind.objection = staticmethod(lambda policy: None)
    trust_young_encoders()
    coviews.ops.engine._kernels(coviews.space("autoaugment"), np.dtype(np.uint8))  # once, not in every process
    whole = folder / "whole"

    def uninterrupted() -> None:
        moments = Moments()
        moments.install()
        pretrain(settings=settings.replaced(out=whole, save_every=0), progress=False)
        (folder / "count").write_text(repr((moments.count, moments.seen)))

    start = time.perf_counter()
    assert child(uninterrupted) == 0
    total, seen = eval((folder / "count").read_text())
    expected = content(whole)
    policies = [expected[n] for n in expected if n.startswith("policies")]
    assert len(set(policies)) == 3, list(expected)
    chance = random.Random(7)
    chosen: list = [(kind, chance.randint(1, seen[kind])) for kind in ("training", "searching", "saving", "between")]
    chosen += [("saving", seen["saving"]), *chance.sample(range(1, total + 1), MOMENTS)]
    for i, moment in enumerate(chosen):
        out = folder / f"killed-{i}"
        often = settings.replaced(out=out, save_every=0 if i % 3 else 1e6)  # a rare saver loses more and redoes it

        def killed(moment=moment, often=often) -> None:
            Moments(moment).install()
            pretrain(settings=often, progress=False)

        status = child(killed)
        if i % 3 == 0 and status == 0:
            continue  # fewer savings: this moment never came
        assert status == signal.SIGKILL, (moment, status)
        assert child(lambda out=out: pretrain(resume=out, progress=False)) == 0, moment
        different = differing(expected, content(out))
        assert not different, f"killed at {moment}: {different}"
    print(f"{len(chosen)} kills of {method}, {by}, in {time.perf_counter() - start:.0f} s: {total} moments, {seen}")


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
