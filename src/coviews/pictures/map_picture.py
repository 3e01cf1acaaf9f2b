"""A picture of points in a plane, coloured by class in colours that colour-blind people can tell apart."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from coviews.pictures.drawing import (
    FAINT,
    HEAD,
    INK,
    PANEL,
    TEXT,
    TITLE,
    WHITE,
    font,
    shortened,
    text_height,
    text_width,
    wrapped,
    write,
)

# Six colours of Okabe and Ito, and two more that colour-blind people can tell from them and from the background.
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#1a1a1a", "#4a10e0")
_OTHERS = "#b8bfc6"
_SIDE, _MARGIN, _GAP = 820, 28, 24
_LEGEND = 190  # the largest width of a class name
_FINER = 3  # the plane is drawn this much larger and then reduced, for smooth edges
_OPAQUE = 200  # of 255, so that overlapping marks are visible

Drawer = Callable[[ImageDraw.ImageDraw, float, float, float, tuple[int, int, int, int]], None]


def draw_map(
    points: NDArray[np.float64],
    labels: NDArray[np.int64] | None,
    classes: tuple[str, ...] | None,
    *,
    title: str = "",
    note: str = "",
    axes: tuple[str, str] = ("", ""),
    seed: int = 0,
) -> Image.Image:
    """Draw a mark for each point: classes differ in colour, beyond 8 also in shape; beyond 40 the rarest are grey.

    Args:
        points: (N, 2).
        labels: (N,), indices into classes.
        classes: their names, for the legend.
        title: the first line.
        note: smaller lines below it.
        axes: what the two directions mean.
        seed: for the random order in which points are drawn, so that no class hides another.
    """
    styles = _styles(labels, len(classes or ()))
    legend = _legend(labels, classes, styles)
    wide = max((text_width(text, TEXT) for text, *_ in legend), default=0)
    width = 2 * _MARGIN + _SIDE + (round(_GAP + 24 + wide) if legend else 0)
    lines = wrapped(title, TITLE, width - 2 * _MARGIN), wrapped(note, HEAD, width - 2 * _MARGIN)
    top = _MARGIN + text_height(len(lines[0]), TITLE) + text_height(len(lines[1]), HEAD) + _GAP
    plane = _plane(points, labels, styles, seed)
    height = top + max(plane.height + text_height(1, TEXT), text_height(len(legend), TEXT)) + _MARGIN
    sheet = Image.new("RGB", (width, height), WHITE)
    pen = ImageDraw.Draw(sheet)
    write(pen, lines[0], _MARGIN, _MARGIN, TITLE, INK)
    write(pen, lines[1], _MARGIN, _MARGIN + text_height(len(lines[0]), TITLE) + 4, HEAD, FAINT)
    sheet.paste(plane, (_MARGIN, top))
    pen.text((_MARGIN + _SIDE / 2, top + plane.height + 6), axes[0], FAINT, font(TEXT), anchor="mt")
    _write_upwards(sheet, axes[1], 6, top + plane.height // 2)
    smooth = Image.new("RGB", (20 * _FINER, max(1, text_height(len(legend), TEXT)) * _FINER), WHITE)
    fine, left = ImageDraw.Draw(smooth), _MARGIN + _SIDE + _GAP
    for i, (text, mark, colour) in enumerate(legend):
        y = text_height(i, TEXT)
        mark(fine, 8 * _FINER, (y + TEXT * 0.6) * _FINER, 5.5 * _FINER, (*_rgb(colour), 255))
        write(pen, [text], left + 22, top + y, TEXT, INK)
    if legend:
        sheet.paste(smooth.resize((20, smooth.height // _FINER), Image.Resampling.LANCZOS), (left, top))
    return sheet


def _plane(
    points: NDArray[np.float64], labels: NDArray[np.int64] | None, styles: list[tuple[Drawer, str]], seed: int
) -> Image.Image:
    low, high = points.min(0), points.max(0)
    wide, tall = np.maximum(high - low, 1e-12)
    height = round(_SIDE * float(np.clip(tall / wide, 0.6, 1)))
    size, pad = (_SIDE * _FINER, height * _FINER), 18 * _FINER
    # one scale for both directions, so that distances are comparable
    scale = min((size[0] - 2 * pad) / wide, (size[1] - 2 * pad) / tall)
    positions = (points - (low + high) / 2) * scale * (1, -1) + np.array(size) / 2
    radius = float(np.clip(180 / np.sqrt(len(points)), 2.0, 6)) * _FINER
    plane = Image.new("RGB", size, PANEL)
    pen = ImageDraw.Draw(plane, "RGBA")
    order = np.random.default_rng(seed).permutation(len(points))
    if labels is not None:  # grey marks lie below the others
        grey = np.array([colour == _OTHERS for _, colour in styles])[labels[order]]
        order = order[np.argsort(~grey, kind="stable")]
    for i in order:
        mark, colour = styles[0 if labels is None else labels[i]]
        mark(pen, float(positions[i, 0]), float(positions[i, 1]), radius, (*_rgb(colour), _OPAQUE))
    return plane.resize((_SIDE, height), Image.Resampling.LANCZOS)


def _styles(labels: NDArray[np.int64] | None, classes: int) -> list[tuple[Drawer, str]]:
    """The mark and colour of each class; if there are too many classes, only the most common have their own."""
    most = len(_COLOURS) * len(_MARKS)
    own = [(mark, colour) for mark in _MARKS for colour in _COLOURS]
    if labels is None or classes <= most:
        return own[: max(1, classes)]
    styles: list[tuple[Drawer, str]] = [(_disc, _OTHERS)] * classes
    common = np.argsort(-np.bincount(labels, minlength=classes), kind="stable")[:most]
    for style, label in zip(own, sorted(common.tolist()), strict=True):
        styles[label] = style
    return styles


def _legend(
    labels: NDArray[np.int64] | None, classes: tuple[str, ...] | None, styles: list[tuple[Drawer, str]]
) -> list[tuple[str, Drawer, str]]:
    if labels is None or classes is None:
        return []
    present = set(labels.tolist())
    named = [(shortened(classes[i], TEXT, _LEGEND), *styles[i]) for i in sorted(present) if styles[i][1] != _OTHERS]
    others = sum(styles[i][1] == _OTHERS for i in present)
    return [*named, *([(f"{others} other classes", _disc, _OTHERS)] if others else [])]


def _write_upwards(sheet: Image.Image, text: str, x: int, middle: int) -> None:
    if text:
        line = Image.new("RGB", (round(text_width(text, TEXT)) + 2, text_height(1, TEXT)), WHITE)
        ImageDraw.Draw(line).text((0, 0), text, FAINT, font(TEXT))
        turned = line.transpose(Image.Transpose.ROTATE_90)
        sheet.paste(turned, (x, middle - turned.height // 2))


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _disc(pen: ImageDraw.ImageDraw, x: float, y: float, r: float, colour: tuple[int, int, int, int]) -> None:
    pen.ellipse((x - r, y - r, x + r, y + r), colour)


def _triangle(pen: ImageDraw.ImageDraw, x: float, y: float, r: float, colour: tuple[int, int, int, int]) -> None:
    pen.polygon([(x, y - 1.2 * r), (x - 1.1 * r, y + 0.8 * r), (x + 1.1 * r, y + 0.8 * r)], colour)


def _square(pen: ImageDraw.ImageDraw, x: float, y: float, r: float, colour: tuple[int, int, int, int]) -> None:
    pen.rectangle((x - 0.9 * r, y - 0.9 * r, x + 0.9 * r, y + 0.9 * r), colour)


def _cross(pen: ImageDraw.ImageDraw, x: float, y: float, r: float, colour: tuple[int, int, int, int]) -> None:
    a, b = 1.15 * r, 0.38 * r
    quarter = [(a, b), (b, b), (b, a)]
    outline = [*quarter, *((-dx, dy) for dx, dy in reversed(quarter))]
    outline += [(-dx, -dy) for dx, dy in outline]
    pen.polygon([(x + dx, y + dy) for dx, dy in outline], colour)


def _diamond(pen: ImageDraw.ImageDraw, x: float, y: float, r: float, colour: tuple[int, int, int, int]) -> None:
    pen.polygon([(x, y - 1.3 * r), (x + r, y), (x, y + 1.3 * r), (x - r, y)], colour)


_MARKS: tuple[Drawer, ...] = (_disc, _triangle, _square, _cross, _diamond)
