"""Progress on standard error: a bar of rich in a terminal, a few plain lines elsewhere."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

Part = TypeVar("Part")

_PATIENCE = 2.0  # seconds before a bar appears
_APART = 10.0  # seconds before the first plain line, and between two lines: a log should not fill up


class LateBar:
    """A progress bar that appears once the work has taken a while; without a title, it never appears."""

    def __init__(self, title: str, total: int | None, *, in_bytes: bool = False) -> None:
        self._title, self._total, self._in_bytes = title, total, in_bytes
        self._bar: Progress | None = None
        self._lines: _PlainLines | None = None
        self._timer: threading.Timer | None = None  # the bar also appears in the middle of a long step

    def __enter__(self) -> "LateBar":
        if not self._title:
            return self
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        if console.is_terminal:
            self._bar = Progress(*self._columns(), console=console, transient=True)
            self._bar.add_task(self._title, total=self._total, text="")
            self._call_after(_PATIENCE, self._bar.start)
        else:
            self._lines = _PlainLines(self._title, self._total)
            self._call_after(_APART, self._lines.begin)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()  # it may just be starting the bar
        if self._bar is not None and self._bar.live.is_started:
            self._bar.stop()

    def advance(self, count: int, text: str = "") -> None:
        """Count more work as done, with a text to show beside the bar."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], advance=count, text=text)
        elif self._lines is not None:
            self._lines.advance(count)

    def _columns(self) -> "list[str | ProgressColumn]":
        from rich.progress import DownloadColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

        if self._total is None and not self._in_bytes:
            return [SpinnerColumn(), TextColumn("{task.description} ...")]
        count = DownloadColumn() if self._in_bytes else MofNCompleteColumn()
        return [*Progress.get_default_columns(), count, TextColumn("{task.fields[text]}")]

    def _call_after(self, seconds: float, action: Callable[[], None]) -> None:
        if seconds <= 0:
            action()
            return
        self._timer = threading.Timer(seconds, action)
        self._timer.daemon = True
        self._timer.start()


class _PlainLines:
    """Progress where there is no terminal: a line at most every ten seconds, and at most one per tenth."""

    def __init__(self, title: str, total: int | None) -> None:
        self._title, self._total, self._done, self._tenth = title, total, 0, 0
        self._start = self._last = time.monotonic()  # of the work, and of the last line
        self._lock = threading.Lock()  # the first line comes from the timer

    def begin(self) -> None:
        """Print that the work is going on, unless there was a line already."""
        with self._lock:
            if self._last == self._start:
                self._print(f"{self._title} ...")

    def advance(self, count: int) -> None:
        """Count more work as done, and print a line if it is time for one."""
        with self._lock:
            self._done += count
            if not self._total or time.monotonic() - self._last < _APART:
                return
            tenth = 10 * self._done // self._total
            if self._tenth < tenth < 10:
                self._tenth = tenth
                left = (time.monotonic() - self._start) * (self._total - self._done) / self._done
                self._print(f"{self._title}: {100 * self._done // self._total} %, {duration(left)} left")

    def _print(self, text: str) -> None:
        self._last = time.monotonic()
        print(text, file=sys.stderr, flush=True)


def waiting(title: str) -> LateBar:
    """A spinner for work of unknown length, which appears once the work has taken a while."""
    return LateBar(title, None)


def shown(parts: Iterable[Part], title: str, total: int, text: Callable[[Part], str] | None = None) -> Iterator[Part]:
    """The same parts, with a bar; a part counts as done when the next one is requested.

    Args:
        parts: what the work consists of.
        title: the title of the bar; without one, nothing is shown.
        total: the number of parts.
        text: what to show beside the bar when a part is done.
    """
    with LateBar(title, total) as bar:
        for part in parts:
            yield part
            bar.advance(1, "" if text is None else text(part))


class Display:
    """The progress of a run: a live line in a terminal, plain lines elsewhere, nothing if it is not enabled."""

    def __init__(self, enabled: bool = True) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self.enabled = enabled
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.live = enabled and self.console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[text]}"),
            console=self.console, transient=True, redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=None, text="")

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self._bar.stop()

    def update(self, title: str, done: int, total: int, text: str) -> None:
        """Change the live line."""
        if self.live:
            self._bar.start()  # not earlier: while images are loaded, another bar is shown
            self._bar.update(self._task, description=title, completed=done, total=total, text=text)

    def line(self, text: str, *, always: bool = True) -> None:
        """Print a line; without `always`, only if there is no live line."""
        if not self.enabled or (self.live and not always):
            return
        if self.live:
            self.console.print(text, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)


def rough_duration(seconds: float) -> str:
    """A time that is not known exactly, such as 40 s, 12 min or 2.5 h."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 10 else f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.0f} days"


def duration(seconds: float) -> str:
    """A time such as 0:07, 12:30 or 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
