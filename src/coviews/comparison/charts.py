"""Accuracy against epochs and against time, the mean over the seeds of each variant."""

import statistics
from collections.abc import Sequence

from coviews.comparison.results import Results
from coviews.evaluation.measures import MEASURES
from coviews.report.charts import Chart, Line, LineChart


def progress_charts(results: Results, variants: Sequence[str]) -> list[Chart]:
    """Two charts; none before the first run is done."""
    labelled = any(r.accuracy for r in results.runs)
    measure = MEASURES["knn" if labelled else "rankme"]
    quantity, unit = (f"{measure.title} accuracy", "accuracy in %") if labelled else (measure.title, measure.title)
    charts: list[Chart] = []
    for by_time in (False, True):
        lines = [line for name in variants if (line := _line(results, name, by_time)) is not None]
        if not lines:
            continue
        over = "time" if by_time else "epochs"
        ends = ", ".join(f"{line.name} {line.y[-1]:.1f}" for line in lines)
        alt = f"{quantity} over {over}, mean of the seeds; at the end: {ends}."
        key, title = f"accuracy-{over}", f"{quantity} over {over}"
        charts.append(LineChart(key, title, "minutes" if by_time else "epoch", unit, lines, alt))
    return charts


def _line(results: Results, variant: str, by_time: bool) -> Line | None:
    curves = [r.curve for r in results.of(variant) if r.curve]
    if not curves:
        return None
    points = [[curve[i] for curve in curves] for i in range(min(map(len, curves)))]
    x = [statistics.fmean(p[1] / 60 if by_time else p[0] for p in looks) for looks in points]
    return Line(variant, x, [statistics.fmean(p[2] for p in looks) for looks in points])
