"""Kernels that mix a pixel with its neighbours."""

import numpy as np
from numba import carray, njit

from coviews.ops.kernels.arithmetic import blend, copy_values, largest
from coviews.ops.kernels.layout import SLOTS

f32, i32, u32, u64 = np.float32, np.int32, np.uint32, np.uint64


def sharpness(src, dst, h, w, c, p):
    """`ImageEnhance.Sharpness`: a blend with the smoothed image (3 x 3, the middle has weight 5)."""
    copy_values(carray(src, h * w * c), carray(dst, h * w * c))  # the border stays as it is
    if h < 3 or w < 3:
        return
    n = w * c
    a, b = carray(src, (h, n)), carray(dst, (h, n))
    alpha = f32(carray(p, SLOTS)[0])
    sums = np.empty(n, f32)
    for y in range(1, h - 1):
        above, row, below = a[y - 1], a[y], a[y + 1]
        for i in range(n):
            sums[i] = f32(above[i]) + f32(row[i]) + f32(below[i])
        left, middle, right = sums[: n - 2 * c], sums[c : n - c], sums[2 * c :]
        _sharpen(left, middle, right, row[c : n - c], b[y, c : n - c], alpha)


def blur(src, dst, h, w, c, p):
    """`ImageFilter.GaussianBlur`: three box blurs along the rows, then three along the columns.

    A box reaches p[0] pixels to either side, with weight p[1] / 2^24; the next pixel on each side has p[2] / 2^24.
    """
    q = carray(p, SLOTS)
    reach, near, far = int(q[0]), u32(int(q[1])), u32(int(q[2]))
    a, b = carray(src, (h, w, c)), carray(dst, (h, w, c))
    line, other = np.empty((max(h, w), c), a.dtype), np.empty((max(h, w), c), a.dtype)
    for y in range(h):
        for x in range(w):
            for k in range(c):
                line[x, k] = a[y, x, k]
        _box(line, other, w, c, reach, near, far)
        _box(other, line, w, c, reach, near, far)
        _box(line, other, w, c, reach, near, far)
        for x in range(w):
            for k in range(c):
                b[y, x, k] = other[x, k]
    for x in range(w):
        for y in range(h):
            for k in range(c):
                line[y, k] = b[y, x, k]
        _box(line, other, h, c, reach, near, far)
        _box(other, line, h, c, reach, near, far)
        _box(line, other, h, c, reach, near, far)
        for y in range(h):
            for k in range(c):
                b[y, x, k] = other[y, k]


@njit
def _sharpen(left, middle, right, row, out, alpha):
    for i in range(out.size):
        value = f32(row[i])
        total = left[i] + middle[i] + right[i] + f32(4) * value
        # the nearest whole number: total / 13 is never halfway between two
        smooth = f32(i32((total + f32(6.5)) * f32(1 / 13)))
        out[i] = blend(smooth, value, alpha, largest(out))


@njit
def _box(a, b, n, c, reach, near, far):
    """A box blur of n pixels; the pixels at the ends are repeated beyond them."""
    for k in range(c):
        total = u32(a[0, k]) * u32(reach + 1)
        for i in range(reach):
            total += u32(a[min(i, n - 1), k])
        for i in range(n):
            total += u32(a[min(i + reach, n - 1), k])
            total -= u32(a[max(i - reach - 1, 0), k])
            ends = u32(a[max(i - reach - 1, 0), k]) + u32(a[min(i + reach + 1, n - 1), k])
            b[i, k] = (total * near + ends * far + u64(1 << 23)) >> u64(24)
