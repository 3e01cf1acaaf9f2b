"""Contact sheets: images, their pairs of views, and under each view what was done to it."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from coviews.errors import CoviewsError
from coviews.policies.subpolicy import Subpolicies

Images = NDArray[np.uint8]
Draw = Callable[[Images], tuple[Images, Subpolicies]]

_TILE = 160  # the largest side of a tile
_COLUMN = 128  # the least width for the text below it
_MARGIN = 28
_BETWEEN_GROUPS = 16
_WITHIN_GROUP = 10  # around and between the tiles
_TITLE, _HEAD, _TEXT = 22, 14, 13  # font sizes
_LINE = 1.3  # height of a line, in font sizes
_WHITE, _PANEL, _INK, _FAINT = "#ffffff", "#f1f3f5", "#1f2933", "#66717c"


class _Tile(NamedTuple):
    picture: Image.Image
    lines: list[str]


def contact_sheet(
    images: Images,
    draw: Draw,
    *,
    pairs: int = 3,
    title: str = "",
    note: str = "",
    captions: Sequence[str] | None = None,
) -> Image.Image:
    """Lay out a row for each image: the image itself, then its views, which are drawn several times.

    Args:
        images: (B, H, W, C), uint8, of one or three channels.
        draw: makes views (B, V, H, W, C) of the images, and tells what it did: the subpolicies as applied.
        pairs: how many times the views are drawn.
        title: the first line.
        note: a smaller line below it.
        captions: what to write under each image, such as its class.
    """
    if pairs < 1:
        raise CoviewsError(f"a sheet needs at least 1 pair of views, not {pairs}")
    width = max(_COLUMN, _tile_size(*images.shape[1:3])[0])
    names = captions or [""] * len(images)
    columns = [[[_tile(image, [name], width)] for image, name in zip(images, names, strict=True)]]
    for _ in range(pairs):
        views, done = draw(images)
        columns.append(
            [
                [_tile(view, steps, width) for view, steps in zip(row, view_steps(text), strict=True)]
                for row, text in zip(views, done.texts(), strict=True)
            ]
        )
    rows = [list(groups) for groups in zip(*columns, strict=True)]
    heads = ["image", *([f"pair {i + 1}" for i in range(pairs)] if pairs > 1 else ["views"])]
    return _laid_out(rows, heads, width, title, note)


def view_steps(text: str) -> list[list[str]]:
    """What was done to each view, from a line of `Subpolicies.texts`, without the steps that do nothing."""
    views = [[step.strip() for step in view.split(",")] for view in text.split("|")]
    return [[step for step in view if step != "Identity"] or ["nothing"] for view in views]


def _laid_out(rows: list[list[list[_Tile]]], heads: list[str], column: int, title: str, note: str) -> Image.Image:
    pad = _WITHIN_GROUP
    widths = [len(group) * (column + pad) + pad for group in rows[0]]
    lefts = [_MARGIN + sum(widths[:i]) + i * _BETWEEN_GROUPS for i in range(len(widths))]
    text_width = lefts[-1] + widths[-1] - _MARGIN - 2 * pad
    heading = [
        (_wrapped(title, _TITLE, text_width), _TITLE, _INK),
        (_wrapped(note, _HEAD, text_width), _HEAD, _FAINT),
    ]
    tile_height = max(tile.picture.height for tile in rows[0][0])
    heights = [
        3 * pad + tile_height + max(_height(len(tile.lines), _TEXT) for group in row for tile in group) for row in rows
    ]
    top = _MARGIN + sum(_height(len(lines), size) + pad for lines, size, _ in heading if lines)
    total = top + _height(1, _HEAD) + 2 * pad + sum(heights) + _BETWEEN_GROUPS * (len(rows) - 1) + _MARGIN
    sheet = Image.new("RGB", (lefts[-1] + widths[-1] + _MARGIN, total), _WHITE)
    pen = ImageDraw.Draw(sheet)

    y = _MARGIN
    for lines, size, colour in heading:
        _write(pen, lines, _MARGIN + pad, y, size, colour)
        y += _height(len(lines), size) + pad if lines else 0
    y += pad
    for head, left in zip(heads, lefts, strict=True):
        _write(pen, [head], left + pad, y, _HEAD, _FAINT)
    y += _height(1, _HEAD) + pad
    for row, height in zip(rows, heights, strict=True):
        for i, (group, left) in enumerate(zip(row, lefts, strict=True)):
            if i:  # the first is the image itself
                pen.rounded_rectangle((left, y, left + widths[i] - 1, y + height - 1), 8, _PANEL)
            for j, tile in enumerate(group):
                x = left + pad + j * (column + pad)
                sheet.paste(tile.picture, (x, y + pad))
                _write(pen, tile.lines, x, y + 2 * pad + tile_height, _TEXT, _INK if i else _FAINT)
        y += height + _BETWEEN_GROUPS
    return sheet


def _tile(image: Images, steps: list[str], width: int) -> _Tile:
    picture = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).convert("RGB")
    size = _tile_size(*image.shape[:2])
    larger = size[0] > picture.width
    picture = picture.resize(size, Image.Resampling.NEAREST if larger else Image.Resampling.LANCZOS)
    return _Tile(picture, [line for step in steps for line in _wrapped(step, _TEXT, width)])


def _tile_size(height: int, width: int) -> tuple[int, int]:
    """Small images grow by a whole factor, so that their pixels stay equal; large ones shrink."""
    longest = max(height, width)
    if longest <= _TILE:
        return width * (_TILE // longest), height * (_TILE // longest)
    return max(1, round(width * _TILE / longest)), max(1, round(height * _TILE / longest))


def _wrapped(text: str, size: int, width: int) -> list[str]:
    """Lines no wider than `width` pixels, broken at spaces, and within a word that is wider alone."""
    lines: list[str] = []
    rest = text.strip()
    while rest:
        longer = range(2, len(rest) + 1)
        end = 1 + bisect_right(longer, float(width), key=lambda n: float(_font(size).getlength(rest[:n])))
        if end < len(rest) and " " in rest[1 : end + 1]:
            end = rest.rindex(" ", 1, end + 1)
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return lines


def _write(pen: ImageDraw.ImageDraw, lines: list[str], x: int, y: int, size: int, colour: str) -> None:
    for i, line in enumerate(lines):
        pen.text((x, y + _height(i, size)), line, colour, _font(size))


def _height(lines: int, size: int) -> int:
    return round(lines * size * _LINE)


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
