"""Charts as files for papers, by matplotlib.

Plotly needs a browser to make picture files, which may be missing. Matplotlib draws the same charts anywhere, and the
same chart always gives the same bytes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coviews.errors import CoviewsError
from coviews.report.charts import BarChart, Chart, LineChart, Matrix
from coviews.report.plotly_figures import DIVERGING, PALETTE, bar_colours, shade

FORMATS = ("png", "svg")


def write_figures(charts: Sequence[Chart], folder: str | Path) -> list[Path]:
    """Write each chart as PNG and SVG, named by its key."""
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CoviewsError("figures need matplotlib: pip install 'coviews[figures]'") from error
    folder, written = Path(folder), []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for chart in charts:
            with matplotlib.rc_context({"svg.hashsalt": "coviews", "font.size": 9, "text.parse_math": False}):
                figure = Figure(figsize=_size(chart), layout="tight")
                FigureCanvasAgg(figure)
                _draw(figure, figure.add_subplot(), chart)
                for form in FORMATS:
                    path = folder / f"{chart.key}.{form}"
                    options: dict[str, Any] = {"metadata": {"Date": None}} if form == "svg" else {"dpi": 200}
                    figure.savefig(path, **options)
                    written.append(path)
    except OSError as error:
        raise CoviewsError(f"cannot write figures to {folder}: {error.strerror}") from error
    return written


def _size(chart: Chart) -> tuple[float, float]:
    if isinstance(chart, LineChart):
        return 5.0, 3.4
    if isinstance(chart, BarChart):
        return 5.0, 1.2 + 0.25 * len(chart.labels)
    return 2.4 + 0.24 * max(len(chart.columns), 8), 1.6 + 0.24 * max(len(chart.rows), 6)


def _draw(figure: Any, axes: Any, chart: Chart) -> None:
    axes.set_title(chart.title, fontsize=10)
    axes.set_xlabel(chart.x_title)
    if isinstance(chart, LineChart):
        _draw_lines(axes, chart)
    elif isinstance(chart, BarChart):
        _draw_bars(axes, chart)
    else:
        _draw_matrix(figure, axes, chart)


def _draw_lines(axes: Any, chart: LineChart) -> None:
    from matplotlib.ticker import PercentFormatter

    coloured = 0
    for line in chart.lines:
        if line.faint or line.dashed:
            style = {"color": "0.7", "lw": 0.8, "ls": ":" if line.dashed else "-", "zorder": 1}
        else:
            own = PALETTE[coloured % len(PALETTE)] if line.shade is None else _rgb(shade(line.shade))
            again = line.shade is None and coloured >= len(PALETTE)  # all colours are used already
            marker = "o" if len(line.x) <= 30 else None
            style = {"color": own, "lw": 1.6, "marker": marker, "ms": 3, "ls": "--" if again else "-"}
            coloured += 1
        axes.plot(line.x, line.y, label=None if line.faint else line.name, **style)
    axes.set_ylabel(chart.y_title)
    axes.grid(color="0.9", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    if chart.percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    if 1 < len(axes.get_legend_handles_labels()[0]) <= 12:
        axes.legend(fontsize=7, frameon=False, ncols=2)


def _draw_bars(axes: Any, chart: BarChart) -> None:
    positions, height, colours = np.arange(len(chart.labels)), 0.8 / len(chart.bars), bar_colours(len(chart.bars))
    for i, (name, values) in enumerate(chart.bars.items()):
        axes.barh(
            positions + (i - (len(chart.bars) - 1) / 2) * height,
            values,
            height,
            label=name,
            color=colours[i % len(colours)],
            xerr=chart.errors.get(name),
            error_kw={"lw": 0.9, "capsize": 2},
        )
    axes.set_yticks(positions, chart.labels)
    axes.xaxis.set_major_formatter(_percent if chart.form.endswith("%") else "{x:g}")
    axes.invert_yaxis()
    axes.grid(axis="x", color="0.9", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=7, frameon=False)


def _draw_matrix(figure: Any, axes: Any, chart: Matrix) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    values = np.array([[np.nan if v is None else v for v in row] for row in chart.values], float)
    colours: Any = "cividis"
    if chart.around is not None:
        colours = LinearSegmentedColormap.from_list("diverging", [(place, colour) for place, colour in DIVERGING])
    low, high = chart.limits or (None, None)
    image = axes.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="auto")
    every = max(1, len(chart.columns) // 24)
    axes.set_xticks(range(0, len(chart.columns), every), chart.columns[::every], rotation=90, fontsize=7)
    axes.set_yticks(range(len(chart.rows)), chart.rows, fontsize=7)
    axes.set_ylabel(chart.y_title)
    figure.colorbar(image, ax=axes, format=_percent if chart.form.endswith("%") else None)


def _percent(value: float, _: int | None = None) -> str:
    return f"{100 * value:.3g} %"


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
