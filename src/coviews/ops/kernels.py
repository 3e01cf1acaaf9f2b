"""The pixel work: each kernel reads one uint8 image and writes another, byte for byte as Pillow does.

Every kernel has the same signature, `(src, dst, h, w, c, p)`: two pointers to images of h x w pixels with c
channels (1 or 3), and a pointer to its parameters. It is compiled to a plain C function (see engine.py), so
the table of operations is a table of addresses, and none of them needs to know of the others.

Arithmetic is in the width that Pillow uses (mostly single precision) where a byte could depend on it.
"""

import math

import numpy as np
from numba import carray, njit

# p[:6] come from the table; the engine adds two random numbers in 0..1 (p[6:8]) and the fill colour (p[8:11])
PARAMETERS = 6
PLACE, FILL, SLOTS = 6, 8, 11

f32, i32, u32, u64, u8 = np.float32, np.int32, np.uint32, np.uint64, np.uint8


def identity(src, dst, h, w, c, p):
    """Nothing is done."""
    _copy(carray(src, h * w * c), carray(dst, h * w * c))


def invert(src, dst, h, w, c, p):
    """`ImageOps.invert`."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    for i in range(a.size):
        b[i] = u8(255) - a[i]


def solarize(src, dst, h, w, c, p):
    """`ImageOps.solarize`: what is at or above the threshold is inverted."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    threshold = math.ceil(carray(p, SLOTS)[0])
    if threshold > 255:
        _copy(a, b)
        return
    bound = u8(max(threshold, 0))
    for i in range(a.size):
        b[i] = a[i] if a[i] < bound else u8(255) - a[i]


def posterize(src, dst, h, w, c, p):
    """`ImageOps.posterize`: only the highest bits are kept."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    mask = u8(256 - (1 << (8 - int(carray(p, SLOTS)[0]))))
    for i in range(a.size):
        b[i] = a[i] & mask


def brightness(src, dst, h, w, c, p):
    """`ImageEnhance.Brightness`: a blend with black."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    alpha = f32(carray(p, SLOTS)[0])
    for i in range(a.size):
        b[i] = _clip(alpha * f32(a[i]))


def contrast(src, dst, h, w, c, p):
    """`ImageEnhance.Contrast`: a blend with the mean grey."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    alpha = f32(carray(p, SLOTS)[0])
    total = 0
    if c == 3:
        for i in range(h * w):
            total += _grey(a[3 * i], a[3 * i + 1], a[3 * i + 2])
    else:
        for i in range(h * w):
            total += a[i]
    mean = f32(int(total / (h * w) + 0.5))
    for i in range(a.size):
        b[i] = _blend(mean, f32(a[i]), alpha)


def color(src, dst, h, w, c, p):
    """`ImageEnhance.Color`: a blend with the grey image."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    if c == 1:
        _copy(a, b)
        return
    alpha = f32(carray(p, SLOTS)[0])
    for i in range(h * w):
        j = 3 * i
        grey = f32(_grey(a[j], a[j + 1], a[j + 2]))
        b[j] = _blend(grey, f32(a[j]), alpha)
        b[j + 1] = _blend(grey, f32(a[j + 1]), alpha)
        b[j + 2] = _blend(grey, f32(a[j + 2]), alpha)


def grayscale(src, dst, h, w, c, p):
    """`convert("L")`, in all channels."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    if c == 1:
        _copy(a, b)
        return
    for i in range(h * w):
        j = 3 * i
        grey = u8(_grey(a[j], a[j + 1], a[j + 2]))
        b[j] = grey
        b[j + 1] = grey
        b[j + 2] = grey


def sharpness(src, dst, h, w, c, p):
    """`ImageEnhance.Sharpness`: a blend with the smoothed image (3 x 3, the middle counts five)."""
    _copy(carray(src, h * w * c), carray(dst, h * w * c))  # the border stays as it is
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
    """`ImageOps.equalize`: each channel's histogram is made flat."""
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


def cutout(src, dst, h, w, c, p):
    """A square of p[0] pixels around a random pixel, clipped at the border, gets the fill colour."""
    _copy(carray(src, h * w * c), carray(dst, h * w * c))
    b, q = carray(dst, (h, w, c)), carray(p, SLOTS)
    side = int(q[0])
    top = min(int(q[PLACE + 1] * h), h - 1) - side // 2
    left = min(int(q[PLACE] * w), w - 1) - side // 2
    for y in range(max(top, 0), min(top + side, h)):
        for x in range(max(left, 0), min(left + side, w)):
            for k in range(c):
                b[y, x, k] = u8(q[FILL + k])


def blur(src, dst, h, w, c, p):
    """`ImageFilter.GaussianBlur`: three box blurs along the rows, then three along the columns.

    A box reaches p[0] pixels to either side; each counts p[1], and the next one beyond p[2], of 2^24.
    """
    q = carray(p, SLOTS)
    reach, near, far = int(q[0]), u32(int(q[1])), u32(int(q[2]))
    a, b = carray(src, (h, w, c)), carray(dst, (h, w, c))
    line, other = np.empty((max(h, w), c), u8), np.empty((max(h, w), c), u8)
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


