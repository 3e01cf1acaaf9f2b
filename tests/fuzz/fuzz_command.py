"""The program behind `python tests/fuzz`: runs cases, counts how they ended, and says how to repeat failures."""

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch

import coviews.ops.engine
from hostile_formats import formats, stop_trainings_early
from killed_runs import child
from watched_cases import ENDINGS, OPTIONS, SECONDS, Ending, Work, run_cases, run_here

_LINE = 110  # characters of a failure in the list
_LISTED = 40  # failures that are printed


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description="Hostile input of every format.", prog="python tests/fuzz")
    parser.add_argument("--cases", type=int, default=10_000, help="how many, evenly over the formats")
    parser.add_argument("--seed", type=int, default=0, help="of the first case; another one gives other cases")
    parser.add_argument("--formats", help="only these, with commas between; --formats list names all")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that a case may take")
    parser.add_argument("--show", action="store_true", help="tell of every case, not only of those that fail")
    parser.add_argument("--case", help="run a single one, such as policy:17, and show its messages")
    parser.add_argument("--keep", type=Path, help="a folder for the examples, which are used again, and the last case")
    options = parser.parse_args()
    torch.set_num_threads(1)  # so that a fork is safe
    for name, pixels in (("all", "uint8"), ("autoaugment", "uint8"), ("channels", "uint8"), ("channels", "uint16")):
        coviews.ops.engine._kernels(coviews.space(name), np.dtype(pixels))  # once, not in every process
    with tempfile.TemporaryDirectory() as folder:
        place = (options.keep or Path(folder)).resolve()
        work = Work(place, formats(place / "runs"))
        names = [*work.formats, *OPTIONS]
        if options.formats == "list":
            print("\n".join(names))
            return 0
        if options.case:
            names = [options.case.partition(":")[0]]
        elif options.formats:
            names = options.formats.split(",")
        if unknown := [name for name in names if name not in (*work.formats, *OPTIONS)]:
            parser.error(f"there is no format {unknown[0]}: --formats list names all")
        start = time.monotonic()
        if child(lambda: work.prepare(names)):
            return 1
        stop_trainings_early()
        if options.case:
            return _single(work, options.case)
        broken = [e for e in run_cases(work, work.whole_cases(names), options.seconds) if e.kind != "ok"]
        for ending in broken:
            print(f"whole files do not work: {ending.case}: {ending.kind}\n{ending.said}")
        if broken:
            return 1
        each = -(-options.cases // len(names))
        cases = [f"{name}:{options.seed + i}" for name in names for i in range(each)]
        endings = []
        for ending in run_cases(work, cases, options.seconds):
            endings.append(ending)
            if options.show or ending.kind not in ("ok", "error"):
                print(f"{ending.kind}: {ending.case} {ending.call[:_LINE]}: {_short(ending)}", flush=True)
        print(_table(endings, names), f"{len(endings)} cases in {time.monotonic() - start:.0f} s", sep="\n")
        failures = [e for e in endings if e.kind not in ("ok", "error")]
        for ending in failures[:_LISTED]:
            print(f"repeat with: python tests/fuzz --case {ending.case}")
    return 1 if failures else 0


def _single(work: Work, case: str) -> int:
    """In this process, so that a debugger can look at it."""
    said = work.folder / "said.txt"
    said.touch()
    ending = run_here(work, case, said)
    print(f"{ending.kind}: {ending.call}\n{ending.said}")
    return 0 if ending.kind in ("ok", "error") else 1


def _short(ending: Ending) -> str:
    """The line that says most: of a hang the innermost one of ours."""
    lines = [line.strip() for line in ending.said.splitlines() if line.strip()]
    if ending.kind == "hang":
        lines = [line for line in lines if "/coviews/" in line] or lines
    return (lines[-1] if ending.kind == "traceback" else lines[0])[:_LINE] if lines else ""


def _table(endings: list[Ending], names: list[str]) -> str:
    width = max(map(len, [*names, "format"]))
    heads = f"{'format':<{width}}" + "".join(f"{kind:>14}" for kind in ENDINGS)
    rows = []
    for name in [*names, "all"]:
        counts = Counter(e.kind for e in endings if name in ("all", e.case.partition(":")[0]))
        rows.append(f"{name:<{width}}" + "".join(f"{counts[kind]:>14}" for kind in ENDINGS))
    return "\n".join([heads, *rows])
