"""Work on many images: in threads, and with a progress bar."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from coviews.console.progress import LateBar

Item = TypeVar("Item")
Result = TypeVar("Result")

_BLOCK = 16  # items in one task: few enough for an even end, many enough that handing them out costs nothing


def mapped(
    function: Callable[[Item], Result], items: Sequence[Item], title: str, *, in_threads: bool = True
) -> list[Result]:
    """Apply a function to all items, in order, with a progress bar if there is a title."""
    results: list[Result] = []
    blocks = (items[i : i + _BLOCK] for i in range(0, len(items), _BLOCK))
    with LateBar(title, len(items)) as bar:
        if not in_threads:
            for block in blocks:
                results += [function(item) for item in block]
                bar.advance(len(block))
            return results
        pool = ThreadPoolExecutor(os.cpu_count(), "images")  # not more: small images are mostly interpreter time
        try:
            for done in pool.map(lambda block: [function(item) for item in block], blocks):
                results += done
                bar.advance(len(done))
        finally:
            pool.shutdown(cancel_futures=True)
    return results
