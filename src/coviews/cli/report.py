"""`coviews report` and `coviews watch`: what a run learned."""

from pathlib import Path
from typing import Annotated

import tyro


def report_command(
    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN [RUN ...]")],
    *,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    figures: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
) -> None:
    """Write a web page about a run, or one that compares several runs.

    Runs need not be finished.

    Args:
        runs: The folders of the runs.
        out: Where to write the page; by default report.html in the run's folder, or comparison.html here.
        figures: A folder for every chart as a file, PNG and SVG (needs matplotlib).
    """
    from coviews.report.write import write_reports

    for path in write_reports(runs, out, figures):
        print(f"wrote {path}")


def watch_command(
    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")],
    *,
    port: int = 0,
) -> None:
    """Show the page of a run in the browser, and keep it up to date.

    It is served to this machine only, until Ctrl-C.

    Args:
        run: The run's folder.
        port: Where to serve it; by default a free one.
    """
    from coviews.report.encoder_examples import make_encoder_examples
    from coviews.report.watch import Watched

    with Watched(run, port, make_encoder_examples) as server:
        print(f"open {server.address} (Ctrl-C ends it)", flush=True)
        server.serve_forever()
