"""The crop: a part of an image, resized by Pillow's bilinear filter, byte for byte.

`crop` has the signature of a kernel (see kernels.py), so that the engine calls it by its address as well.
"""

import math

import numpy as np
from numba import carray, njit

# p of `crop`: the box (left, top, right, bottom), the new height and width, and whether to mirror
BOX, SIZE, FLIP, CROP_SLOTS = 0, 4, 6, 7

BITS = 22  # weights are fixed point with this many bits after the point
HALF = 1 << (BITS - 1)

i32, u8 = np.int32, np.uint8


def crop(src, dst, h, w, c, p):
    """`Image.resize(size, BILINEAR, box)`, then mirrored where asked."""
    q = carray(p, CROP_SLOTS)
    left, top, right, bottom = q[BOX], q[BOX + 1], q[BOX + 2], q[BOX + 3]
    height, width, flip = int(q[SIZE]), int(q[SIZE + 1]), q[FLIP] != 0
    image, out = carray(src, (h, w * c)), carray(dst, (height, width * c))

    taps = max(_taps(right - left, width), _taps(bottom - top, height))
    first_x, weights_x = np.empty(width, np.int64), np.empty((width, taps), i32)
    first_y, weights_y = np.empty(height, np.int64), np.empty((height, taps), i32)
    used_x = _weights(left, right, w, first_x, weights_x)
    used_y = _weights(top, bottom, h, first_y, weights_y)
    if flip:
        first_x, weights_x = first_x[::-1].copy(), weights_x[::-1].copy()

    # columns first, and only in the rows that are needed; each pass rounds to bytes, as Pillow's do
    start, stop = first_y[0], min(first_y[height - 1] + used_y, h)
    rows = np.empty((stop - start, width * c), u8)
    for y in range(start, stop):
        _resize_row(image[y], rows[y - start], first_x, weights_x, used_x, w, c)
    for y in range(height):
        at = first_y[y] - start
        if used_y == 2:
            _mix_rows(rows[at], rows[min(at + 1, stop - start - 1)], out[y], weights_y[y, 0], weights_y[y, 1])
        else:
            for i in range(width * c):
                total = HALF
                for t in range(used_y):
                    total += rows[min(at + t, stop - start - 1), i] * weights_y[y, t]
                out[y, i] = u8(total >> BITS)


@njit
def _taps(length, size):
    return int(math.ceil(max(length / size, 1.0))) * 2 + 1


@njit
def _weights(low, high, size, first, weights):
    """The triangle filter for each new position: where it begins, and its weights. Returns how many are used."""
    n, taps = weights.shape
    scale = (high - low) / n
    support = max(scale, 1.0)
    narrow = 1.0 / support
    used = 2
    values = np.empty(taps, np.float64)
    for x in range(n):
        center = low + (x + 0.5) * scale
        start = max(int(center - support + 0.5), 0)
        stop = min(int(center + support + 0.5), size)
        total = 0.0
        for t in range(stop - start):
            values[t] = max(1.0 - abs((t + start - center + 0.5) * narrow), 0.0)
            total += values[t]
        skip = 0  # leading zeros say nothing
        count = 0
        for t in range(stop - start):
            weight = int(0.5 + (values[t] / total if total != 0.0 else values[t]) * (1 << BITS))
            if weight == 0 and count == 0 and t < stop - start - 1:
                skip += 1
                continue
            weights[x, count] = weight
            count += 1
            if weight != 0:
                used = max(used, count)
        first[x] = start + skip
        for t in range(count, taps):
            weights[x, t] = 0
    return used


@njit
def _resize_row(row, out, first, weights, used, w, c):
    n = first.size
    if used == 2:
        for x in range(n):
            i, j = first[x] * c, min(first[x] + 1, w - 1) * c
            a, b = weights[x, 0], weights[x, 1]
            for k in range(c):
                out[x * c + k] = u8((HALF + row[i + k] * a + row[j + k] * b) >> BITS)
        return
    for x in range(n):
        for k in range(c):
            total = HALF
            for t in range(used):
                total += row[min(first[x] + t, w - 1) * c + k] * weights[x, t]
            out[x * c + k] = u8(total >> BITS)


@njit
def _mix_rows(first, second, out, a, b):
    for i in range(out.size):
        out[i] = u8((HALF + first[i] * a + second[i] * b) >> BITS)
