"""The crop: a part of an image, resampled to the view's size by Pillow's bilinear filter, byte for byte.

Where it shrinks, the filter widens as Pillow's does (antialiasing). Flips and quarter turns move pixels only.
Weights are fixed point for images of 8 bits and double precision for those of 16 bits, as in Pillow.
`place` has the signature of a kernel (see kernels/__init__.py), so the engine calls it by its address as well.
"""

import functools

import numpy as np
from numba import carray, njit, types
from numba.extending import overload
from PIL import Image

from coviews.ops.kernels.transpose import TILE, transpose

# p of `place`: the box (left, top, right, bottom) in pixels, the view's height and width, flips and quarter turns, and
# whether rows are resampled before columns
BOX, HEIGHT, WIDTH, FLIP, FLIP_VERTICAL, TURNS, ROWS_FIRST, PLACE_SLOTS = 0, 4, 5, 6, 7, 8, 9, 10

BITS = 22  # weights are fixed point with this many bits after the point
BLOCK = 192  # rows that are transposed at a time: they stay in the cache

i32, u32, u8 = np.int32, np.uint32, np.uint8
HALF = i32(1 << (BITS - 1))


def rows_first(image_size: tuple[int, int], view_size: tuple[int, int]) -> bool:
    """Whether Pillow resamples the rows of such images before their columns, which matters for the rounding."""
    (h, w), (oh, ow) = image_size, view_size
    return _orders_by_size() and oh < h and h - oh > 2 * (w - ow)


@functools.cache
def _orders_by_size() -> bool:
    """Whether the installed Pillow chooses the order by the sizes (as 13 does); older ones start with columns."""
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (31, 17), np.uint8))
    columns_first = image.resize((19, 31), Image.Resampling.BILINEAR).resize((19, 7), Image.Resampling.BILINEAR)
    return image.resize((19, 7), Image.Resampling.BILINEAR).tobytes() != columns_first.tobytes()


def place(src, dst, h, w, c, p):
    """`Image.resize((width, height), BILINEAR, box)`, then mirrored, turned upside down and by quarters."""
    q = carray(p, PLACE_SLOTS)
    oh, ow, turns = int(q[HEIGHT]), int(q[WIDTH]), int(q[TURNS])
    image, out = carray(src, (h, w * c)), carray(dst, (oh, ow * c))
    straight = out if turns == 0 else np.empty((oh, ow * c), image.dtype)
    start_x, count_x, weights_x = _ranges(q[BOX], q[BOX + 2], w, ow, q[FLIP] != 0, image)
    start_y, count_y, weights_y = _ranges(q[BOX + 1], q[BOX + 3], h, oh, q[FLIP_VERTICAL] != 0, image)
    # each pass rounds to whole numbers, and the first one makes only what the second one needs
    if q[ROWS_FIRST] != 0:
        left, right = _extent(start_x, count_x)
        between = np.empty((oh, (right - left) * c), image.dtype)
        _resize_rows(image, 0, left * c, between, start_y, count_y, weights_y)
        _resize_columns(between, 0, oh, left, c, straight, start_x, count_x, weights_x)
    else:
        top, bottom = _extent(start_y, count_y)
        if bottom - top < TILE <= h:  # a whole tile is faster than fewer rows
            top = min(top, h - TILE)
            bottom = top + TILE
        between = np.empty((bottom - top, ow * c), image.dtype)
        _resize_columns(image, top, bottom - top, 0, c, between, start_x, count_x, weights_x)
        _resize_rows(between, top, 0, straight, start_y, count_y, weights_y)
    if turns != 0:
        _turn(straight.reshape(oh, ow, c), out.reshape(oh, ow, c), turns)


@njit
def _resize_rows(image, top, left, out, start, count, weights):
    """Each new row is the weighted mean of a range of old ones, from the value `left` on; the first is number `top`."""
    for y in range(out.shape[0]):
        if image.itemsize == 1:
            _weigh(image, start[y] - top, left, count[y], weights[y], out[y])
        else:
            _weigh_exactly(image, start[y] - top, left, count[y], weights[y], out[y])


