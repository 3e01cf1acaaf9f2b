"""What `coviews report` does: a page of one run or of several, and the charts as files."""

from collections.abc import Sequence
from pathlib import Path

from coviews.errors import CoviewsError
from coviews.report.comparison import comparison_charts, comparison_page, read_runs
from coviews.report.figures import write_figures
from coviews.report.page import run_charts, run_page, write_page


def write(runs: Sequence[Path], out: Path | None = None, figures: Path | None = None) -> list[Path]:
    """Write the page and, if wanted, the figures; the paths of what was written, folders of figures as one."""
    if not runs:
        raise CoviewsError("give the folder of a run, such as runs/demo, or several to compare them")
    found = read_runs(runs)
    target = out or (runs[0] / "report.html" if len(found) == 1 else Path("comparison.html"))
    write_page(target, run_page(found[0]) if len(found) == 1 else comparison_page(found))
    if figures is None:
        return [target]
    write_figures(run_charts(found[0]) if len(found) == 1 else comparison_charts(found), figures)
    return [target, figures]
