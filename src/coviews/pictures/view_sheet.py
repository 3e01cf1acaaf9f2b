"""Contact sheets: images, pairs of their views, and below each view the operations applied to it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray
from PIL import Image, ImageDraw

from coviews.data.shown_channels import Shown
from coviews.errors import CoviewsError
from coviews.ops.plan import Plan
from coviews.pictures.drawing import (
    FAINT,
    HEAD,
    INK,
    PANEL,
    TEXT,
    TITLE,
    WHITE,
    text_height,
    tile,
    tile_size,
    wrapped,
    write,
)

Images = NDArray[Any]
Draw = Callable[[Images], tuple[Images, Plan]]

_TILE = 160  # the largest side of a tile
_COLUMN = 128  # the smallest width of the text below it
_MARGIN = 28
_BETWEEN_GROUPS = 16
_WITHIN_GROUP = 10  # around and between the tiles


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
    shown: Shown | None = None,
) -> Image.Image:
    """Lay out a row for each image: the image itself, then its views, which are drawn several times.

    Args:
        images: (B, H, W, C), of 8 or 16 bits.
        draw: makes views (B, V, H, W, C) of the images, and returns them with the subpolicies as applied.
        pairs: how many times the views are drawn.
        title: the first line.
        note: a smaller line below it.
        captions: the text under each image, such as its class.
        shown: the channels to show; by default the first three, or the first one if there are fewer.
    """
    if pairs < 1:
        raise CoviewsError(f"a sheet needs at least 1 pair of views, not {pairs}")
    width = max(_COLUMN, tile_size(images.shape[1], images.shape[2], _TILE)[0])
    names = captions or [""] * len(images)
    columns = [[[_tile(image, [name], width, shown)] for image, name in zip(images, names, strict=True)]]
    for _ in range(pairs):
        views, subpolicies = draw(images)
        columns.append(
            [
                [_tile(view, steps, width, shown) for view, steps in zip(row, view_steps(text), strict=True)]
                for row, text in zip(views, subpolicies.texts(), strict=True)
            ]
        )
    rows = [list(groups) for groups in zip(*columns, strict=True)]
    heads = ["image", *([f"pair {i + 1}" for i in range(pairs)] if pairs > 1 else ["views"])]
    return _lay_out(rows, heads, width, title, note)


def view_steps(text: str) -> list[list[str]]:
    """The operations of each view in a line of `Plan.texts`, without those that do nothing."""
    views = [[step.strip() for step in view.split(",")] for view in text.split("|")]
    return [[step for step in view if step != "Identity"] or ["nothing"] for view in views]


def _lay_out(rows: list[list[list[_Tile]]], heads: list[str], column: int, title: str, note: str) -> Image.Image:
    pad = _WITHIN_GROUP
    widths = [len(group) * (column + pad) + pad for group in rows[0]]
    lefts = [_MARGIN + sum(widths[:i]) + i * _BETWEEN_GROUPS for i in range(len(widths))]
    text_width = lefts[-1] + widths[-1] - _MARGIN - 2 * pad
    heading = [
        (wrapped(title, TITLE, text_width), TITLE, INK),
        (wrapped(note, HEAD, text_width), HEAD, FAINT),
    ]
    tile_height = max(cell.picture.height for cell in rows[0][0])
    heights = [
        3 * pad + tile_height + max(text_height(len(cell.lines), TEXT) for group in row for cell in group)
        for row in rows
    ]
    top = _MARGIN + sum(text_height(len(lines), size) + pad for lines, size, _ in heading if lines)
    total = top + text_height(1, HEAD) + 2 * pad + sum(heights) + _BETWEEN_GROUPS * (len(rows) - 1) + _MARGIN
    sheet = Image.new("RGB", (lefts[-1] + widths[-1] + _MARGIN, total), WHITE)
    pen = ImageDraw.Draw(sheet)

    y = _MARGIN
    for lines, size, colour in heading:
        write(pen, lines, _MARGIN + pad, y, size, colour)
        y += text_height(len(lines), size) + pad if lines else 0
    y += pad
    for head, left in zip(heads, lefts, strict=True):
        write(pen, [head], left + pad, y, HEAD, FAINT)
    y += text_height(1, HEAD) + pad
    for row, height in zip(rows, heights, strict=True):
        for i, (group, left) in enumerate(zip(row, lefts, strict=True)):
            if i:  # the first is the image itself
                pen.rounded_rectangle((left, y, left + widths[i] - 1, y + height - 1), 8, PANEL)
            for j, cell in enumerate(group):
                x = left + pad + j * (column + pad)
                sheet.paste(cell.picture, (x, y + pad))
                write(pen, cell.lines, x, y + 2 * pad + tile_height, TEXT, INK if i else FAINT)
        y += height + _BETWEEN_GROUPS
    return sheet


def _tile(image: Images, steps: list[str], width: int, shown: Shown | None) -> _Tile:
    return _Tile(tile(image, _TILE, shown), [line for step in steps for line in wrapped(step, TEXT, width)])
