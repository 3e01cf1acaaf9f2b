"""Two runs a seed: a test kills `python launched_sweep.py FOLDER LAUNCHER OPTIONS SEEDS`, and goes on itself."""

import sys
from pathlib import Path

from coviews import compare
from coviews.comparison.compare import Comparison
from coviews.launching.launchers import LocalLauncher
from small_runs import SMALL

EPOCHS = 20  # of the longer runs: enough to be killed in between
VARIANTS = {"long": {"views": "random", "epochs": EPOCHS}, "short": {"views": "uniform", "epochs": 2}}


def sweep(out: Path, seeds: int, launcher: str = "local", options: str | None = None, *, jobs: int = 2) -> Comparison:
    return compare(
        settings=SMALL.replaced(knn_every=0, save_every=0.0), variants=VARIANTS, seeds=seeds, jobs=jobs, out=out,
        progress=False, launcher=launcher, launcher_options=options,
    )  # fmt: skip


if __name__ == "__main__":
    LocalLauncher.threads = lambda self, at_once: 1  # as the others have
    sweep(Path(sys.argv[1]), int(sys.argv[4]), sys.argv[2], sys.argv[3], jobs=1)
