"""Descriptions of charts: lines, matrices and bars. Plotly draws them on the page, matplotlib in files."""

from dataclasses import dataclass, field

import numpy as np

Values = list[list[float | None]]


@dataclass(frozen=True)
class Line:
    """One line; a faint one is for comparison, and has no entry in the legend."""

    name: str
    x: list[float]
    y: list[float]
    faint: bool = False
    shade: float | None = None  # its place in 0..1 on a colour scale, if the lines have an order
    dashed: bool = False


@dataclass(frozen=True)
class LineChart:
    """Lines over a common axis."""

    key: str
    title: str
    x_title: str
    y_title: str
    lines: list[Line]
    alt: str  # its content in words
    percent: bool = False  # whether y are shares


@dataclass(frozen=True)
class Matrix:
    """A matrix of numbers as colours."""

    key: str
    title: str
    x_title: str
    y_title: str
    columns: list[str]
    rows: list[str]
    values: Values
    alt: str
    form: str = ".1%"  # the format of a value
    around: float | None = None  # the value in the middle of a diverging scale
    limits: tuple[float, float] | None = None
    texts: list[list[str]] = field(default_factory=list)  # of each cell; by default its row and column


@dataclass(frozen=True)
class BarChart:
    """Bars side by side for each label."""

    key: str
    title: str
    x_title: str
    labels: list[str]
    bars: dict[str, list[float]]
    alt: str
    form: str = ".1%"
    errors: dict[str, list[float]] = field(default_factory=dict)  # half the width of each bar's interval, by its name


Chart = LineChart | Matrix | BarChart


def plain(array: np.ndarray, digits: int = 4) -> Values:
    """Rows of rounded numbers, with None for NaN."""
    return [[None if np.isnan(v) else round(float(v), digits) for v in row] for row in array]


def smoothed(values: list[float], window: int) -> list[float]:
    """The mean of each value and the ones before it, at most `window` in all."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(0, ends - window)
    return ((sums[ends] - sums[begins]) / (ends - begins)).tolist()
