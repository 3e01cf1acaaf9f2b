"""The near side of a launcher: what the command knows of a training that runs elsewhere."""

import contextlib
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from coviews.files.atomic import writing
from coviews.launching.attendance import LOOK, STOPPED, Attendance, State, note, read_state
from coviews.launching.lease import LeaseKeeper
from coviews.launching.task import Task

FOLDER = "launched"  # in the folder of the comparison or the choice
_GRACE = 15.0  # seconds until the last word of a job is visible here
_LEAVING = 10.0  # seconds for jobs to end, after their trainings


class FarJob(Protocol):
    """A job of submitit or Ray."""

    def ended(self) -> bool:
        """Whether it is over, however it ended."""

    def cancel(self) -> None:
        """End it at once, or take it out of the queue."""

    def reason(self) -> str:
        """Why it ended without a result."""


Submit = Callable[[Attendance], FarJob]
Connect = Callable[[Path], contextlib.AbstractContextManager[Submit]]


class FarTraining:
    """A training that runs in a job elsewhere."""

    def __init__(self, attendance: Attendance, job: FarJob, keeper: LeaseKeeper) -> None:
        self.attendance, self.job, self._keeper = attendance, job, keeper
        self._looked = float("-inf")
        self._over_since: float | None = None
        self._code: int | None = None
        self._stopping = False

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        now = time.monotonic()
        if self._code is None and now - self._looked >= LOOK:
            self._looked = now
            over = self.job.ended()  # before the last look at the state
            self._code = read_state(self.attendance.state).code
            if self._code is None and over:
                self._over_since = now if self._over_since is None else self._over_since
                if self._stopping:
                    self._code = STOPPED
                elif now - self._over_since > _GRACE:
                    note(self.attendance.log, f"error: {self.job.reason()}")
                    self._code = 1
        return self._code

    def terminate(self) -> None:
        """Ask it, and all others of the command, to save and end."""
        self._stopping = True
        self._keeper.release()
        if read_state(self.attendance.state).host is None:
            self.job.cancel()  # it has not begun

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended."""
        end = float("inf") if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(self.attendance.task.name, timeout or 0.0)
            time.sleep(LOOK / 5)
        return code

    def kill(self) -> None:
        """End it at once."""
        self.job.cancel()
        self._code = STOPPED


@contextlib.contextmanager
def far_trainings(folder: Path, connected: Connect) -> Iterator[Callable[[Task], FarTraining]]:
    """Start trainings elsewhere; what earlier commands left in the folder ends, because their leases are removed.

    connected: what reaches the cluster; it is given a folder for files of its own.
    """
    launched = folder.absolute() / FOLDER
    sitting = launched / uuid.uuid4().hex[:12]
    with writing(launched):
        shutil.rmtree(launched, ignore_errors=True)
        sitting.mkdir(parents=True)
    with connected(sitting) as submit:
        keeper, trainings = LeaseKeeper(sitting / "lease"), list[FarTraining]()

        def start(task: Task) -> FarTraining:
            state = sitting / f"{task.name}.json"
            State().write(state)  # now, because a new file may be seen late on other machines
            attendance = Attendance(task, Path.cwd(), keeper.lease, state)
            trainings.append(FarTraining(attendance, submit(attendance), keeper))
            return trainings[-1]

        try:
            yield start
        finally:
            keeper.release()
            end = time.monotonic() + _LEAVING
            while not (gone := all(t.job.ended() for t in trainings)) and time.monotonic() < end:
                time.sleep(LOOK / 5)
            if gone:
                shutil.rmtree(launched, ignore_errors=True)
