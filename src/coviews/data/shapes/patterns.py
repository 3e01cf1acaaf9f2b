"""The textures of the built-in shapes: functions from the plane to 0..1."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]  # float32 throughout, for speed
TURN = 2 * math.pi
CELLS = 8  # the side of the lattice of the noise


def _plain(u: Array, v: Array, sharpness: Array, lattice: Array) -> Array:
    return np.zeros_like(u)


def _stripes(u: Array, v: Array, sharpness: Array, lattice: Array) -> Array:
    return _step(np.sin(TURN * u), sharpness)


def _checks(u: Array, v: Array, sharpness: Array, lattice: Array) -> Array:
    return _step(np.sin(math.pi * u) * np.sin(math.pi * v), 2 * sharpness)


def _dots(u: Array, v: Array, sharpness: Array, lattice: Array) -> Array:
    return _step(0.34 - np.hypot(u - np.round(u), v - np.round(v)), 6 * sharpness)


def _blobs(u: Array, v: Array, sharpness: Array, lattice: Array) -> Array:
    waves = np.sin(4.1 * u + v) + np.sin(4.3 * v - 2 * u)
    return _step(waves + np.sin(3.1 * (u + v)), sharpness)


def _marble(u: Array, v: Array, sharpness: Array, lattice: Array) -> Array:
    bent = np.sin(3.3 * v) + 0.6 * np.sin(5.9 * v + 2 * u)
    return 0.5 + 0.5 * np.sin(4.5 * u + bent)


def _noise(u: Array, v: Array, sharpness: Array, lattice: Array) -> Array:
    """Random numbers on a periodic lattice (n, CELLS * CELLS), interpolated linearly."""
    u, v = 3 * u, 3 * v
    left, top = np.floor(u), np.floor(v)
    across, down = u - left, v - top
    column, row = left.astype(np.int32), top.astype(np.int32)
    images = np.arange(len(u), dtype=np.int32)[:, None] * np.int32(CELLS * CELLS)

    def at(dx: int, dy: int) -> Array:
        return lattice.ravel()[images + (row + dy) % CELLS * CELLS + (column + dx) % CELLS]

    upper, lower = at(0, 0), at(0, 1)
    upper += across * (at(1, 0) - upper)
    lower += across * (at(1, 1) - lower)
    return upper + down * (lower - upper)


def _rings(u: Array, v: Array, sharpness: Array, lattice: Array) -> Array:
    return _step(np.sin(TURN * np.hypot(u - np.round(u / 3) * 3, v - np.round(v / 3) * 3)), sharpness)


def _zigzag(u: Array, v: Array, sharpness: Array, lattice: Array) -> Array:
    return _step(np.sin(TURN * (u + np.abs(v - np.round(v)))), sharpness)


def _grid(u: Array, v: Array, sharpness: Array, lattice: Array) -> Array:
    return _step(np.maximum(np.cos(TURN * u), np.cos(TURN * v)) - 0.6, sharpness)


def _step(value: Array, sharpness: Array) -> Array:
    """A step from 0 for negative values to 1 for positive ones, smoothed over about one pixel."""
    return np.clip(value * sharpness + 0.5, 0, 1)


PATTERNS: dict[str, Callable[[Array, Array, Array, Array], Array]] = {
    "plain": _plain,
    "stripes": _stripes,
    "checks": _checks,
    "dots": _dots,
    "blobs": _blobs,
    "marble": _marble,
    "noise": _noise,
    "rings": _rings,
    "zigzag": _zigzag,
    "grid": _grid,
}
