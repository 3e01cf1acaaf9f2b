"""Matrix products on one thread.

The policy network's are small: more threads gain nothing on them, and where the processor is busy they wait for
each other for milliseconds. On one thread the result does not depend on the number of processors either.
"""

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside: list[Any] = []  # for each caller that is inside, the limit that the first of them set


@contextmanager
def one_thread() -> Iterator[None]:
    """While any caller is inside, NumPy's matrix products use one thread; afterwards as many as before."""
    with _lock:
        _inside.append(_inside[0] if _inside else _blas().limit(limits=1))
    try:
        yield
    finally:
        with _lock:
            limit = _inside.pop()
            if not _inside:
                limit.restore_original_limits()


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")