@njit
def _resize_columns(image, top, rows, origin, c, out, start, count, weights):
    """The same for columns, the first of which has number `origin`: in blocks of rows, transposed and back."""
    left, right = _extent(start, count)
    blocks = (rows + BLOCK - 1) // BLOCK
    n = ((rows + blocks - 1) // blocks + TILE - 1) // TILE * TILE  # whole tiles are written faster
    columns, resized = np.empty(((right - left) * c, n), image.dtype), np.empty((out.shape[1], n), image.dtype)
    # the channels of a column are neighbours, so their rows are one long row
    long, resized_long = columns.reshape(right - left, c * n), resized.reshape(start.size, c * n)
    present = min(n, rows)
    for first in range(0, rows, n):
        y = min(first, rows - present)  # the last block overlaps the one before
        transpose(image, top + y, (left - origin) * c, present, columns.shape[0], columns, 0)
        _resize_rows(long, left, 0, resized_long, start, count, weights)
        transpose(resized, 0, 0, out.shape[1], present, out, y)


@njit
def _weigh(source, first, left, n, weights, out):
    """The weighted mean of n rows of the source, from the byte `left` on."""
    right = left + out.size
    a = source[first, left:right]
    if n == 1:
        out[:] = a
        return
    b = source[first + 1, left:right]
    if n == 2:
        _mean2(a, b, weights[0], weights[1], out)
        return
    c = source[first + 2, left:right]
    if n == 3:
        _mean3(a, b, c, weights[0], weights[1], weights[2], out)
        return
    d = source[first + 3, left:right]
    if n == 4:
        _mean4(a, b, c, d, weights[0], weights[1], weights[2], weights[3], out)
        return
    e = source[first + 4, left:right]
    if n == 5:
        _mean5(a, b, c, d, e, weights[0], weights[1], weights[2], weights[3], weights[4], out)
        return
    total = np.empty(out.size, i32)
    _total4(a, b, c, d, weights[0], weights[1], weights[2], weights[3], total)
    for i in range(4, n):
        _add(source[first + i, left:right], weights[i], total)
    for x in range(out.size):
        out[x] = u8(total[x] >> BITS)


@njit
def _weigh_exactly(source, first, left, n, weights, out):
    """The same in double precision, added up from the first row to the last."""
    total = np.zeros(out.size)
    for i in range(n):
        row, weight = source[first + i, left : left + out.size], weights[i]
        for x in range(out.size):
            total[x] += row[x] * weight
    for x in range(out.size):
        out[x] = i32(total[x] + 0.5)


@njit
def _mean2(a, b, p, q, out):
    for i in range(out.size):
        out[i] = u8(i32(HALF + i32(i32(a[i] * p) + i32(b[i] * q))) >> BITS)


@njit
def _mean3(a, b, c, p, q, r, out):
    for i in range(out.size):
        out[i] = u8(i32(HALF + i32(i32(a[i] * p) + i32(i32(b[i] * q) + i32(c[i] * r)))) >> BITS)


@njit
def _mean4(a, b, c, d, p, q, r, s, out):
    for i in range(out.size):
        left, right = i32(i32(a[i] * p) + i32(b[i] * q)), i32(i32(c[i] * r) + i32(d[i] * s))
        out[i] = u8(i32(HALF + i32(left + right)) >> BITS)


@njit
def _mean5(a, b, c, d, e, p, q, r, s, t, out):
    for i in range(out.size):
        left, right = i32(i32(a[i] * p) + i32(b[i] * q)), i32(i32(c[i] * r) + i32(d[i] * s))
        out[i] = u8(i32(HALF + i32(i32(left + right) + i32(e[i] * t))) >> BITS)


@njit
def _total4(a, b, c, d, p, q, r, s, total):
    for i in range(total.size):
        left, right = i32(i32(a[i] * p) + i32(b[i] * q)), i32(i32(c[i] * r) + i32(d[i] * s))
        total[i] = i32(HALF + i32(left + right))


@njit
def _add(a, weight, total):
    for i in range(total.size):
        total[i] += i32(a[i] * weight)


@njit
def _extent(start, count):
    """The first old position that any new one needs, and the one after the last."""
    n = start.size - 1
    return min(start[0], start[n]), max(start[0] + count[0], start[n] + count[n])


@njit
def _ranges(low, high, size, n, mirrored, image):
    """For each of n new positions: the first old one that counts, how many do, and their weights for such an image."""
    scale = (high - low) / n
    support = max(scale, 1.0)
    most = int(np.ceil(support)) * 2 + 1
    start, count, weights = np.empty(n, i32), np.empty(n, i32), _new_weights(image, n, most)
    unit, half = (float(1 << BITS), 0.5) if image.itemsize == 1 else (1.0, 0.0)
    if scale <= 1.0:  # as below, with two old positions or one
        for position in range(n):
            center = low + (position + 0.5) * scale
            first = max(int(center - 0.5), 0)
            a = 1.0 - abs(first - center + 0.5)
            b = max(1.0 - abs(first + 1 - center + 0.5), 0.0) if first + 1 < size else 0.0
            x = n - 1 - position if mirrored else position
            start[x], count[x] = first, 2 if first + 1 < size else 1
            weights[x, 0], weights[x, 1] = half + a / (a + b) * unit, half + b / (a + b) * unit
        return start, count, weights
    exact = np.empty(most)
    for position in range(n):
        center = low + (position + 0.5) * scale
        first = max(int(center - support + 0.5), 0)
        last = min(int(center + support + 0.5), size)
        total = 0.0
        for i in range(last - first):
            exact[i] = max(1.0 - abs((i + first - center + 0.5) * (1.0 / support)), 0.0)
            total += exact[i]
        x = n - 1 - position if mirrored else position
        start[x], count[x] = first, last - first
        for i in range(last - first):
            weights[x, i] = half + exact[i] / total * unit
    return start, count, weights


def _new_weights(image, n, most):
    """An array for weights: fixed point for images of 8 bits, double precision for others."""
    raise NotImplementedError  # never called: numba compiles what `_typed_weights` gives in its place


@overload(_new_weights)
def _typed_weights(image, n, most):
    if image.dtype == types.uint8:
        return lambda image, n, most: np.empty((n, most), np.int32)
    return lambda image, n, most: np.empty((n, most), np.float64)


@njit
def _turn(image, out, turns):
    """Quarter turns, counter-clockwise."""
    h, w, c = image.shape
    for y in range(out.shape[0]):
        for x in range(out.shape[1]):
            if turns == 1:
                from_y, from_x = x, w - 1 - y
            elif turns == 2:
                from_y, from_x = h - 1 - y, w - 1 - x
            else:
                from_y, from_x = h - 1 - x, y
            for k in range(c):
                out[y, x, k] = image[from_y, from_x, k]
