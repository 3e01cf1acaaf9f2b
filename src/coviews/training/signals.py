"""Requests to stop: Ctrl-C, or a machine that is about to be taken away."""

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

_PATIENCE = 1.0  # seconds that Python has to end the process after a second signal


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
def listening(request: StopRequest, say: Callable[[str], None]) -> Iterator[None]:
    """Note SIGINT and SIGTERM instead of ending, and say so at once; a second one ends the process.

    Python hears a signal only between two calls of torch, and one call may take minutes. So another thread answers.
    """
    if threading.current_thread() is not threading.main_thread():  # no other thread may set handlers
        yield
        return

    def ask(number: int, _: Any) -> None:
        request.signal = number
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    before_fd = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    left = threading.Event()
    answering = threading.Thread(target=_answer, args=[ours, left, say], name="signals", daemon=True)
    answering.start()
    try:
        yield
    finally:
        left.set()
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before_fd)
        theirs.close()  # ends the thread
        answering.join()
        ours.close()


def _answer(signals: socket.socket, left: threading.Event, say: Callable[[str], None]) -> None:
    """Tell the user that a signal was heard; end the process at the second one if Python itself cannot."""
    heard = 0
    while content := signals.recv(64):
        for number in content:
            if number not in (signal.SIGINT, signal.SIGTERM):
                continue
            heard += 1
            if heard == 1:
                again = "Ctrl-C again" if number == signal.SIGINT else "the signal again"
                say(f"stopping after this step; {again} to stop now")
            elif not left.wait(_PATIENCE) and not _interactive():
                say("stopped at once; the last checkpoint is kept")
                os._exit(128 + number)


def _interactive() -> bool:
    """Whether a person works in this process, such as in a notebook: it must not end."""
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules
