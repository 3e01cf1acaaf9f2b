"""Four runs: a test kills `python launched_sweep.py FOLDER LAUNCHER OPTIONS`, and goes on with them itself."""

import sys
from pathlib import Path

from coviews import compare
from coviews.comparison.compare import Comparison
from small_runs import SMALL

EPOCHS = 12


def sweep(out: Path, launcher: str = "local", options: str | None = None) -> Comparison:
    settings = SMALL.replaced(epochs=EPOCHS, knn_every=4, save_every=0.0)
    return compare(
        settings=settings, views=["random", "uniform"], seeds=2, jobs=2, out=out, progress=False, launcher=launcher,
        launcher_options=options,
    )  # fmt: skip


if __name__ == "__main__":
    sweep(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