def hue(src, dst, h, w, c, p):
    """To HSV, the hue turned by p[0] of 256 steps, and back."""
    a, b = carray(src, h * w * c), carray(dst, h * w * c)
    if c == 1:
        _copy(a, b)
        return
    shift = int(carray(p, SLOTS)[0])
    for i in range(h * w):
        j = 3 * i
        b[j], b[j + 1], b[j + 2] = _turn(a[j], a[j + 1], a[j + 2], shift)


def affine(src, dst, h, w, c, p):
    """`Image.transform(size, AFFINE, p[:6])` with nearest sampling; what lies outside becomes 0."""
    a, b, q = carray(src, h * w * c), carray(dst, (h, w * c)), carray(p, SLOTS)
    if q[1] == 0 and q[3] == 0:
        _scale(carray(src, (h, w * c)), b, w, c, q)
        return
    # 16.16 fixed point, from the middle of the first pixel
    ax, bx, ay, by = _fix(q[0]), _fix(q[1]), _fix(q[3]), _fix(q[4])
    x0, y0 = _fix(q[2] + q[0] * 0.5 + q[1] * 0.5), _fix(q[5] + q[3] * 0.5 + q[4] * 0.5)
    for y in range(h):
        row = b[y]
        start, stop = _inside(x0, ax, w, 0, w)
        start, stop = _inside(y0, ay, h, start, stop)
        _clear(row[: start * c])
        _clear(row[stop * c :])
        xx, yy = x0 + start * ax, y0 + start * ay
        if ax == 65536 and ay == 0:  # the row moves as a whole
            first = ((yy >> 16) * w + (xx >> 16)) * c
            _copy(a[first : first + (stop - start) * c], row[start * c : stop * c])
        elif c == 3:
            _gather3(a, row[start * c : stop * c], xx, yy, ax, ay, w)
        else:
            for x in range(start, stop):
                row[x] = a[(yy >> 16) * w + (xx >> 16)]
                xx += ax
                yy += ay
        x0 += bx
        y0 += by


# ---------------------------------------------------------------------------------- shared by several kernels


@njit
def _box(a, b, n, c, reach, near, far):
    """The mean of the pixels around each of n; beyond the ends, the last ones are repeated."""
    for k in range(c):
        total = u32(a[0, k]) * u32(reach + 1)
        for i in range(reach):
            total += u32(a[min(i, n - 1), k])
        for i in range(n):
            total += u32(a[min(i + reach, n - 1), k])
            total -= u32(a[max(i - reach - 1, 0), k])
            ends = u32(a[max(i - reach - 1, 0), k]) + u32(a[min(i + reach + 1, n - 1), k])
            b[i, k] = u8(u32(total * near + ends * far + u32(1 << 23)) >> u32(24))


@njit
def _copy(a, b):
    for i in range(a.size):
        b[i] = a[i]


@njit
def _clear(a):
    for i in range(a.size):
        a[i] = 0


@njit
def _gather3(a, row, xx, yy, ax, ay, w):
    for x in range(row.size // 3):
        j = u64(((yy >> 16) * w + (xx >> 16)) * 3)  # unsigned: no check for counting from the end
        row[3 * x] = a[j]
        row[3 * x + 1] = a[j + u64(1)]
        row[3 * x + 2] = a[j + u64(2)]
        xx += ax
        yy += ay


@njit
def _sharpen(left, middle, right, row, out, alpha):
    for i in range(out.size):
        value = f32(row[i])
        total = left[i] + middle[i] + right[i] + f32(4) * value
        # the nearest whole number: total / 13 is never halfway between two
        smooth = f32(i32((total + f32(6.5)) * f32(1 / 13)))
        out[i] = _blend(smooth, value, alpha)


@njit
def _extremes(a, c):
    """The least and the largest byte of each channel: 48 at a time, a whole number of pixels."""
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


@njit(inline="always")
def _clip(value):
    """A number as a byte: cut off, not rounded."""
    return u8(i32(min(max(value, f32(0)), f32(255))))


@njit(inline="always")
def _blend(base, value, alpha):
    """`Image.blend`, also beyond 0..1."""
    return _clip(base + alpha * (value - base))


@njit(inline="always")
def _grey(r, g, b):
    return (r * u32(19595) + g * u32(38470) + b * u32(7471) + u32(0x8000)) >> u32(16)


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


@njit
def _fix(value):
    return math.floor(value * 65536.0 + 0.5)


@njit
def _inside(first, step, size, start, stop):
    """The part of start..stop where 0 <= (first + x * step) >> 16 < size."""
    end = size << 16
    if step == 0:
        return (start, stop) if 0 <= first < end else (start, start)
    if step > 0:
        low, high = (
            -(first // step),
            -((first - end) // step),
        )  # ceil(-first / step), ceil((end - first) / step)
    else:
        low, high = (end - first) // step + 1, first // -step + 1
    start = max(start, low)
    return start, max(start, min(stop, high))


@njit
def _scale(a, b, w, c, q):
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
            _clear(row)
            continue
        _clear(row[: start * c])
        _clear(row[stop * c :])
        if columns[stop - 1] - columns[start] == stop - 1 - start:
            _copy(a[source, columns[start] * c : (columns[stop - 1] + 1) * c], row[start * c : stop * c])
        else:
            for x in range(start, stop):
                for k in range(c):
                    row[x * c + k] = a[source, columns[x] * c + k]


@njit(inline="always")
def _turn(r, g, b, shift):
    """One pixel to HSV in bytes, the hue turned, and back."""
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
