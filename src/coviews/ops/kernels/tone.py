"""Kernels that change how bright pixels are."""

import math

import numpy as np
from numba import carray, njit

from coviews.ops.kernels.arithmetic import blend, clip, copy_values, largest, luma
from coviews.ops.kernels.layout import SLOTS
from coviews.ops.kernels.lookup import replace

f32, i32, u8, u64 = np.float32, np.int32, np.uint8, np.uint64


def invert(src, dst, h, w, c, p):
    """`ImageOps.invert`."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    for i in range(a.size):
        b[i] = largest(a) - a[i]


def solarize(src, dst, h, w, c, p):
    """`ImageOps.solarize`: values at or above the threshold v (of 255) are inverted."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    threshold = math.ceil(carray(p, SLOTS)[0] * (largest(a) // 255))
    if threshold > largest(a):
        copy_values(a, b)
        return
    bound = a.dtype.type(max(threshold, 0))
    for i in range(a.size):
        b[i] = a[i] if a[i] < bound else largest(a) - a[i]


def posterize(src, dst, h, w, c, p):
    """`ImageOps.posterize`: only the highest v bits (rounded down) are kept."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    mask = u8(256 - (1 << (8 - int(carray(p, SLOTS)[0]))))
    for i in range(a.size):
        b[i] = a[i] & mask


def brightness(src, dst, h, w, c, p):
    """`ImageEnhance.Brightness`: a blend with black."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    alpha = f32(carray(p, SLOTS)[0])
    for i in range(a.size):
        b[i] = clip(alpha * f32(a[i]), largest(a))


def brightness_table(src, tables, h, w, c, p):
    """What `brightness` does to each byte."""
    table, alpha = carray(tables, (c, 256)), f32(carray(p, SLOTS)[0])
    for v in range(256):
        table[0, v] = clip(alpha * f32(v), 255)
    for k in range(1, c):
        copy_values(table[0], table[k])


def contrast(src, dst, h, w, c, p):
    """`ImageEnhance.Contrast`: a blend with the mean grey."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    mean, alpha = _mean_grey(a, c), f32(carray(p, SLOTS)[0])
    for i in range(a.size):
        b[i] = blend(mean, f32(a[i]), alpha, largest(a))


def contrast_table(src, tables, h, w, c, p):
    """What `contrast` does to each byte."""
    mean, table, alpha = _mean_grey(carray(src, h * w * c), c), carray(tables, (c, 256)), f32(carray(p, SLOTS)[0])
    for v in range(256):
        table[0, v] = blend(mean, f32(v), alpha, 255)
    for k in range(1, c):
        copy_values(table[0], table[k])


def autocontrast(src, dst, h, w, c, p):
    """`ImageOps.autocontrast`: each channel is stretched to 0..255."""
    a, tables = carray(src, h * w * c), np.empty((c, 256), u8)
    _stretch(a, tables)
    replace(a, carray(dst, h * w * c), tables)


def autocontrast_table(src, tables, h, w, c, p):
    """What `autocontrast` does to each byte."""
    _stretch(carray(src, h * w * c), carray(tables, (c, 256)))


def equalize(src, dst, h, w, c, p):
    """`ImageOps.equalize`: each channel's histogram is flattened."""
    a, tables = carray(src, h * w * c), np.empty((c, 256), u8)
    _flatten(a, tables)
    replace(a, carray(dst, h * w * c), tables)


def equalize_table(src, tables, h, w, c, p):
    """What `equalize` does to each byte."""
    _flatten(carray(src, h * w * c), carray(tables, (c, 256)))


@njit
def _mean_grey(a, c):
    """The mean of the grey image, rounded; if there are other than three channels, the mean of all values."""
    n, total = a.size // 3 if c == 3 else a.size, 0
    if c == 3:
        for i in range(n):
            total += luma(a[3 * i], a[3 * i + 1], a[3 * i + 2])
    else:
        for i in range(n):
            total += a[i]
    return f32(int(total / n + 0.5))


@njit
def _stretch(a, tables):
    """The tables that stretch each channel to 0..255."""
    low, high = _extremes(a, tables.shape[0])
    for k in range(tables.shape[0]):
        spread = int(high[k]) - int(low[k])
        scale = 255.0 / spread if spread else 1.0
        offset = -float(low[k]) * scale if spread else 0.0
        for v in range(256):
            tables[k, v] = u8(i32(min(max(v * scale + offset, 0.0), 255.0)))


@njit
def _flatten(a, tables):
    """The tables that flatten each channel's histogram."""
    c = tables.shape[0]
    n = a.size // c
    counts = np.zeros((c, 256), np.int32)
    if c == 3:
        _count3(a, counts)
    else:
        for i in range(0, a.size, c):
            for k in range(c):
                counts[k, a[i + k]] += 1
    positions = np.empty(256, np.int32)
    for k in range(c):
        last = 255
        while counts[k, last] == 0:
            last -= 1
        step = (n - counts[k, last]) // 255
        if step == 0:  # one colour, or too few pixels to spread
            for v in range(256):
                tables[k, v] = v
            continue
        position = i32(step // 2)
        for v in range(256):
            positions[v] = position
            position += counts[k, v]
        inverse = 1.0 / step
        for v in range(256):
            # position // step, exact: (position + 1/2) / step is never within 1 / (2 step) of a whole number
            tables[k, v] = u8(i32(min((positions[v] + 0.5) * inverse, 255.0)))


@njit
def _count3(a, counts):
    """Add up how often each channel has each value.

    Neighbours often have the same value, and a count that has just been written is slow to read: so every other pixel
    is counted apart.
    """
    n = a.size // 3
    odd = np.zeros((3, 256), np.int32)
    for i in range(n // 2):
        j = u64(6 * i)  # unsigned: no check for counting from the end
        counts[0, a[j]] += 1
        odd[0, a[j + u64(3)]] += 1
        counts[1, a[j + u64(1)]] += 1
        odd[1, a[j + u64(4)]] += 1
        counts[2, a[j + u64(2)]] += 1
        odd[2, a[j + u64(5)]] += 1
    for k in range(3):
        if n % 2:
            counts[k, a[3 * (n - 1) + k]] += 1
        for v in range(256):
            counts[k, v] += odd[k, v]


@njit
def _extremes(a, c):
    """The smallest and the largest byte of each channel, 48 bytes at a time if that is a whole number of pixels."""
    low, high = np.full(48, 255, u8), np.zeros(48, u8)
    blocks = a.size // 48 if 48 % c == 0 else 0
    for block in range(blocks):
        part = a[48 * block : 48 * block + 48]
        for i in range(48):
            low[i] = min(low[i], part[i])
            high[i] = max(high[i], part[i])
    for i in range(48 * blocks, a.size):
        low[i % c], high[i % c] = min(low[i % c], a[i]), max(high[i % c], a[i])
    for i in range(c, 48):
        low[i % c], high[i % c] = min(low[i % c], low[i]), max(high[i % c], high[i])
    return low, high
