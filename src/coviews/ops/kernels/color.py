"""Kernels that change the colour of pixels; grey images stay as they are."""

import math

import numpy as np
from numba import carray, njit

from coviews.ops.kernels.arithmetic import blend, copy_values, largest, luma
from coviews.ops.kernels.layout import SLOTS

f32, u8 = np.float32, np.uint8


def color(src, dst, h, w, c, p):
    """`ImageEnhance.Color`: a blend with the grey image."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    if c == 1:
        copy_values(a, b)
        return
    alpha = f32(carray(p, SLOTS)[0])
    for i in range(h * w):
        j = 3 * i
        grey = f32(luma(a[j], a[j + 1], a[j + 2]))
        b[j] = blend(grey, f32(a[j]), alpha, largest(a))
        b[j + 1] = blend(grey, f32(a[j + 1]), alpha, largest(a))
        b[j + 2] = blend(grey, f32(a[j + 2]), alpha, largest(a))


def grayscale(src, dst, h, w, c, p):
    """`convert("L")`, in all channels."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    if c == 1:
        copy_values(a, b)
        return
    for i in range(h * w):
        j = 3 * i
        grey = luma(a[j], a[j + 1], a[j + 2])
        b[j] = grey
        b[j + 1] = grey
        b[j + 2] = grey


def hue(src, dst, h, w, c, p):
    """Shift the hue of the HSV image by p[0] of 256 steps."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    if c == 1:
        copy_values(a, b)
        return
    shift = int(carray(p, SLOTS)[0])
    for i in range(h * w):
        j = 3 * i
        b[j], b[j + 1], b[j + 2] = _shift_hue(a[j], a[j + 1], a[j + 2], shift)


@njit(inline="always")
def _shift_hue(r, g, b, shift):
    """Convert one pixel to HSV in bytes, shift its hue, and convert it back."""
    high, low = max(r, g, b), min(r, g, b)
    if high == low:
        return high, high, high
    spread = f32(high) - f32(low)
    rc, gc, bc = (f32(high) - f32(r)) / spread, (f32(high) - f32(g)) / spread, (f32(high) - f32(b)) / spread
    if r == high:
        h6 = bc - gc
    elif g == high:
        h6 = f32(2.0 + rc - bc)
    else:
        h6 = f32(4.0 + gc - rc)
    turn = h6 / 6.0 + 1.0
    h1 = f32(turn - math.floor(turn))
    h8 = (int(float(h1) * 255.0) + shift) & 255
    s8 = int(float(spread / f32(high)) * 255.0)
    if s8 == 0:
        return high, high, high
    sector = h8 * 6.0 / 255.0
    s1 = s8 / 255.0
    i = int(sector)
    part = sector - i
    v = float(high)
    down = u8(int(v * (1.0 - s1) + 0.5))
    falling = u8(int(v * (1.0 - s1 * part) + 0.5))
    rising = u8(int(v * (1.0 - s1 * (1.0 - part)) + 0.5))
    if i == 0 or i == 6:
        return high, rising, down
    if i == 1:
        return falling, high, down
    if i == 2:
        return down, high, rising
    if i == 3:
        return down, falling, high
    if i == 4:
        return rising, down, high
    return high, down, falling
