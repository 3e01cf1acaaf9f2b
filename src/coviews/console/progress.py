"""Progress of work that takes long: a bar on a terminal once it has taken a while, a few plain lines elsewhere."""

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

Part = TypeVar("Part")

_PATIENCE = 2.0  # seconds before a bar appears
_APART = 10.0  # seconds before a plain line, and between two: a log should not fill up


class LateBar:
    """A progress bar that appears by itself once it has taken a while; without a title, never."""

    def __init__(self, title: str, total: int | None, *, in_bytes: bool = False) -> None:
        self._title, self._total, self._in_bytes = title, total, in_bytes
        self._start, self._done = time.monotonic(), 0
        self._said, self._tenth = self._start, 0  # when the last plain line was, and of which tenth
        self._lock = threading.Lock()  # the bar appears in a thread of its own, also in the midst of a long step
        self._timer: threading.Timer | None = None
        self._bar: Progress | None = None
        self._plain = False

    def __enter__(self) -> "LateBar":
        if not self._title:
            return self
        from rich.console import Console

        console = Console(stderr=True)
        self._plain = not console.is_terminal
        if not self._plain and _PATIENCE <= 0:
            self._appear(console)
        else:
            wait = _APART if self._plain else _PATIENCE
            self._timer = threading.Timer(wait, self._appear, [None if self._plain else console])
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()  # it may be at work just now
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int) -> None:
        """So many more are done."""
        with self._lock:
            self._done += count
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], completed=self._done)
            elif self._plain and self._total and time.monotonic() - self._said >= _APART:
                self._say_how_far(self._total)

    def _appear(self, console: "Console | None") -> None:
        with self._lock:
            if console is not None:
                self._bar = self._made(console)
                self._bar.start()
            elif self._said == self._start:
                self._say(f"{self._title} ...")

    def _made(self, console: "Console") -> "Progress":
        from rich.progress import DownloadColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

        if self._total is None and not self._in_bytes:  # no one knows how far it is
            bar = Progress(SpinnerColumn(), TextColumn("{task.description} ..."), console=console, transient=True)
        else:
            count = DownloadColumn() if self._in_bytes else MofNCompleteColumn()
            bar = Progress(*Progress.get_default_columns(), count, console=console, transient=True)
        bar.add_task(self._title, total=self._total, completed=self._done)
        return bar

    def _say_how_far(self, total: int) -> None:
        tenth = 10 * self._done // total
        if not self._tenth < tenth < 10:
            return
        from coviews.console.display import duration

        self._tenth = tenth
        left = (time.monotonic() - self._start) * (total - self._done) / self._done
        self._say(f"{self._title}: {100 * self._done // total} %, {duration(left)} left")

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        print(text, file=sys.stderr, flush=True)


def waiting(title: str) -> LateBar:
    """While something goes on of which no one knows how far it is, say so once it has taken a while."""
    return LateBar(title, None)


def shown(parts: Iterable[Part], title: str, total: int) -> Iterator[Part]:
    """Pass parts on; one is done when the next is asked for. Without a title, nothing is shown."""
    with LateBar(title, total) as bar:
        for part in parts:
            yield part
            bar.advance(1)
