"""The crop: a part of an image, enlarged to the image's size by Pillow's bilinear filter, byte for byte.

`crop` has the signature of a kernel (see kernels/__init__.py), so the engine calls it by its address as well.
The box is never larger than the image, so every new pixel lies between two old ones in each direction.
"""

import numpy as np
from numba import carray, njit

# p of `crop`: the box (left, top, right, bottom) in pixels, and whether to mirror
BOX, FLIP, CROP_SLOTS = 0, 4, 5

BITS = 22  # weights are fixed point with this many bits after the point

i32, u32, u8 = np.int32, np.uint32, np.uint8
HALF = i32(1 << (BITS - 1))


def crop(src, dst, h, w, c, p):
    """`Image.resize((w, h), BILINEAR, box)`, then mirrored if p[FLIP] is not 0."""
    image, out, q = carray(src, (h, w * c)), carray(dst, (h, w * c)), carray(p, CROP_SLOTS)
    between_x, between_y = np.empty((4, w), i32), np.empty((4, h), i32)
    _between(q[BOX], q[BOX + 2], between_x)
    _between(q[BOX + 1], q[BOX + 3], between_y)
    if q[FLIP] != 0:
        for row in between_x:
            _reverse(row)

    # columns first, and only in the rows that are needed; each pass rounds to bytes, as in Pillow
    start, stop = between_y[0, 0], between_y[1, h - 1] + 1
    rows = np.empty((stop - start, w * c), u8)
    for y in range(start, stop):
        if c == 3:
            _resize_row3(image[y], rows[y - start], between_x[0], between_x[1], between_x[2], between_x[3])
        else:
            _resize_row1(image[y], rows[y - start], between_x[0], between_x[1], between_x[2], between_x[3])
    for y in range(h):
        first, second = rows[between_y[0, y] - start], rows[between_y[1, y] - start]
        _mix(first, second, out[y], between_y[2, y], between_y[3, y])


@njit
def _between(low, high, result):
    """For each new position the two old ones it lies between (rows 0, 1) and their weights (rows 2, 3)."""
    n = result.shape[1]
    scale = (high - low) / n
    for x in range(n):
        center = low + (x + 0.5) * scale
        start = max(int(center - 0.5), 0)
        a = max(1.0 - abs(start - center + 0.5), 0.0)
        b = max(1.0 - abs(start + 1 - center + 0.5), 0.0) if start + 1 < n else 0.0
        result[0, x] = start
        result[1, x] = min(start + 1, n - 1)
        result[2, x] = i32(0.5 + a / (a + b) * (1 << BITS))
        result[3, x] = i32(0.5 + b / (a + b) * (1 << BITS))


@njit
def _reverse(row):
    for x in range(row.size // 2):
        row[x], row[row.size - 1 - x] = row[row.size - 1 - x], row[x]


@njit(inline="always")
def _mixed(first, second, a, b):
    return u8(i32(HALF + i32(i32(first * a) + i32(second * b))) >> BITS)


@njit
def _resize_row3(source, out, near, far, a, b):
    for x in range(near.size):
        i, j = u32(3 * near[x]), u32(3 * far[x])  # unsigned: no check for counting from the end
        out[3 * x] = _mixed(source[i], source[j], a[x], b[x])
        out[3 * x + 1] = _mixed(source[i + u32(1)], source[j + u32(1)], a[x], b[x])
        out[3 * x + 2] = _mixed(source[i + u32(2)], source[j + u32(2)], a[x], b[x])


@njit
def _resize_row1(source, out, near, far, a, b):
    for x in range(near.size):
        out[x] = _mixed(source[u32(near[x])], source[u32(far[x])], a[x], b[x])


@njit
def _mix(first, second, out, a, b):
    for i in range(out.size):
        out[i] = _mixed(first[i], second[i], a, b)
