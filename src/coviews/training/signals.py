"""Requests to stop: Ctrl-C, or a machine that is about to be taken away."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


class Stopped(KeyboardInterrupt):
    """The run was asked to stop by a signal, and has saved its state."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.signal = number


class StopRequest:
    """Whether a signal asked the run to stop."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None


@contextlib.contextmanager
def listening(request: StopRequest) -> Iterator[None]:
    """Note SIGINT and SIGTERM instead of ending; a second one ends the process at once."""
    before: dict[int, Any] = {}

    def ask(number: int, _: Any) -> None:
        request.signal = number
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    if threading.current_thread() is threading.main_thread():  # no other thread may set handlers
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
