"""What all pictures drawn with Pillow share: text, tiles, and writing them to a file."""

import io
from bisect import bisect_right
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from coviews.data.shown_channels import Shown, picture_levels
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole

WHITE, PANEL, INK, FAINT = "#ffffff", "#f1f3f5", "#1f2933", "#66717c"
TITLE, HEAD, TEXT = 22, 14, 13  # font sizes
_CURVES = ("#c92a2a", "#2b8a3e", "#1864ab")  # the colours of a series' channels
_LEAST_CURVE = 128  # pixels of a curve's width, so that a short series can be seen
_LINE = 1.3  # height of a line, in font sizes


def wrapped(text: str, size: int, width: int) -> list[str]:
    """Lines no wider than `width` pixels, broken at spaces, and within a word that is wider alone."""
    lines: list[str] = []
    rest = text.strip()
    while rest:
        end = _fitting(rest, size, width)
        if end < len(rest) and " " in rest[1 : end + 1]:
            end = rest.rindex(" ", 1, end + 1)
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return lines


def shortened(text: str, size: int, width: int) -> str:
    """One line no wider than `width` pixels: the beginning is cut off, because file names differ at the end."""
    text = " ".join(text.split())
    if text_width(text, size) <= width:
        return text
    length = len(text)
    while length > 1 and text_width("…" + text[-length:], size) > width:
        length -= 1
    return "…" + text[-length:]


def write(pen: ImageDraw.ImageDraw, lines: list[str], x: float, y: float, size: int, colour: str) -> None:
    """Write lines of text, the first with its top at y."""
    for i, line in enumerate(lines):
        pen.text((x, y + text_height(i, size)), line, colour, font(size))


def text_height(lines: int, size: int) -> int:
    """The height of a number of lines, in pixels."""
    return round(lines * size * _LINE)


def text_width(text: str, size: int) -> float:
    """The width of one line, in pixels."""
    return float(font(size).getlength(text))


@cache
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own font, which every machine has."""
    return ImageFont.load_default(size)


def as_picture(image: NDArray[Any], shown: Shown | None = None) -> Image.Image:
    """An image (H, W, C) of any depth as a picture, grey or in colour; `shown` are the channels that it shows."""
    levels = picture_levels(image, shown)
    if image.shape[0] == 1:
        return _curves(levels[0])
    return Image.fromarray(np.ascontiguousarray(levels[..., 0] if levels.shape[-1] == 1 else levels))


def _curves(levels: NDArray[Any]) -> Image.Image:
    """A series (length, 1 or 3) as curves over time, one for each channel that is shown."""
    width = max(len(levels), _LEAST_CURVE)
    height = _curve_height(width)
    picture = Image.new("RGB", (width, height), WHITE)
    pen, x = ImageDraw.Draw(picture), np.linspace(0, width - 1, len(levels))
    for channel, colour in zip(levels.T, _CURVES if levels.shape[1] > 1 else (INK,), strict=True):
        y = (height - 1) * (1 - channel / 255)
        pen.line([*zip(x.tolist(), y.tolist(), strict=True)], colour)
    return picture


def _curve_height(width: int) -> int:
    return max(1, width * 3 // 8)


def tile(image: NDArray[Any], side: int, shown: Shown | None = None) -> Image.Image:
    """An image (H, W, C) as a picture whose longer side is about `side`."""
    picture = as_picture(image, shown).convert("RGB")
    size = tile_size(image.shape[0], image.shape[1], side)
    larger = size[0] > picture.width
    return picture.resize(size, Image.Resampling.NEAREST if larger else Image.Resampling.LANCZOS)


def tile_size(height: int, width: int, side: int) -> tuple[int, int]:
    """Width and height of a tile: small images grow by a whole factor, so that pixels stay equal; large ones shrink."""
    height = _curve_height(width) if height == 1 else height  # a series is shown as a curve
    longest = max(height, width)
    if longest <= side:
        return width * (side // longest), height * (side // longest)
    return max(1, round(width * side / longest)), max(1, round(height * side / longest))


def check_picture(path: Path) -> None:
    """Raise an error if a picture cannot be written to this path: call it before the work is done."""
    if Image.registered_extensions().get(path.suffix.lower()) not in Image.SAVE:
        raise CoviewsError(f"cannot write a picture as {str(path)!r}: name it .png, .jpg, .webp or .pdf")
    if path.is_dir():
        raise CoviewsError(f"cannot write {path}: it is a folder")


def save_picture(picture: Image.Image, path: Path) -> None:
    """Write a picture, whole or not at all, in the format of the path's extension."""
    content = io.BytesIO()
    try:
        picture.save(content, format=Image.registered_extensions()[path.suffix.lower()])
        path.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise CoviewsError(f"cannot write {path}: {reason}") from error
    write_whole(path, content.getvalue())


def _fitting(text: str, size: int, width: int) -> int:
    """The number of characters that fit, at least one."""
    return 1 + bisect_right(range(2, len(text) + 1), float(width), key=lambda n: text_width(text[:n], size))
