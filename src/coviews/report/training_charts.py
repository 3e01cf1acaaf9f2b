"""Charts of a run's training and of its searches."""

from collections.abc import Sequence

from coviews.report.charts import Chart, Line, LineChart, smoothed
from coviews.report.record import RunRecord, number, numbers
from coviews.searching.measures import SearchMeasure

_WINDOW = 10  # iterations of a search that are averaged: single ones are noisy


def training_charts(run: RunRecord) -> list[Chart]:
    """Loss, learning rate and the encoder's quality during training, as far as they were recorded."""
    return [
        chart
        for chart in (
            _over_epochs(run, "epoch", "loss", "loss", "Loss", "contrastive loss"),
            _over_epochs(run, "epoch", "lr", "learning-rate", "Learning rate", "learning rate"),
            _over_epochs(run, "look", "knn", "knn", "kNN accuracy", "accuracy in %"),
            _over_epochs(run, "look", "rankme", "rankme", "RankMe: dimensions that the features use", "RankMe"),
            _kept(run),
        )
        if chart is not None
    ]


def _kept(run: RunRecord) -> LineChart | None:
    """What the keeping head predicts of the differences between two views, the best predicted first."""
    records = [(number(r, "epoch"), r.get("kept")) for r in run.of_kind("epoch")]
    shares = [(epoch, kept) for epoch, kept in records if epoch is not None and isinstance(kept, dict)]
    names = {name for _, kept in shares for name in kept if number(kept, name) is not None}
    lines = []
    for name in names:
        points = [(epoch, value) for epoch, kept in shares if (value := number(kept, name)) is not None]
        lines.append(Line(name, [epoch for epoch, _ in points], [max(0.0, value) for _, value in points]))
    if not lines:
        return None
    lines.sort(key=lambda line: (-line.y[-1], line.name))
    last = ", ".join(f"{line.name} {line.y[-1]:.0%}" for line in lines)
    title = "What the encoder can still tell"
    alt = f"The share of each difference between two views that their features reveal, at the end: {last}."
    return LineChart("kept", title, "epoch", "share of the variance predicted", lines, alt, percent=True)


def search_charts(run: RunRecord, measures: Sequence[SearchMeasure]) -> list[LineChart]:
    """How each search went, by these measures: lists over the iterations, numbers over the epochs."""
    charts: list[LineChart] = []
    for measure in measures:
        axis = measure.axis or measure.key
        chart = _over_iterations(run, measure, axis) or _over_epochs(
            run,
            "search",
            measure.key,
            f"search-{measure.key}",
            measure.title,
            axis,
            percent=measure.percent,
            about=measure.about,
        )
        if chart is not None:
            charts.append(chart)
    return charts


def compared_charts(runs: Sequence[RunRecord], names: Sequence[str]) -> list[Chart]:
    """Accuracy over epochs and over time, RankMe and loss of several runs."""
    values = (
        ("look", "knn", "kNN accuracy", "accuracy in %", False),
        ("look", "knn", "kNN accuracy against time", "accuracy in %", True),
        ("look", "rankme", "RankMe", "RankMe", False),
        ("epoch", "loss", "Loss", "contrastive loss", False),
    )
    charts: list[Chart] = []
    for kind, name, title, y_title, by_time in values:
        lines = []
        for run, run_name in zip(runs, names, strict=True):
            x, y = run.series(kind, name, by_time=by_time)
            if x:
                lines.append(Line(run_name, [v / 60 for v in x] if by_time else x, y))
        if lines:
            alt = f"{title} at the end: " + ", ".join(f"{line.name} {line.y[-1]:.4g}" for line in lines) + "."
            key = f"compare-{name}{'-time' if by_time else ''}"
            charts.append(LineChart(key, title, "minutes" if by_time else "epoch", y_title, lines, alt))
    return charts


def _over_iterations(run: RunRecord, measure: SearchMeasure, axis: str) -> LineChart | None:
    """A line for each search that recorded a list; None if there is none."""
    searches = run.of_kind("search")
    lines = []
    for i, record in enumerate(searches):
        values = numbers(record, measure.key)
        if values:
            name = f"before epoch {int(number(record, 'epoch') or 0)}"
            x = [float(n + 1) for n in range(len(values))]
            lines.append(Line(name, x, smoothed(values, _WINDOW), shade=i / max(1, len(searches) - 1)))
    if not lines:
        return None
    first, last = (f"{v:.0%}" if measure.percent else f"{v:.3f}" for v in (lines[-1].y[0], lines[-1].y[-1]))
    alt = f"{measure.title}, {len(lines)} searches: in the last one it goes from {first} to {last}. {measure.about}"
    x_title = f"iteration (mean of the last {_WINDOW})"
    return LineChart(f"search-{measure.key}", measure.title, x_title, axis, lines, alt.strip(), measure.percent)


def _over_epochs(
    run: RunRecord,
    kind: str,
    name: str,
    key: str,
    title: str,
    y_title: str,
    *,
    percent: bool = False,
    about: str = "",
) -> LineChart | None:
    x, y = run.series(kind, name)
    if not x:
        return None
    largest = max(map(abs, y))
    form = ".1%" if percent else ".4g"
    first, last = (f"{v:{form}}" if abs(v) >= 1e-4 * largest else "0" for v in (y[0], y[-1]))
    alt = f"{title} from epoch {x[0]:.0f} to {x[-1]:.0f}: from {first} to {last}. {about}"
    return LineChart(key, title, "epoch", y_title, [Line(y_title, x, y)], alt.strip(), percent)
