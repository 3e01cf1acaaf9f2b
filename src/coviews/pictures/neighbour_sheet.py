"""A sheet of images and their nearest neighbours, with their similarities and names."""

from typing import NamedTuple

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
    shortened,
    text_height,
    tile,
    tile_size,
    wrapped,
    write,
)  # fmt: skip

_SIDE = 128  # the largest side of a tile
_COLUMN = 96  # the smallest width of the text below it
_ACROSS = 10  # neighbours in a line
_MARGIN, _PAD, _BETWEEN = 28, 10, 16
_BAR = 4  # height of the line under a neighbour that shows whether it is of the same class
_SAME, _OTHER = "#0072b2", "#e69f00"  # blue and orange, which colour-blind people can tell apart


class Neighbour(NamedTuple):
    """One tile of the sheet."""

    image: NDArray[np.uint8]  # (H, W, 1) or (H, W, 3)
    lines: tuple[str, ...]  # the text below it
    same: bool | None = None  # whether it is of the query's class; None if unknown


class NeighbourRow(NamedTuple):
    """A query and its neighbours, nearest first."""

    query: Neighbour
    neighbours: list[Neighbour]


def neighbour_sheet(rows: list[NeighbourRow], *, title: str = "", note: str = "") -> Image.Image:
    """Lay out a row for each query: the image, and beside it its neighbours in lines of ten.

    Args:
        rows: all images are of one size.
        title: the first line.
        note: a smaller line below it.
    """
    high, wide = rows[0].query.image.shape[:2]
    size = tile_size(high, wide, _SIDE)
    column = max(_COLUMN, size[0])
    across = min(_ACROSS, max(len(row.neighbours) for row in rows))
    has_classes = any(n.same is not None for row in rows for n in row.neighbours)
    lines = max(len(n.lines) for row in rows for n in (row.query, *row.neighbours))
    cell = size[1] + _BAR + 6 + text_height(lines, TEXT) + _PAD
    left = _MARGIN + column + _PAD + _BETWEEN  # of the panels
    panel = across * (column + _PAD) + _PAD
    width = left + panel + _MARGIN

    notes = wrapped(note, HEAD, width - 2 * _MARGIN - (270 if has_classes else 0))
    heads = wrapped(title, TITLE, width - 2 * _MARGIN)
    heights = [_PAD + cell * -(-len(row.neighbours) // across) for row in rows]
    top = _MARGIN + text_height(len(heads), TITLE) + text_height(max(1, len(notes)), HEAD) + _PAD + 2 * _BETWEEN
    sheet = Image.new("RGB", (width, top + sum(heights) + _BETWEEN * (len(rows) - 1) + _MARGIN), WHITE)
    pen = ImageDraw.Draw(sheet)
    write(pen, heads, _MARGIN, _MARGIN, TITLE, INK)
    y = _MARGIN + text_height(len(heads), TITLE) + 4
    write(pen, notes, _MARGIN, y, HEAD, FAINT)
    if has_classes:
        _draw_key(pen, width - _MARGIN - 250, y)
    write(pen, ["image"], _MARGIN, top - text_height(1, HEAD) - 4, HEAD, FAINT)
    write(pen, ["nearest first"], left + _PAD, top - text_height(1, HEAD) - 4, HEAD, FAINT)
    y = top
    for row, height in zip(rows, heights, strict=True):
        pen.rounded_rectangle((left, y, left + panel - 1, y + height - 1), 8, PANEL)
        _draw_tile(sheet, pen, row.query, _MARGIN, y + _PAD, column)
        for i, neighbour in enumerate(row.neighbours):
            down, right = divmod(i, across)
            _draw_tile(sheet, pen, neighbour, left + _PAD + right * (column + _PAD), y + _PAD + down * cell, column)
        y += height + _BETWEEN
    return sheet


def _draw_tile(sheet: Image.Image, pen: ImageDraw.ImageDraw, neighbour: Neighbour, x: int, y: int, width: int) -> None:
    picture = tile(neighbour.image, _SIDE)
    sheet.paste(picture, (x, y))
    bottom = y + picture.height
    if neighbour.same is not None:
        colour = _SAME if neighbour.same else _OTHER
        pen.rectangle((x, bottom, x + picture.width - 1, bottom + _BAR - 1), colour)
    for i, line in enumerate(neighbour.lines):
        text = shortened(line, TEXT, width)
        write(pen, [text], x, bottom + _BAR + 5 + text_height(i, TEXT), TEXT, FAINT if i else INK)


def _draw_key(pen: ImageDraw.ImageDraw, x: int, y: int) -> None:
    for colour, text, right in ((_SAME, "the same class", 0), (_OTHER, "another class", 135)):
        pen.rectangle((x + right, y + 6, x + right + 14, y + 6 + _BAR), colour)
        write(pen, [text], x + right + 20, y, HEAD, FAINT)
