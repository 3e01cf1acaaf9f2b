"""What `coviews report` writes: a page of one run or of several, and the charts as files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coviews.data.imageset import ImageSet
from coviews.errors import CoviewsError
from coviews.report.figures import write_figures
from coviews.report.page import run_charts, run_page, write_page
from coviews.report.record import RunRecord, read_run
from coviews.report.several_runs import comparison_charts, comparison_page, read_runs

if TYPE_CHECKING:
    from coviews.methods.method import Method


def write_report(
    run: str | Path, out: str | Path | None = None, *, images: ImageSet | None = None, method: "Method | None" = None
) -> Path:
    """Write the page of a run, finished or not.

    Args:
        run: its folder.
        out: where; by default `report.html` in that folder.
        images: the run's, if they are in memory; otherwise they are loaded again, as far as that can be.
        method: the same for the method with its encoder.
    """
    target = Path(out) if out is not None else Path(run) / "report.html"
    write_page(target, _page(read_run(Path(run)), images, method))
    return target


def write_reports(runs: Sequence[Path], out: Path | None = None, figures: Path | None = None) -> list[Path]:
    """Write the page and, if wanted, the figures; the paths of what was written, folders of figures as one."""
    if not runs:
        raise CoviewsError("give the folder of a run, such as runs/demo, or several to compare them")
    found = read_runs(runs)
    target = out or (runs[0] / "report.html" if len(found) == 1 else Path("comparison.html"))
    write_page(target, _page(found[0]) if len(found) == 1 else comparison_page(found))
    if figures is None:
        return [target]
    write_figures(run_charts(found[0]) if len(found) == 1 else comparison_charts(found), figures)
    return [target, figures]


def _page(run: RunRecord, images: ImageSet | None = None, method: "Method | None" = None) -> str:
    from coviews.report.encoder_examples import try_encoder  # with torch, for which nobody else has to wait

    return run_page(run, trial=try_encoder(run, images=images, method=method), images=images)
