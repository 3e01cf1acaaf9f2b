"""The crop: a part of an image, resampled to the view's size by Pillow's bilinear filter, byte for byte.

Where it shrinks, the filter widens as Pillow's does (antialiasing). Flips and quarter turns move pixels only.
`place` has the signature of a kernel (see kernels/__init__.py), so the engine calls it by its address as well.
"""

import functools

import numpy as np
from numba import carray, njit
from PIL import Image

# p of `place`: the box (left, top, right, bottom) in pixels, the view's height and width, flips and quarter turns, and
# whether rows are resampled before columns
BOX, HEIGHT, WIDTH, FLIP, FLIP_VERTICAL, TURNS, ROWS_FIRST, PLACE_SLOTS = 0, 4, 5, 6, 7, 8, 9, 10

BITS = 22  # weights are fixed point with this many bits after the point

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
    straight = out if turns == 0 else np.empty((oh, ow * c), u8)
    if q[ROWS_FIRST] != 0:
        _resize_rows_first(image, straight, h, w, c, oh, ow, q)
    elif q[BOX + 2] - q[BOX] <= ow and q[BOX + 3] - q[BOX + 1] <= oh:
        _enlarge(image, straight, h, w, c, oh, ow, q)
    else:
        _resize(image, straight, h, w, c, oh, ow, q)
    if turns != 0:
        _turn(straight.reshape(oh, ow, c), out.reshape(oh, ow, c), turns)


@njit
def _enlarge(image, out, h, w, c, oh, ow, q):
    """Where neither side shrinks, every new pixel lies between two old ones in each direction."""
    between_x, between_y = np.empty((4, ow), i32), np.empty((4, oh), i32)
    _between(q[BOX], q[BOX + 2], w, between_x)
    _between(q[BOX + 1], q[BOX + 3], h, between_y)
    # columns first, and only in the rows that are needed; each pass rounds to bytes, as in Pillow
    start, stop = between_y[0, 0], between_y[1, oh - 1] + 1
    if q[FLIP] != 0:
        for row in between_x:
            _reverse(row)
    if q[FLIP_VERTICAL] != 0:
        for row in between_y:
            _reverse(row)
    rows = np.empty((stop - start, ow * c), u8)
    for y in range(start, stop):
        if c == 3:
            _resize_row3(image[y], rows[y - start], between_x[0], between_x[1], between_x[2], between_x[3])
        elif c == 1:
            _resize_row1(image[y], rows[y - start], between_x[0], between_x[1], between_x[2], between_x[3])
        else:
            _resize_row(image[y], rows[y - start], c, between_x[0], between_x[1], between_x[2], between_x[3])
    for y in range(oh):
        first, second = rows[between_y[0, y] - start], rows[between_y[1, y] - start]
        _mix(first, second, out[y], between_y[2, y], between_y[3, y])


@njit
def _resize(image, out, h, w, c, oh, ow, q):
    """Pillow's general resampling: each new pixel is a weighted mean of a range of old ones, columns first."""
    start_x, count_x, weights_x = _ranges(q[BOX], q[BOX + 2], w, ow)
    start_y, count_y, weights_y = _ranges(q[BOX + 1], q[BOX + 3], h, oh)
    top, bottom = start_y[0], start_y[oh - 1] + count_y[oh - 1]
    rows = np.empty((bottom - top, ow * c), u8)
    for y in range(top, bottom):
        source, target = image[y], rows[y - top]
        for x in range(ow):
            to = c * (ow - 1 - x if q[FLIP] != 0 else x)
            begin = u32(start_x[x] * c)
            for k in range(c):
                total = HALF
                for i in range(count_x[x]):
                    total += i32(source[begin + u32(i * c + k)]) * weights_x[x, i]
                target[to + k] = u8(total >> BITS)
    line = np.empty(ow * c, i32)
    for y in range(oh):
        line[:] = HALF
        for i in range(count_y[y]):
            source, weight = rows[start_y[y] - top + i], weights_y[y, i]
            for x in range(ow * c):
                line[x] += i32(source[x]) * weight
        target = out[oh - 1 - y if q[FLIP_VERTICAL] != 0 else y]
        for x in range(ow * c):
            target[x] = u8(line[x] >> BITS)


@njit
def _resize_rows_first(image, out, h, w, c, oh, ow, q):
    """The same in the other order, which rounds differently."""
    start_x, count_x, weights_x = _ranges(q[BOX], q[BOX + 2], w, ow)
    start_y, count_y, weights_y = _ranges(q[BOX + 1], q[BOX + 3], h, oh)
    left, right = start_x[0] * c, (start_x[ow - 1] + count_x[ow - 1]) * c
    line, row = np.empty(right - left, i32), np.empty(right - left, u8)
    for y in range(oh):
        line[:] = HALF
        for i in range(count_y[y]):
            source, weight = image[start_y[y] + i, left:right], weights_y[y, i]
            for x in range(right - left):
                line[x] += i32(source[x]) * weight
        for x in range(right - left):
            row[x] = u8(line[x] >> BITS)
        target = out[oh - 1 - y if q[FLIP_VERTICAL] != 0 else y]
        for x in range(ow):
            to = c * (ow - 1 - x if q[FLIP] != 0 else x)
            begin = u32(start_x[x] * c - left)
            for k in range(c):
                total = HALF
                for i in range(count_x[x]):
                    total += i32(row[begin + u32(i * c + k)]) * weights_x[x, i]
                target[to + k] = u8(total >> BITS)


@njit
def _ranges(low, high, size, n):
    """For each of n new positions: the first old one that counts, how many do, and their weights."""
    scale = (high - low) / n
    support = max(scale, 1.0)
    most = int(np.ceil(support)) * 2 + 1
    start, count, weights = np.empty(n, i32), np.empty(n, i32), np.zeros((n, most), i32)
    exact = np.empty(most)
    for x in range(n):
        center = low + (x + 0.5) * scale
        first = max(int(center - support + 0.5), 0)
        last = min(int(center + support + 0.5), size)
        total = 0.0
        for i in range(last - first):
            exact[i] = max(1.0 - abs((i + first - center + 0.5) * (1.0 / support)), 0.0)
            total += exact[i]
        start[x], count[x] = first, last - first
        for i in range(last - first):
            weights[x, i] = i32(0.5 + exact[i] / total * (1 << BITS))
    return start, count, weights


@njit
def _between(low, high, size, result):
    """For each new position the two old ones it lies between (rows 0, 1) and their weights (rows 2, 3)."""
    n = result.shape[1]
    scale = (high - low) / n
    for x in range(n):
        center = low + (x + 0.5) * scale
        start = max(int(center - 0.5), 0)
        a = max(1.0 - abs(start - center + 0.5), 0.0)
        b = max(1.0 - abs(start + 1 - center + 0.5), 0.0) if start + 1 < size else 0.0
        result[0, x] = start
        result[1, x] = min(start + 1, size - 1)
        result[2, x] = i32(0.5 + a / (a + b) * (1 << BITS))
        result[3, x] = i32(0.5 + b / (a + b) * (1 << BITS))


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
def _resize_row(source, out, c, near, far, a, b):
    for x in range(near.size):
        for k in range(c):
            out[c * x + k] = _mixed(source[u32(c * near[x] + k)], source[u32(c * far[x] + k)], a[x], b[x])


@njit
def _mix(first, second, out, a, b):
    for i in range(out.size):
        out[i] = _mixed(first[i], second[i], a, b)
