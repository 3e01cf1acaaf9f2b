"""A limit on the threads of NumPy's matrix products.

Those of the policy network are small: more threads gain nothing, and on a busy machine they wait for each other for
milliseconds. On one thread the result does not depend on the number of processors either.
"""

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_active: list[Any] = []  # the limit that the first caller set, once for each caller that is inside


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Compute NumPy's matrix products on one thread until the last of overlapping callers leaves."""
    with _lock:
        _active.append(_active[0] if _active else _blas().limit(limits=1))
    try:
        yield
    finally:
        with _lock:
            limit = _active.pop()
            if not _active:
                limit.restore_original_limits()


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")
