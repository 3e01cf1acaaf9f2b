"""Kernels that change how bright pixels are."""

import math

import numpy as np
from numba import carray, njit

from coviews.ops.kernels.arithmetic import blend, clip_byte, copy_bytes, luma
from coviews.ops.kernels.layout import SLOTS

f32, i32, u8 = np.float32, np.int32, np.uint8


def invert(src, dst, h, w, c, p):
    """`ImageOps.invert`."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    for i in range(a.size):
        b[i] = u8(255) - a[i]


def solarize(src, dst, h, w, c, p):
    """`ImageOps.solarize`: bytes at or above the threshold v are inverted."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    threshold = math.ceil(carray(p, SLOTS)[0])
    if threshold > 255:
        copy_bytes(a, b)
        return
    bound = u8(max(threshold, 0))
    for i in range(a.size):
        b[i] = a[i] if a[i] < bound else u8(255) - a[i]


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
        b[i] = clip_byte(alpha * f32(a[i]))


def contrast(src, dst, h, w, c, p):
    """`ImageEnhance.Contrast`: a blend with the mean grey."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    alpha = f32(carray(p, SLOTS)[0])
    total = 0
    if c == 3:
        for i in range(h * w):
            total += luma(a[3 * i], a[3 * i + 1], a[3 * i + 2])
    else:
        for i in range(h * w):
            total += a[i]
    mean = f32(int(total / (h * w) + 0.5))
    for i in range(a.size):
        b[i] = blend(mean, f32(a[i]), alpha)


def autocontrast(src, dst, h, w, c, p):
    """`ImageOps.autocontrast`: each channel is stretched to 0..255."""
    a, b = carray(src, (h * w, c)), carray(dst, (h * w, c))
    low, high = _extremes(carray(src, h * w * c), c)
    lut = np.empty((c, 256), u8)
    for k in range(c):
        spread = int(high[k]) - int(low[k])
        scale = 255.0 / spread if spread else 1.0
        offset = -float(low[k]) * scale if spread else 0.0
        for v in range(256):
            lut[k, v] = u8(i32(min(max(v * scale + offset, 0.0), 255.0)))
    _look_up(a, b, lut)


def equalize(src, dst, h, w, c, p):
    """`ImageOps.equalize`: each channel's histogram is flattened."""
    a, b = carray(src, (h * w, c)), carray(dst, (h * w, c))
    counts = np.zeros((c, 256), np.int32)
    if c == 3:
        for i in range(h * w):
            counts[0, a[i, 0]] += 1
            counts[1, a[i, 1]] += 1
            counts[2, a[i, 2]] += 1
    else:
        for i in range(h * w):
            counts[0, a[i, 0]] += 1
    lut = np.empty((c, 256), u8)
    for k in range(c):
        last = 255
        while counts[k, last] == 0:
            last -= 1
        step = (h * w - counts[k, last]) // 255
        if step == 0:  # one colour, or too few pixels to spread
            for v in range(256):
                lut[k, v] = v
            continue
        n = step // 2
        inverse = 1.0 / step
        for v in range(256):
            # n // step, exact: (n + 1/2) / step is never within 1 / (2 step) of a whole number
            lut[k, v] = u8(min(int((n + 0.5) * inverse), 255))
            n += counts[k, v]
    _look_up(a, b, lut)


@njit
def _extremes(a, c):
    """The smallest and the largest byte of each channel, 48 bytes (a whole number of pixels) at a time."""
    low, high = np.full(48, 255, u8), np.zeros(48, u8)
    blocks = a.size // 48
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


@njit
def _look_up(a, b, lut):
    if lut.shape[0] == 3:
        for i in range(a.shape[0]):
            b[i, 0] = lut[0, a[i, 0]]
            b[i, 1] = lut[1, a[i, 1]]
            b[i, 2] = lut[2, a[i, 2]]
    else:
        for i in range(a.shape[0]):
            b[i, 0] = lut[0, a[i, 0]]
