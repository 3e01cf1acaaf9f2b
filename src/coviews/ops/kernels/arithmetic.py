"""Arithmetic on pixel values that several kernels share.

Kernels inline it: after a change here, delete the cache of compiled kernels (see layout.py).
"""

import numpy as np
from numba import njit

f32, i32, u32, u64 = np.float32, np.int32, np.uint32, np.uint64


@njit
def copy_values(a, b):
    """Copy one flat array into another."""
    for i in range(a.size):
        b[i] = a[i]


@njit(inline="always")
def largest(a):
    """The largest value that the images' type can hold: 255 or 65535."""
    return np.iinfo(a.dtype).max


@njit(inline="always")
def clip(value, limit):
    """Convert a number to a pixel value: clamp to 0..limit, then truncate."""
    return i32(min(max(value, f32(0)), f32(limit)))


@njit(inline="always")
def blend(base, value, alpha, limit):
    """`Image.blend`; alpha may be outside 0..1."""
    return clip(base + alpha * (value - base), limit)


@njit(inline="always")
def luma(r, g, b):
    """The grey value of `convert("L")`; 16 bits do not overflow either.

    Each step is cut to 32 bits: numba would compute in 64, half as many at once.
    """
    red, green, blue = u32(u32(r) * u32(19595)), u32(u32(g) * u32(38470)), u32(u32(b) * u32(7471))
    return i32(u32(u32(red + green) + u32(blue + u32(0x8000))) >> u32(16))


@njit(inline="always")
def random_bits(seed, index):
    """The number `index`, of 64 bits, of the random stream of a seed (splitmix64)."""
    z = seed + u64(index + 1) * u64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> u64(27))) * u64(0x94D049BB133111EB)
    return z ^ (z >> u64(31))
