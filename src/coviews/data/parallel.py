"""The same work on many images: in threads, and with a progress bar."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from coviews.compat import cores
from coviews.console.progress import LateBar

Item = TypeVar("Item")
Result = TypeVar("Result")

_BLOCK = 16  # items of one task: small enough to share the work evenly, large enough to amortise the hand-over


def parallel_map(
    function: Callable[[Item], Result], items: Sequence[Item], title: str, *, in_threads: bool = True
) -> list[Result]:
    """The results of a function for all items, in order; with a progress bar if there is a title."""
    results: list[Result] = []
    blocks = (items[i : i + _BLOCK] for i in range(0, len(items), _BLOCK))
    with LateBar(title, len(items)) as bar:
        if not in_threads:
            for block in blocks:
                results += [function(item) for item in block]
                bar.advance(len(block))
            return results
        # one thread per core: small images spend most of their time in the interpreter
        pool = ThreadPoolExecutor(cores(), "images")
        try:
            for part in pool.map(lambda block: [function(item) for item in block], blocks):
                results += part
                bar.advance(len(part))
        finally:
            pool.shutdown(cancel_futures=True)
    return results
