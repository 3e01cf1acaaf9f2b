"""The outlines of the built-in shapes, as signed distances: negative inside, zero on the edge."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]  # float32 throughout, for speed


def _disc(x: Array, y: Array) -> Array:
    return np.hypot(x, y) - 0.73


def _ring(x: Array, y: Array) -> Array:
    return np.abs(np.hypot(x, y) - 0.68) - 0.2


def _square(x: Array, y: Array) -> Array:
    return np.maximum(np.abs(x), np.abs(y)) - 0.65


def _triangle(x: Array, y: Array) -> Array:
    slanted = math.sqrt(0.75) * np.abs(x) - 0.5 * y
    return np.maximum(slanted, y) - 0.56


def _star(x: Array, y: Array) -> Array:
    """Five points: the plane is folded onto half of one point, whose edge is a straight line."""
    sector, tip, notch = 2 * math.pi / 5, 1.08, 0.5
    angle = np.arctan2(x, -y)
    folded = np.abs(angle - sector * np.round(angle / sector))
    beside, ahead = (
        notch * math.sin(sector / 2),
        tip - notch * math.cos(sector / 2),
    )  # from the tip to the notch
    radius = np.hypot(x, y)
    outside = radius * np.sin(folded) * ahead - (tip - radius * np.cos(folded)) * beside
    return outside / math.hypot(beside, ahead)


def _cross(x: Array, y: Array) -> Array:
    a, b = np.abs(x), np.abs(y)
    return np.maximum(np.maximum(a, b) - 0.94, np.minimum(a, b) - 0.27)


def _crescent(x: Array, y: Array) -> Array:
    full = np.hypot(x - 0.2, y) - 0.98
    bite = np.hypot(x - 0.7, y) - 0.75
    return np.maximum(full, -bite)


def _heart(x: Array, y: Array) -> Array:
    """A square on its corner, with a half disc on each of the upper sides."""
    side = 0.49
    a, down = np.abs(x), y - 0.2
    square = (a + np.abs(down)) * math.sqrt(0.5) - side
    middle = side * math.sqrt(0.5)
    return np.minimum(square, np.hypot(a - middle, down + middle) - side)


def _arrow(x: Array, y: Array) -> Array:
    a = np.abs(x)
    head = np.maximum((a - y - 1.04) * math.sqrt(0.5), y + 0.02)
    shaft = np.maximum(np.maximum(a - 0.32, y - 0.95), -y - 0.3)
    return np.minimum(head, shaft)


def _hourglass(x: Array, y: Array) -> Array:
    slope, b = 0.78, np.abs(y)
    side = (np.abs(x) - slope * b - 0.1) / math.hypot(1, slope)
    return np.maximum(side, b - 0.9)


# All within about one unit of the middle, and of about the same area: the area must not tell the class.
OUTLINES: dict[str, Callable[[Array, Array], Array]] = {
    "disc": _disc,
    "ring": _ring,
    "square": _square,
    "triangle": _triangle,
    "star": _star,
    "cross": _cross,
    "crescent": _crescent,
    "heart": _heart,
    "arrow": _arrow,
    "hourglass": _hourglass,
}
