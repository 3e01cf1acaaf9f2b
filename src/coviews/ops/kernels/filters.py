"""Kernels that mix a pixel with its neighbours."""

import numpy as np
from numba import carray, njit

from coviews.ops.kernels.arithmetic import blend, copy_values, largest
from coviews.ops.kernels.layout import SLOTS
from coviews.ops.kernels.transpose import transpose

f32, i32, u32, u64 = np.float32, np.int32, np.uint32, np.uint64


def sharpness(src, dst, h, w, c, p):
    """`ImageEnhance.Sharpness`: a blend with the smoothed image (3 x 3, the middle has weight 5)."""
    copy_values(carray(src, h * w * c), carray(dst, h * w * c))  # the border stays as it is
    if h < 3 or w < 3:
        return
    n = w * c
    a, b = carray(src, (h, n)), carray(dst, (h, n))
    alpha = f32(carray(p, SLOTS)[0])
    sums = np.empty(n, u32)
    for y in range(1, h - 1):
        above, row, below = a[y - 1], a[y], a[y + 1]
        for i in range(n):
            sums[i] = u32(above[i]) + u32(row[i]) + u32(below[i])
        left, middle, right = sums[: n - 2 * c], sums[c : n - c], sums[2 * c :]
        _sharpen(left, middle, right, row[c : n - c], b[y, c : n - c], alpha)


def blur(src, dst, h, w, c, p):
    """`ImageFilter.GaussianBlur`: three box blurs along the rows, then three along the columns.

    A box reaches p[0] pixels to either side, with weight p[1] / 2^24; the next pixel on each side has p[2] / 2^24.
    """
    q = carray(p, SLOTS)
    reach, near, far = int(q[0]), u32(int(q[1])), u32(int(q[2]))
    a, b = carray(src, (h, w * c)), carray(dst, (h, w * c))
    # the channels of a column are neighbours, so transposed they are one long row: all rows are blurred at once
    columns, others = np.empty((w * c, h), a.dtype), np.empty((w * c, h), a.dtype)
    transpose(a, 0, 0, h, w * c, columns, 0)
    long, other_long = columns.reshape(w, c * h), others.reshape(w, c * h)
    _box(long, other_long, reach, near, far)
    _box(other_long, long, reach, near, far)
    _box(long, other_long, reach, near, far)
    rows = columns.reshape(h, w * c)
    transpose(others, 0, 0, w * c, h, rows, 0)
    _box(rows, b, reach, near, far)
    _box(b, rows, reach, near, far)
    _box(rows, b, reach, near, far)


@njit
def _sharpen(left, middle, right, row, out, alpha):
    for i in range(out.size):
        total = u32(left[i]) + u32(middle[i]) + u32(right[i]) + u32(4) * u32(row[i])
        rounded_up = u32(total + u32(6))  # total / 13 is never halfway between two whole numbers
        # 5042 / 2^16 is 1 / 13 for the sums of bytes, without a division
        smooth = u32(rounded_up * u32(5042)) >> u32(16) if out.itemsize == 1 else rounded_up // u32(13)
        out[i] = blend(f32(i32(smooth)), f32(i32(row[i])), alpha, largest(out))


@njit
def _box(a, b, reach, near, far):
    """A box blur down the columns; the pixels at the ends are repeated beyond them."""
    last = a.shape[0] - 1
    totals = np.empty(a.shape[1], u32)
    for j in range(totals.size):
        totals[j] = u32(a[0, j]) * u32(reach + 1)
    for i in range(reach):
        _add(totals, a[min(i, last)])
    for i in range(last + 1):
        before, entering, after = a[max(i - reach - 1, 0)], a[min(i + reach, last)], a[min(i + reach + 1, last)]
        _box_row(totals, before, entering, after, b[i], near, far)


@njit
def _add(totals, row):
    for j in range(totals.size):
        totals[j] += u32(row[j])


@njit
def _box_row(totals, before, entering, after, out, near, far):
    """The next row: the one before the box leaves the totals, another enters them."""
    for j in range(totals.size):
        total = u32(totals[j] + entering[j] - before[j])
        totals[j] = total
        ends = u32(before[j]) + u32(after[j])
        if out.itemsize == 1:  # 32 bits are enough
            out[j] = u32(u32(total * near) + u32(ends * far) + u32(1 << 23)) >> u32(24)
        else:
            out[j] = (u64(total) * u64(near) + u64(ends) * u64(far) + u64(1 << 23)) >> u64(24)
