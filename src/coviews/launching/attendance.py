"""The far side of a launcher: it starts a training on the machine where it finds itself, and attends to it."""

import json
import platform
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from coviews.boundary.json_text import read_json
from coviews.boundary.schema import Schema
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole
from coviews.files.lock import lock_folder
from coviews.launching.lease import Lease, LeaseWatch
from coviews.launching.task import PATIENCE, Task, end_all, start_process, unheard_by_children

LOOK = 0.5  # seconds from one look at the training and the lease to the next
_OWN_END = 60.0  # seconds in which a machine that is taken back ends this process too
STOPPED = 143  # the exit code of a training that was asked to end


class State(Schema):
    """How far a training is: its machine once it has begun, its exit code once it has ended."""

    host: str | None = None
    code: int | None = None

    def write(self, path: Path) -> None:
        """Write it for the command to see."""
        write_whole(path, json.dumps({"host": self.host, "code": self.code}).encode())


def read_state(path: Path) -> State:
    """The state that a file holds; that of a training that has not begun if it cannot be read."""
    try:
        return read_json(path, State, "state", most=10_000)
    except CoviewsError:
        return State()


@dataclass
class Attendance:
    """A training on another machine, as long as the command that wants it lives."""

    task: Task
    current: Path  # the command's current folder
    lease: Lease
    state: Path  # the file that tells the command how far the training is

    def __post_init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = False  # whether the training was asked to end

    @property
    def log(self) -> Path:
        """Where the training's messages are."""
        return self.current / self.task.log

    def attend(self) -> None:
        """Train, from the start or from the last checkpoint; the state says how it ended."""
        host = platform.node()
        try:
            State(host).write(self.state)
            note(self.log, f"at work on {host}")
            State(host, self._code()).write(self.state)
        except CoviewsError:
            if self.state.parent.exists():  # else nobody asks any more
                raise

    def stop(self) -> None:
        """Let the training save and end."""
        self._asked = True
        if self._process is not None:
            end_all([self._process])

    def _code(self) -> int:
        watch = LeaseWatch(self.lease)
        if not self._is_free(watch):
            return STOPPED
        try:
            # SLURM tells all processes of a job that its time is over: this one then asks the training to save
            with unheard_by_children("SIGUSR2"):
                self._process = process = start_process(self.task, self.current)
        except CoviewsError as error:
            note(self.log, f"error: {error}")
            return 2
        try:
            while (code := process.poll()) is None:
                time.sleep(LOOK)
                if not watch.holds():
                    self.stop()
        finally:
            if process.poll() is None:
                process.terminate()  # this process is being ended, and cannot wait
        if code in (STOPPED, -signal.SIGTERM) and not self._asked:
            time.sleep(_OWN_END)  # SLURM takes the machine back: this process ends too, and the job is queued again
        return code

    def _is_free(self, watch: LeaseWatch) -> bool:
        """Wait while the training of an earlier command still saves its state; False if the lease ends first."""
        end, run = time.monotonic() + PATIENCE, self.current / self.task.folder
        while watch.holds():
            if not run.exists() or time.monotonic() > end:
                return True
            try:
                lock_folder(run).close()
                return True
            except CoviewsError:
                time.sleep(LOOK)
        return False


def note(log: Path, line: str) -> None:
    """Add a line to the messages of a training."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as file:
        file.write(line.encode() + b"\n")
