"""The outlines of the built-in shapes, as signed distances: negative inside, zero on the edge."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def _disc(x: Array, y: Array) -> Array:
    return np.hypot(x, y) - np.float32(0.73)


def _ring(x: Array, y: Array) -> Array:
    return np.abs(np.hypot(x, y) - np.float32(0.68)) - np.float32(0.2)


def _square(x: Array, y: Array) -> Array:
    return np.maximum(np.abs(x), np.abs(y)) - np.float32(0.65)


def _triangle(x: Array, y: Array) -> Array:
    slanted = np.float32(np.sqrt(3) / 2) * np.abs(x) - 0.5 * y
    return np.maximum(slanted, y) - np.float32(0.56)


def _star(x: Array, y: Array) -> Array:
    """Five points: the plane is folded onto half of one of them, whose edge is a straight line."""
    sector = 2 * np.pi / 5
    radius, angle = np.hypot(x, y), np.arctan2(x, -y)
    folded = np.abs(angle - sector * np.round(angle / sector))
    tip, notch = np.array([0.0, 1.08]), 0.5 * np.array([np.sin(sector / 2), np.cos(sector / 2)])
    edge = (notch - tip) / np.linalg.norm(notch - tip)
    along, across = radius * np.sin(folded), radius * np.cos(folded) - tip[1]
    return (along * -edge[1] + across * edge[0]).astype(np.float32, copy=False)


def _cross(x: Array, y: Array) -> Array:
    a, b = np.abs(x), np.abs(y)
    return np.maximum(np.maximum(a, b) - np.float32(0.94), np.minimum(a, b) - np.float32(0.27))


def _crescent(x: Array, y: Array) -> Array:
    full = np.hypot(x - np.float32(0.2), y) - np.float32(0.98)
    bite = np.hypot(x - np.float32(0.7), y) - np.float32(0.75)
    return np.maximum(full, -bite)


def _heart(x: Array, y: Array) -> Array:
    """A square on its corner, with a half disc on each of the upper sides."""
    side = 0.49
    a, down = np.abs(x), y - np.float32(0.2)
    square = (a + np.abs(down)) * np.float32(np.sqrt(0.5)) - np.float32(side)
    middle = np.float32(side * np.sqrt(0.5))
    return np.minimum(square, np.hypot(a - middle, down + middle) - np.float32(side))


def _arrow(x: Array, y: Array) -> Array:
    a = np.abs(x)
    head = np.maximum((a - y - np.float32(1.04)) * np.float32(np.sqrt(0.5)), y + np.float32(0.02))
    shaft = np.maximum(np.maximum(a - np.float32(0.32), y - np.float32(0.95)), -y - np.float32(0.3))
    return np.minimum(head, shaft)


def _hourglass(x: Array, y: Array) -> Array:
    slope, b = 0.78, np.abs(y)
    side = (np.abs(x) - slope * b - np.float32(0.1)) / np.float32(np.hypot(1, slope))
    return np.maximum(side, b - np.float32(0.9))


# All within about one unit of the middle, and of about the same area, so that the share of the image
# which a shape covers does not tell its class.
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
