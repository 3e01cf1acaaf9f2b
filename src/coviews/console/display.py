"""What a person sees of a run: a live line in a terminal, plain lines elsewhere."""

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn


class Display:
    """Progress of a run on standard error; silent where it is not wanted."""

    def __init__(self, wanted: bool = True) -> None:
        self.wanted = wanted
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.live = wanted and self.console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[text]}"),
            console=self.console, transient=True, redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=None, text="")

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.live:
            self._bar.stop()

    def update(self, what: str, done: int, total: int, text: str) -> None:
        """Move the live line."""
        if self.live:
            self._bar.start()  # only now: while images are loaded, another bar is there
            self._bar.update(self._task, description=what, completed=done, total=total, text=text)

    def line(self, text: str, *, always: bool = True) -> None:
        """A line that stays; one that is not for `always` is left out in a terminal, where the live line tells it."""
        if not self.wanted or (self.live and not always):
            return
        if self.live:
            self.console.print(text, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Such as 0:07, 12:30 or 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
