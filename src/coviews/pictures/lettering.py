"""Text and tiles in pictures: what all drawings with Pillow have in common."""

from bisect import bisect_right
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

WHITE, PANEL, INK, FAINT = "#ffffff", "#f1f3f5", "#1f2933", "#66717c"
TITLE, HEAD, TEXT = 22, 14, 13  # font sizes
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
    """One line no wider than `width` pixels: the end is kept, for there file names differ."""
    text = " ".join(text.split())
    if text_width(text, size) <= width:
        return text
    kept = len(text)
    while kept > 1 and text_width("…" + text[-kept:], size) > width:
        kept -= 1
    return "…" + text[-kept:]


def write(pen: ImageDraw.ImageDraw, lines: list[str], x: float, y: float, size: int, colour: str) -> None:
    """Write lines of text, the first with its top at y."""
    for i, line in enumerate(lines):
        pen.text((x, y + text_height(i, size)), line, colour, font(size))


def text_height(lines: int, size: int) -> int:
    """Of so many lines."""
    return round(lines * size * _LINE)


def text_width(text: str, size: int) -> float:
    """Of one line."""
    return float(font(size).getlength(text))


@cache
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own font, which is there on every machine."""
    return ImageFont.load_default(size)


def tile(image: NDArray[np.uint8], side: int) -> Image.Image:
    """An image (H, W, C) as a picture whose longer side is about `side`."""
    picture = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).convert("RGB")
    size = tile_size(image.shape[0], image.shape[1], side)
    larger = size[0] > picture.width
    return picture.resize(size, Image.Resampling.NEAREST if larger else Image.Resampling.LANCZOS)


def tile_size(height: int, width: int, side: int) -> tuple[int, int]:
    """Small images grow by a whole factor, so that their pixels stay equal; large ones shrink."""
    longest = max(height, width)
    if longest <= side:
        return width * (side // longest), height * (side // longest)
    return max(1, round(width * side / longest)), max(1, round(height * side / longest))


def _fitting(text: str, size: int, width: int) -> int:
    """How many characters fit, at least one."""
    return 1 + bisect_right(range(2, len(text) + 1), float(width), key=lambda n: text_width(text[:n], size))
