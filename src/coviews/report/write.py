"""What `coviews report` writes: a page of one run or of several, and the charts as files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coviews.data.imageset import ImageSet
from coviews.errors import CoviewsError
from coviews.report.figures import write_figures
from coviews.report.page import run_charts, run_page, write_page
from coviews.report.record import RunRecord, read_run
from coviews.report.several_runs import read_runs, several_runs_charts, several_runs_page

if TYPE_CHECKING:
    from coviews.methods.method import Method


def write_report(
    run: str | Path, out: str | Path | None = None, *, images: ImageSet | None = None, method: "Method | None" = None
) -> Path:
    """Write the page of a run, finished or not.

    Args:
        run: its folder.
        out: where to write it; by default `report.html` in that folder.
        images: the run's, if they are in memory; otherwise they are loaded again if possible.
        method: the run's, if it is in memory; otherwise it is loaded from the last checkpoint.
    """
    target = Path(out) if out is not None else Path(run) / "report.html"
    write_page(target, _page(read_run(Path(run)), images, method))
    return target


def write_reports(runs: Sequence[Path], out: Path | None = None, figures: Path | None = None) -> list[Path]:
    """Write the page of one run or of several, and its charts as files if `figures` is a folder; return the paths."""
    if not runs:
        raise CoviewsError("give the folder of a run, such as runs/demo, or several to compare them")
    records = read_runs(runs)
    target = out or (runs[0] / "report.html" if len(records) == 1 else Path("comparison.html"))
    write_page(target, _page(records[0]) if len(records) == 1 else several_runs_page(records))
    if figures is None:
        return [target]
    write_figures(run_charts(records[0]) if len(records) == 1 else several_runs_charts(records), figures)
    return [target, figures]


def _page(run: RunRecord, images: ImageSet | None = None, method: "Method | None" = None) -> str:
    from coviews.report.encoder_examples import make_encoder_examples  # needs torch, which takes seconds to import

    return run_page(run, examples=make_encoder_examples(run, images=images, method=method), images=images)
