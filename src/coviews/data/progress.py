"""Work that takes long: in threads, and with a progress bar on a terminal once it has taken a while."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

Item = TypeVar("Item")
Result = TypeVar("Result")

_BLOCK = 16  # items in one task: few enough for an even end, many enough that handing them out costs nothing
_PATIENCE = 2.0  # seconds before a progress bar appears


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


class LateBar:
    """A progress bar that appears on a terminal once it has taken a while; without a title, never."""

    def __init__(self, title: str, total: int | None, *, in_bytes: bool = False) -> None:
        self._title, self._total, self._in_bytes = title, total, in_bytes
        self._start, self._done = time.monotonic(), 0
        self._bar: Progress | None = None

    def __enter__(self) -> "LateBar":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int) -> None:
        """So many more are done."""
        self._done += count
        if self._bar is None and self._title and time.monotonic() - self._start > _PATIENCE:
            self._bar = self._appear()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done)

    def _appear(self) -> "Progress | None":
        from rich.console import Console
        from rich.progress import DownloadColumn, MofNCompleteColumn, Progress

        console = Console(stderr=True)
        if not console.is_terminal:
            self._title = ""
            return None
        count = DownloadColumn() if self._in_bytes else MofNCompleteColumn()
        bar = Progress(*Progress.get_default_columns(), count, console=console, transient=True)
        bar.add_task(self._title, total=self._total)
        bar.start()
        return bar


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """While something goes on of which no one knows how far it is, say so once it has taken a while."""
    if not title:
        yield
        return
    from rich.console import Console

    console = Console(stderr=True)
    status = console.status(f"{title} ...")
    timer = threading.Timer(max(0.0, _PATIENCE), status.start)
    timer.daemon = True
    if console.is_terminal:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()  # it may be starting just now
        status.stop()
