"""Arithmetic on bytes that several kernels share.

Kernels inline it: after a change here, delete the cache of compiled kernels (see layout.py).
"""

import numpy as np
from numba import njit

f32, i32, u32, u8 = np.float32, np.int32, np.uint32, np.uint8


@njit
def copy_bytes(a, b):
    """Copy one flat array into another."""
    for i in range(a.size):
        b[i] = a[i]


@njit(inline="always")
def clip_byte(value):
    """Convert a number to a byte: clamp to 0..255, then truncate."""
    return u8(i32(min(max(value, f32(0)), f32(255))))


@njit(inline="always")
def blend(base, value, alpha):
    """`Image.blend`; alpha may be outside 0..1."""
    return clip_byte(base + alpha * (value - base))


@njit(inline="always")
def luma(r, g, b):
    """The grey value of `convert("L")`."""
    return (r * u32(19595) + g * u32(38470) + b * u32(7471) + u32(0x8000)) >> u32(16)
