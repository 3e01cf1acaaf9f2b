"""Trainings in processes of their own, several at once; what is being done is shown, and can be stopped."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coviews.boundary.json_text import LARGEST
from coviews.boundary.regular import read_bounded
from coviews.comparison.plan import Job
from coviews.console.progress import Display, duration
from coviews.errors import CoviewsError
from coviews.launching.task import Task, Training, end_all, start_process
from coviews.runs.settings_file import settings_yaml
from coviews.training.signals import Stopped, StopRequest, listening

_LOOK = 0.2  # seconds from one look at the processes to the next
_PARTS = 1000  # of the progress bar
_BESIDE = 60  # characters of the live line beside the names of what is running


@dataclass
class Workers:
    """Does jobs, several at once."""

    folder: Path  # of the comparison: run folders and logs are made in it
    expected: Mapping[str, float]  # the seconds that each job is thought to take, by its name
    at_once: int  # processes
    threads: int  # of each
    display: Display
    module: str = "coviews.comparison.worker"  # what each process runs
    start: Callable[[Task], Training] = start_process  # starts a training, here or elsewhere
    before: int = 0  # jobs that are done already, for the progress that is shown
    after: int = 0  # jobs that will follow later, expected to take as long as these
    _work: float = 0.0  # seconds of work in the jobs that were done here, as expected
    _spent: float = 0.0  # seconds that they took, several at once
    _waiting: list[Job] = field(default_factory=list)
    _running: dict[str, Training] = field(default_factory=dict)

    def run_folder(self, job: Job) -> Path:
        """Where a job's run is."""
        return self.folder / "runs" / job.name

    def log(self, job: Job) -> Path:
        """Where a job's messages are."""
        return self.folder / "logs" / f"{job.name}.txt"

    def work_off(self, jobs: Sequence[Job], on_end: Callable[[Job], str]) -> dict[str, str]:
        """Do all jobs; what went wrong, by the name of the job.

        on_end: called when a job is done; what it says is shown.
        """
        self._waiting, failed, request = list(jobs), dict[str, str](), StopRequest()
        total, start, ended = self._to_do(jobs), time.monotonic(), 0
        count = self.before + len(jobs) + self.after
        with listening(request, self.display.line):
            try:
                while (self._waiting or self._running) and not request:
                    while self._waiting and len(self._running) < self.at_once:
                        self._start(self._waiting.pop(0))
                    for job in [j for j in jobs if j.name in self._running]:
                        code = self._running[job.name].poll()
                        if code is None:
                            continue
                        del self._running[job.name]
                        ended += 1
                        if code:
                            failed[job.name] = message = f"failed: {self._last_line(job, code)}"
                        else:
                            message = on_end(job)
                        left = self._show(jobs, ended, total, _since(start))
                        place = f"[{self.before + ended}/{count}]"
                        self.display.line(f"{place} {job.variant}, seed {job.seed}: {message}{left}")
                    self._show(jobs, ended, total, _since(start))
                    time.sleep(_LOOK)
            finally:
                end_all(self._running.values())
        self.before, self._work, self._spent = self.before + ended, self._work + total, self._spent + _since(start)
        if request:
            assert request.signal is not None
            raise Stopped("stopped; the same command goes on from here", request.signal)
        return failed

    def _start(self, job: Job) -> None:
        folder = self.run_folder(job)
        settings = job.settings.replaced(out=folder, threads=self.threads)
        request = json.dumps({"settings": settings_yaml(settings), "evaluation": dict(job.evaluation)}).encode()
        self._running[job.name] = self.start(Task(job.name, self.module, folder, request, self.log(job), self.threads))

    def _show(self, jobs: Sequence[Job], ended: int, total: float, spent: float) -> str:
        """Show how far it is; the time left by the pace so far, once there is one: as a text to follow others."""
        to_do = self._to_do([j for j in jobs if j in self._waiting or j.name in self._running])
        done = self._work + total - to_do
        to_do += self.after * sum(self.expected[j.name] for j in jobs) / max(len(jobs), 1)
        running = [f"{j.name} {self._share(j):.0%}" for j in jobs if j.name in self._running]
        text = " · ".join(running)
        if len(text) > self.display.console.width - _BESIDE:
            text = f"{len(running)} at once"
        left = ""
        if to_do and done > 0.02 * (done + to_do):
            left = f" · {duration((self._spent + spent) * to_do / done)} left"
        title = f"{self.before + ended} of {self.before + len(jobs) + self.after} done"
        self.display.update(title, int(_PARTS * done / max(done + to_do, 1e-9)), _PARTS, text + left)
        return left

    def _to_do(self, jobs: Sequence[Job]) -> float:
        """The seconds of work in jobs, as expected: earlier sittings may have begun them."""
        return sum(self.expected[job.name] * (1 - self._share(job)) for job in jobs)

    def _share(self, job: Job) -> float:
        """How much of a training is done."""
        try:
            lines = read_bounded(self.run_folder(job) / "metrics.jsonl", LARGEST)
        except CoviewsError:
            return 0.0
        return min(1.0, lines.count(b'{"kind":"epoch"') / job.settings.epochs)

    def _last_line(self, job: Job, code: int) -> str:
        lines = read_bounded(self.log(job), LARGEST).decode(errors="replace").strip().splitlines()
        message = lines[-1].removeprefix("error: ") if lines else f"it ended with the code {code}"
        return f"{message} (all of it in {self.log(job)})"


def _since(start: float) -> float:
    return time.monotonic() - start
