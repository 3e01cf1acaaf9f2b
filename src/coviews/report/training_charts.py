"""Charts of a run's training and of its searches."""

from collections.abc import Sequence

from coviews.report.charts import Chart, Line, LineChart, smoothed
from coviews.report.record import RunRecord, number, numbers

_OVER = 10  # iterations of a search that are averaged: single ones are noisy


def training_charts(run: RunRecord) -> list[Chart]:
    """Loss, learning rate and the looks at the encoder, as far as they are known."""
    return [
        chart
        for chart in (
            _of_epochs(run, "epoch", "loss", "loss", "Loss", "contrastive loss"),
            _of_epochs(run, "epoch", "lr", "learning-rate", "Learning rate", "learning rate"),
            _of_epochs(run, "look", "knn", "knn", "kNN accuracy", "accuracy in %"),
            _of_epochs(run, "look", "rankme", "rankme", "RankMe: dimensions that the features use", "RankMe"),
        )
        if chart is not None
    ]


def search_charts(run: RunRecord) -> list[Chart]:
    """How each search went: rewards, share over the bound, entropy."""
    searches = [(int(number(r, "epoch") or 0), r) for r in run.of_kind("search")]
    named = (
        ("reward", "search-reward", "Reward in the search", "reward", False),
        ("over", "search-over", "Share of pairs over the bound", "over the bound", True),
        ("entropy", "search-entropy", "Entropy of the policy in the search", "entropy in nats", False),
    )
    charts: list[Chart] = []
    for name, key, title, y_title, percent in named:
        lines = []
        for i, (epoch, record) in enumerate(searches):
            values = numbers(record, name)
            if values:
                shade = i / max(1, len(searches) - 1)
                x = [float(n + 1) for n in range(len(values))]
                lines.append(Line(f"before epoch {epoch}", x, smoothed(values, _OVER), shade=shade))
        if lines:
            ends = lines[-1].y[0], lines[-1].y[-1]
            first, last = (f"{v:.0%}" if percent else f"{v:.3f}" for v in ends)
            alt = f"{title}, {len(lines)} searches: in the last one it goes from {first} to {last}."
            titles = (f"iteration (mean of the last {_OVER})", y_title)
            charts.append(LineChart(key, title, *titles, lines, alt, percent))
    return charts + table_charts(run)


def table_charts(run: RunRecord) -> list[Chart]:
    """What the tables of a run told, one for each epoch: how good they are, and how far their policies go."""
    wanted = (
        ("explained", "Variance of a pair's loss that the table explains", "share, of pairs it was not fitted to"),
        ("hardness", "Hardness of the policy", "of the way from the prior's loss to that of lost images"),
        ("over", "Share of pairs expected over the bound", "over the bound"),
        ("accepted", "Share of the prior's draws that the policy accepts", "accepted"),
    )
    charts = (
        _of_epochs(run, "search", name, f"table-{name}", title, y_title, percent=True)
        for name, title, y_title in wanted
    )
    return [chart for chart in charts if chart is not None]


def compared_charts(runs: Sequence[RunRecord], names: Sequence[str]) -> list[Chart]:
    """The same of several runs: accuracy against epochs and against time, RankMe and loss."""
    wanted = (
        ("look", "knn", "kNN accuracy", "accuracy in %", False),
        ("look", "knn", "kNN accuracy against time", "accuracy in %", True),
        ("look", "rankme", "RankMe", "RankMe", False),
        ("epoch", "loss", "Loss", "contrastive loss", False),
    )
    charts: list[Chart] = []
    for kind, name, title, y_title, by_time in wanted:
        lines = []
        for run, called in zip(runs, names, strict=True):
            x, y = run.series(kind, name, by_time=by_time)
            if x:
                lines.append(Line(called, [v / 60 for v in x] if by_time else x, y))
        if lines:
            alt = f"{title} at the end: " + ", ".join(f"{line.name} {line.y[-1]:.4g}" for line in lines) + "."
            key = f"compare-{name}{'-time' if by_time else ''}"
            charts.append(LineChart(key, title, "minutes" if by_time else "epoch", y_title, lines, alt))
    return charts


def _of_epochs(
    run: RunRecord, kind: str, name: str, key: str, title: str, y_title: str, *, percent: bool = False
) -> LineChart | None:
    x, y = run.series(kind, name)
    if not x:
        return None
    most = max(map(abs, y))
    form = ".1%" if percent else ".4g"
    first, last = (f"{v:{form}}" if abs(v) >= 1e-4 * most else "0" for v in (y[0], y[-1]))
    alt = f"{title} from epoch {x[0]:.0f} to {x[-1]:.0f}: from {first} to {last}."
    return LineChart(key, title, "epoch", y_title, [Line(y_title, x, y)], alt, percent)
