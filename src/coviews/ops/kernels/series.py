"""Kernels for series, whose time runs from left to right; the rows of an image are changed alike.

What is random follows from the two numbers of the view's spot.
"""

import math

import numpy as np
from numba import carray

from coviews.ops.kernels.arithmetic import copy_values, largest, random_bits, u64
from coviews.ops.kernels.layout import FILL, PLACE, SLOTS


def scaling(src, dst, h, w, c, p):
    """The distance of every value from the fill colour (the mean of the data set) is multiplied by v."""
    a, b, q = carray(src, (h * w, c)), carray(dst, (h * w, c)), carray(p, SLOTS)
    for i in range(h * w):
        for k in range(c):
            value = q[FILL + k] + q[0] * (a[i, k] - q[FILL + k])
            b[i, k] = int(min(max(value + 0.5, 0.0), float(largest(a))))


def time_warp(src, dst, h, w, c, p):
    """Time runs faster and slower, at 1 - v to 1 + v of its speed; both ends stay where they are."""
    a, b, q = carray(src, (h, w, c)), carray(dst, (h, w, c)), carray(p, SLOTS)
    phase, turn = 2 * math.pi * q[PLACE], 2 * math.pi
    for x in range(w):
        time = x / max(w - 1, 1)
        moved = time + q[0] * (math.sin(turn * time + phase) - math.sin(phase)) / turn
        place = min(max(moved, 0.0), 1.0) * (w - 1)
        left = min(int(place), w - 1)
        right, share = min(left + 1, w - 1), place - left
        for y in range(h):
            for k in range(c):
                b[y, x, k] = int(a[y, left, k] + share * (float(a[y, right, k]) - float(a[y, left, k])) + 0.5)


def permutation(src, dst, h, w, c, p):
    """The series is cut into v equal parts (rounded down), which change places at random."""
    a, b, q = carray(src, (h, w, c)), carray(dst, (h, w, c)), carray(p, SLOTS)
    parts = min(max(int(q[0]), 1), w)
    seed = random_bits(u64(q[PLACE] * 2.0**53), np.int64(q[PLACE + 1] * 2.0**53))
    order = np.arange(parts)
    for i in range(parts - 1, 0, -1):
        j = int(random_bits(seed, i) % u64(i + 1))
        order[i], order[j] = order[j], order[i]
    x = 0
    for part in order:
        for source in range(part * w // parts, (part + 1) * w // parts):
            for y in range(h):
                for k in range(c):
                    b[y, x, k] = a[y, source, k]
            x += 1


def masking(src, dst, h, w, c, p):
    """A share v of the series, at a random place, gets the fill colour."""
    copy_values(carray(src, h * w * c), carray(dst, h * w * c))
    b, q = carray(dst, (h, w, c)), carray(p, SLOTS)
    length = int(q[0] * w + 0.5)
    first = min(int(q[PLACE] * (w - length + 1)), w - length)
    for y in range(h):
        for x in range(first, first + length):
            for k in range(c):
                b[y, x, k] = int(q[FILL + k])
