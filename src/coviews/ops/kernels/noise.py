"""Kernels that change values at random; the random stream follows from the two numbers of the view's spot."""

import numpy as np
from numba import carray, njit

from coviews.ops.kernels.arithmetic import clip, copy_values, f32, largest, random_bits, u64
from coviews.ops.kernels.layout import FILL, PLACE, SLOTS


def noise(src, dst, h, w, c, p):
    """Gaussian noise, whose standard deviation is v times the range, is added to every value."""
    a, b, q = carray(src, h * w * c), carray(dst, h * w * c), carray(p, SLOTS)
    seed, scale, limit = _seed(q), q[0] * largest(a) / SPREAD, float(largest(a))
    for i in range(a.size):
        # the sum of eight uniform numbers: Gaussian up to about three deviations, and the same on every machine
        total = _sum4(random_bits(seed, 2 * i)) + _sum4(random_bits(seed, 2 * i + 1))
        value = a[i] + scale * (np.float64(total) - MIDDLE)
        b[i] = np.int64(min(max(value + 0.5, 0.0), limit))


# of the sum of eight numbers of 0..65535
MIDDLE = 8 * 65535 / 2
SPREAD = (8 * (65536**2 - 1) / 12) ** 0.5


def drop_channel(src, dst, h, w, c, p):
    """A random channel gets the fill colour; an image of one channel stays as it is."""
    copy_values(carray(src, h * w * c), carray(dst, h * w * c))
    b, q = carray(dst, (h * w, c)), carray(p, SLOTS)
    k = min(int(q[PLACE] * c), c - 1)
    if c > 1:
        for i in range(h * w):
            b[i, k] = int(q[FILL + k])


def channel_gain(src, dst, h, w, c, p):
    """Each channel is multiplied by a random factor of 1 - v .. 1 + v."""
    a, b, q = carray(src, (h * w, c)), carray(dst, (h * w, c)), carray(p, SLOTS)
    seed = _seed(q)
    factors = np.empty(c, f32)
    for k in range(c):
        uniform = np.float64(random_bits(seed, k) >> u64(11)) / 2.0**53
        factors[k] = f32(1 + q[0] * (2 * uniform - 1))
    for i in range(h * w):
        for k in range(c):
            b[i, k] = clip(factors[k] * f32(a[i, k]), largest(a))


@njit
def _seed(q):
    """64 bits from the two numbers of a spot."""
    return random_bits(u64(q[PLACE] * 2.0**53), np.int64(q[PLACE + 1] * 2.0**53))


@njit(inline="always")
def _sum4(bits):
    """The sum of the four numbers of 16 bits."""
    return (bits & u64(65535)) + ((bits >> u64(16)) & u64(65535)) + ((bits >> u64(32)) & u64(65535)) + (bits >> u64(48))
