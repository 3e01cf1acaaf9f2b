"""The process's memory while an encoder works on the CPU: kept for the next tensors, not returned after each."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator

import torch

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # of mallopt, in glibc's malloc.h
_USUAL = {_TRIM_THRESHOLD: 64 << 20, _MMAP_THRESHOLD: 32 << 20, _MMAP_MAX: 65536}  # what glibc adapts itself to


@contextlib.contextmanager
def kept_memory(device: torch.device) -> Iterator[None]:
    """Keep the memory of freed tensors until the end of the block; only on the CPU, and only with glibc.

    glibc returns the memory of large tensors to the system at once, and the system clears the pages of each new one:
    up to a fifth of a step's time. Where the environment has settings of its own (`MALLOC_...`), they stay.
    """
    libc = ctypes.CDLL(None) if device.type == "cpu" and sys.platform == "linux" else None
    if not hasattr(libc, "mallopt") or any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        yield
        return
    assert libc is not None
    libc.mallopt(_MMAP_MAX, 0)
    libc.mallopt(_TRIM_THRESHOLD, -1)
    try:
        yield
    finally:
        for option, value in _USUAL.items():
            libc.mallopt(option, value)
        libc.malloc_trim(0)
