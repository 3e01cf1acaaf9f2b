"""A training as a process of its own: what it runs, what it is asked, and where its messages go."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from coviews.errors import CoviewsError

PATIENCE = 120.0  # seconds that a training has to save its state in


@dataclass(frozen=True)
class Task:
    """A training that is to be started."""

    name: str
    module: str  # what the process runs; it is called with the folder and the process that it ends with
    folder: Path  # of the run
    request: bytes  # its standard input
    log: Path  # its messages are added to this file
    threads: int


class Training(Protocol):
    """A training that was started; a process on this machine is one."""

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""

    def terminate(self) -> None:
        """Ask it to save and end."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; `subprocess.TimeoutExpired` if that takes longer than some seconds."""

    def kill(self) -> None:
        """End it at once."""


def start_process(task: Task, current: Path | None = None) -> "subprocess.Popen[bytes]":
    """Start a training on this machine; it saves and ends where this process is gone.

    current: the folder that relative paths start from; by default that of this process.
    """
    counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(task.threads))
    try:
        log = (current or Path()) / task.log
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", task.module, str(task.folder), str(os.getpid())],
                stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT, env=os.environ | counts, cwd=current,
                start_new_session=True,  # Ctrl-C is for this process, which passes it on once
            )  # fmt: skip
    except OSError as error:
        raise CoviewsError(f"cannot start a training: {error}") from error
    assert process.stdin is not None
    try:
        with process.stdin as pipe:
            pipe.write(task.request)
    except BrokenPipeError:
        pass  # it is gone already: its log says why
    return process


@contextlib.contextmanager
def unheard_by_children(name: str) -> Iterator[None]:
    """Start processes that ignore a signal: what is ignored when they start stays so."""
    number = getattr(signal, name, None)
    if number is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, signal.SIG_DFL if before is None else before)


def end_all(trainings: Iterable[Training]) -> None:
    """Ask trainings to save and end; those that do not in time are killed."""
    running = list(trainings)
    for training in running:
        training.terminate()
    for training in running:
        try:
            training.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            training.kill()  # its last checkpoint is whole
            training.wait()
