"""Charts as plotly's figures: plain dictionaries. The page adapts their colours to its light or dark scheme."""

import html
from collections.abc import Sequence
from typing import Any

from coviews.report.charts import BarChart, Chart, LineChart, Matrix

# Okabe and Ito's colours, which colour-blind people can tell apart, without black and yellow
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7f7f7f")
# viridis without its brightest end on white, and without its darkest on black
_ON_LIGHT = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98))
_ON_DARK = ((65, 100, 170), (33, 145, 140), (94, 201, 98), (253, 231, 37))
_BARS = ("#0072B2", "#7fb8d8", "#D55E00", "#eaae7f")  # two views of two steps: a hue for each view
_ON_BLACK = {PALETTE[0]: "#3b94d9", PALETTE[4]: "#F0E442", _BARS[1]: "#b5dcf3"}
# from brown over grey to blue, which colour-blind people can tell apart
DIVERGING = ((0.0, "#8c510a"), (0.25, "#d8b365"), (0.5, "#f2f2f2"), (0.75, "#67a9cf"), (1.0, "#01478b"))
# the same on black, with a dark middle
_DIVERGING_DARK = ((0.0, "#f5b95f"), (0.25, "#a06a25"), (0.5, "#2a3139"), (0.75, "#39749f"), (1.0, "#8bd0ff"))
_FEW_EPOCHS = 8  # up to which every epoch has a tick
_LEGEND = 10  # with more lines the chart is higher; with twice as many it has no legend


def figure(chart: Chart) -> dict[str, Any]:
    """The data and the layout of a chart."""
    if isinstance(chart, LineChart):
        return _lines(chart)
    return _matrix(chart) if isinstance(chart, Matrix) else _bars(chart)


def changes(chart: Chart) -> dict[str, Any]:
    """The values of a chart's traces that differ between policies, by the name of the trace's attribute."""
    if isinstance(chart, Matrix):
        return {"z": [chart.values]}
    return {"x": list(chart.bars.values())} if isinstance(chart, BarChart) else {}


def text(name: str) -> str:
    """A name for plotly, shortened and escaped: plotly interprets some HTML tags."""
    short = name if len(name) <= 40 else name[:39] + "…"
    return html.escape(short, quote=False)


def shade(place: float, *, dark: bool = False) -> str:
    """The colour at a place in 0..1 of an ordered scale."""
    scale = _ON_DARK if dark else _ON_LIGHT
    at = min(max(place, 0.0), 1.0) * (len(scale) - 1)
    i = min(int(at), len(scale) - 2)
    mixed = (round(a + (b - a) * (at - i)) for a, b in zip(scale[i], scale[i + 1], strict=True))
    return "rgb({},{},{})".format(*mixed)


def bar_colours(count: int) -> Sequence[str]:
    """Colours for a number of bars side by side."""
    return _BARS if count == len(_BARS) else PALETTE


def _lines(chart: LineChart) -> dict[str, Any]:
    form = ":.1%" if chart.percent else ":.4~g"
    traces: list[dict[str, Any]] = []
    coloured = 0
    for line in chart.lines:
        style: dict[str, Any] = {"width": 1 if line.faint else 2, "dash": "dot" if line.dashed else "solid"}
        meta: dict[str, Any] = {"faint": True}  # for the page's script, which knows whether the page is light or dark
        if not line.faint and not line.dashed:
            own = PALETTE[coloured % len(PALETTE)]
            if line.shade is None and coloured >= len(PALETTE):  # all colours are used already
                style["dash"] = "dash"
            style["color"] = own if line.shade is None else shade(line.shade)
            meta = {"dark": _ON_BLACK.get(own, own) if line.shade is None else shade(line.shade, dark=True)}
            coloured += 1
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if len(line.x) <= 30 and not line.dashed else "lines",
                "name": text(line.name),
                "x": line.x,
                "y": [float(f"{v:.5g}") for v in line.y],
                "line": style,
                "marker": {"size": 4 if line.faint else 6},
                "showlegend": len(chart.lines) > 1 and not line.faint and len(chart.lines) <= 2 * _LEGEND,
                "hovertemplate": f"{text(line.name)}<br>{chart.x_title} %{{x}}: %{{y{form}}}<extra></extra>",
                "meta": meta,
            }
        )
    y: dict[str, Any] = {"title": {"text": chart.y_title}, "automargin": True}
    y |= {"tickformat": ".0%", "rangemode": "tozero"} if chart.percent else {}
    x: dict[str, Any] = {"title": {"text": chart.x_title}, "automargin": True}
    if chart.x_title == "epoch" and max((v for line in chart.lines for v in line.x), default=0) <= _FEW_EPOCHS:
        x["dtick"] = 1  # no half epochs
    layout: dict[str, Any] = {"xaxis": x, "yaxis": y}
    # many lines need room
    layout["height"] = 340 if len(chart.lines) <= _LEGEND else 494
    return {"data": traces, "layout": layout}


def _matrix(chart: Matrix) -> dict[str, Any]:
    cells = chart.texts or [[f"{r} · {c}" for c in chart.columns] for r in chart.rows]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": _unique(chart.columns),
        "y": _unique(chart.rows),
        "z": chart.values,
        "text": [[text(cell) for cell in row] for row in cells],
        "hovertemplate": f"%{{text}}: %{{z:{chart.form}}}<extra></extra>",
        "colorscale": "Cividis" if chart.around is None else [list(stop) for stop in DIVERGING],
        "colorbar": {"tickformat": ".1~%" if chart.form.endswith("%") else "", "thickness": 12, "len": 0.9},
        "hoverongaps": False,
        "xgap": 1,
        "ygap": 1,
    }
    if chart.around is not None:
        trace["meta"] = {"darkscale": [list(stop) for stop in _DIVERGING_DARK]}
    if chart.limits is not None:
        trace |= {"zmin": chart.limits[0], "zmax": chart.limits[1]}
    axis = {"type": "category", "automargin": True, "showgrid": False, "zeroline": False}
    layout = {
        "xaxis": axis | {"title": {"text": chart.x_title, "standoff": 12}},
        "yaxis": axis | {"title": {"text": chart.y_title, "standoff": 10}, "autorange": "reversed", "dtick": 1},
        "height": max(300, 110 + 24 * len(chart.rows)),
    }
    return {"data": [trace], "layout": layout}


def _bars(chart: BarChart) -> dict[str, Any]:
    shades = bar_colours(len(chart.bars))
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": text(name),
            "y": _unique(chart.labels),
            "x": values,
            "marker": {"color": shades[i % len(shades)]},
            "meta": {"dark": _ON_BLACK.get(shades[i % len(shades)], shades[i % len(shades)])},
            "hovertemplate": f"%{{y}}, {text(name)}: %{{x:{chart.form}}}<extra></extra>",
        }
        | _intervals(chart.errors.get(name), chart.form)
        for i, (name, values) in enumerate(chart.bars.items())
    ]
    x = {"title": {"text": chart.x_title}, "tickformat": ".0%" if chart.form.endswith("%") else "", "automargin": True}
    y = {"type": "category", "autorange": "reversed", "automargin": True, "dtick": 1}
    height = max(300, 130 + 24 * len(chart.labels))
    return {"data": traces, "layout": {"xaxis": x, "yaxis": y, "barmode": "group", "bargap": 0.25, "height": height}}


def _intervals(errors: list[float] | None, form: str) -> dict[str, Any]:
    """Lines over the ends of bars; the page gives them the colour of its text."""
    if errors is None:
        return {}
    return {
        "error_x": {"type": "data", "array": errors, "thickness": 1.5, "width": 4},
        "customdata": errors,
        "hovertemplate": f"%{{y}}: %{{x:{form}}} ± %{{customdata:{form.lstrip('+')}}}<extra></extra>",
        "showlegend": False,
    }


def _unique(names: list[str]) -> list[str]:
    """Names for an axis of categories, on which equal names would share one place."""
    counts: dict[str, int] = {}
    unique = []
    for name in map(text, names):
        counts[name] = counts.get(name, 0) + 1
        unique.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return unique
