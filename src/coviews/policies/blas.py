"""Matrix products on one thread.

The policy network's are small: several threads gain nothing on them, and wait for each other for milliseconds
where the processor is busy. On one thread the result does not depend on their number either.
"""

import functools
from contextlib import AbstractContextManager

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


def one_thread() -> AbstractContextManager[object]:
    """While inside, NumPy's matrix products use one thread."""
    return _blas().limit(limits=1)


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")
