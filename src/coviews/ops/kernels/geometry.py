"""Kernels that move pixels or cover them."""

import math

import numpy as np
from numba import carray, njit

from coviews.ops.kernels.arithmetic import copy_values
from coviews.ops.kernels.layout import FILL, OUTSIDE, PLACE, SLOTS
from coviews.ops.kernels.memory import copy4, prefetch_all

u64 = np.uint64


def identity(src, dst, h, w, c, p):
    """The image, unchanged."""
    copy_values(carray(src, h * w * c), carray(dst, h * w * c))


def affine(src, dst, h, w, c, p):
    """`Image.transform(size, AFFINE, p[:6])` with nearest sampling; what is outside the image gets its colour."""
    a, b, q = carray(src, h * w * c), carray(dst, (h, w * c)), carray(p, SLOTS)
    if q[1] == 0 and q[3] == 0:
        _scale(carray(src, (h, w * c)), b, w, c, _outside_row(b, c, q), q)
        return
    outside = _outside_row(b, c, q)
    if q[3] != 0:  # a row of the result comes from many rows
        prefetch_all(a)
    # 16.16 fixed point, from the middle of the first pixel
    ax, bx, ay, by = _fix(q[0]), _fix(q[1]), _fix(q[3]), _fix(q[4])
    x0, y0 = _fix(q[2] + q[0] * 0.5 + q[1] * 0.5), _fix(q[5] + q[3] * 0.5 + q[4] * 0.5)
    for y in range(h):
        row = b[y]
        start, stop = _inside(x0, ax, w, 0, w)
        start, stop = _inside(y0, ay, h, start, stop)
        if start > 0:
            copy_values(outside[: start * c], row[: start * c])
        if stop < w:
            copy_values(outside[stop * c :], row[stop * c :])
        xx, yy = x0 + start * ax, y0 + start * ay
        if ax == 65536 and ay == 0:  # the row moves as a whole
            first = ((yy >> 16) * w + (xx >> 16)) * c
            copy_values(a[first : first + (stop - start) * c], row[start * c : stop * c])
        elif c == 3:
            _gather3(a, row[start * c : stop * c], xx, yy, ax, ay, w)
        else:
            for x in range(start, stop):
                j = ((yy >> 16) * w + (xx >> 16)) * c
                for k in range(c):
                    row[x * c + k] = a[j + k]
                xx += ax
                yy += ay
        x0 += bx
        y0 += by


def cutout(src, dst, h, w, c, p):
    """A square of p[0] pixels around a random pixel, clipped at the border, gets the fill colour."""
    copy_values(carray(src, h * w * c), carray(dst, h * w * c))
    b, q = carray(dst, (h, w, c)), carray(p, SLOTS)
    side = int(q[0])
    top = min(int(q[PLACE + 1] * h), h - 1) - side // 2
    left = min(int(q[PLACE] * w), w - 1) - side // 2
    for y in range(max(top, 0), min(top + side, h)):
        for x in range(max(left, 0), min(left + side, w)):
            for k in range(c):
                b[y, x, k] = int(q[FILL + k])


@njit
def _outside_row(b, c, q):
    """A row in the colour that is outside the image."""
    row = np.empty(b.shape[1], b.dtype)
    for k in range(c):
        value = int(q[OUTSIDE + k])
        for i in range(k, row.size, c):
            row[i] = value
    return row


@njit
def _gather3(a, row, xx, yy, ax, ay, w):
    """Three values at (xx, yy) >> 16 for each pixel of a row; the position moves by (ax, ay)."""
    n, x = row.size // 3, 0
    lowest = max(yy, yy + (n - 1) * ay) >> 16
    if a.itemsize == 1 and (lowest + 1) * w * 3 < a.size:  # reads no byte behind the image
        source, target = a.ctypes.data, row.ctypes.data
        while x < n - 1:  # the fourth byte is overwritten by the next pixel
            copy4(source + ((yy >> 16) * w + (xx >> 16)) * 3, target)
            target += 3
            xx += ax
            yy += ay
            x += 1
    while x < n:
        j = u64(((yy >> 16) * w + (xx >> 16)) * 3)  # unsigned: no check for counting from the end
        row[3 * x] = a[j]
        row[3 * x + 1] = a[j + u64(1)]
        row[3 * x + 2] = a[j + u64(2)]
        xx += ax
        yy += ay
        x += 1


@njit
def _fix(value):
    return math.floor(value * 65536.0 + 0.5)


@njit
def _inside(first, step, size, start, stop):
    """The part of start..stop where 0 <= (first + x * step) >> 16 < size."""
    end = size << 16
    if step == 0:
        return (start, stop) if 0 <= first < end else (start, start)
    if step == 65536:  # the same as below, without a division
        low, high = -(first >> 16), -((first - end) >> 16)
    elif step > 0:
        low, high = -(first // step), -((first - end) // step)  # ceil(-first / step), ceil((end - first) / step)
    else:
        low, high = (end - first) // step + 1, first // -step + 1
    start = max(start, low)
    return start, max(start, min(stop, high))


@njit
def _scale(a, b, w, c, outside, q):
    """An affine map without rotation or shear: rows stay rows, columns stay columns."""
    h = a.shape[0]
    columns = np.empty(w, np.int64)
    start, stop = w, 0
    at = q[2] + q[0] * 0.5
    for x in range(w):  # added up, not multiplied, for the same rounding
        source = -1 if at < 0.0 else int(at)
        if 0 <= source < w:
            start, stop = min(start, x), x + 1
            columns[x] = source
        at += q[0]
    start = min(start, stop)
    at = q[5] + q[4] * 0.5
    for y in range(h):
        source = -1 if at < 0.0 else int(at)
        at += q[4]
        row = b[y]
        if not (0 <= source < h) or start == stop:
            copy_values(outside, row)
            continue
        if start > 0:
            copy_values(outside[: start * c], row[: start * c])
        if stop < w:
            copy_values(outside[stop * c :], row[stop * c :])
        if columns[stop - 1] - columns[start] == stop - 1 - start:
            copy_values(a[source, columns[start] * c : (columns[stop - 1] + 1) * c], row[start * c : stop * c])
        else:
            for x in range(start, stop):
                for k in range(c):
                    row[x * c + k] = a[source, columns[x] * c + k]
