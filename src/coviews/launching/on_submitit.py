"""Trainings as jobs of submitit: under SLURM, or as processes of this machine to try it."""

import contextlib
import dataclasses
import importlib.util
import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coviews.errors import CoviewsError, unknown
from coviews.launching.attendance import Attendance
from coviews.launching.far_training import Submit, far_trainings
from coviews.launching.options import option
from coviews.launching.task import Task, Training, unheard_by_children

if TYPE_CHECKING:
    import submitit

EXECUTORS = ("slurm", "local")
_RESTARTS = 1000  # after the time limit of a job; a training goes on where it was


@dataclass(frozen=True)
class SubmititLauncher:
    """Submits each training as a job."""

    executor: str = option("slurm", "`slurm`, or `local` for processes of this machine, to try it")
    partition: str | None = option(None, "as for sbatch")
    account: str | None = option(None, "as for sbatch")
    qos: str | None = option(None, "as for sbatch")
    constraint: str | None = option(None, "as for sbatch")
    timeout_min: int = option(240, "minutes of a job; a run that takes longer saves, is queued again and goes on", 1)
    signal_delay_s: int = option(120, "seconds before the end of a job at which its run saves", 1)
    cpus_per_task: int = option(1, "cores of a run", 1)
    gpus_per_node: int = option(0, "GPUs of a run", 0)
    mem_gb: float | None = option(None, "memory of a run", 0.1)

    def __post_init__(self) -> None:
        if self.executor not in EXECUTORS:
            raise unknown("executor", self.executor, EXECUTORS)
        if 60 * self.timeout_min <= self.signal_delay_s:
            raise CoviewsError("--launcher-options: timeout_min must be longer than signal_delay_s")

    def check(self) -> None:
        """An error if it cannot work here."""
        if importlib.util.find_spec("submitit") is None:
            raise CoviewsError("--launcher submitit needs submitit: pip install 'coviews[submitit]'")
        if self.executor == "slurm" and (missing := [c for c in ("sbatch", "srun") if shutil.which(c) is None]):
            raise CoviewsError(
                f"--launcher submitit needs SLURM, and there is no {missing[0]} here: run it on a machine that "
                "submits jobs, or try it with --launcher-options executor=local"
            )

    def threads(self, at_once: int) -> int:
        """Of each training."""
        return self.cpus_per_task

    def opened(self, folder: Path) -> contextlib.AbstractContextManager[Callable[[Task], Training]]:
        """What starts trainings, for a comparison or a choice in a folder."""
        return far_trainings(folder, self._connected)

    @contextlib.contextmanager
    def _connected(self, folder: Path) -> Iterator[Submit]:
        import submitit

        logging.getLogger("submitit").setLevel(logging.ERROR)  # what is wrong is said by us
        executor = submitit.AutoExecutor(folder / "submitit", cluster=self.executor, slurm_max_num_timeout=_RESTARTS)
        executor.update_parameters(**self._parameters())

        def submit(attendance: Attendance) -> SubmittedJob:
            executor.update_parameters(name=attendance.task.name)
            try:
                with unheard_by_children("SIGINT" if self.executor == "local" else ""):  # Ctrl-C is for the command
                    return SubmittedJob(executor.submit(Submission(attendance)))
            except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError, OSError) as error:
                raise CoviewsError(f"cannot submit a job: {_last_line(error)}") from error

        yield submit

    def _parameters(self) -> dict[str, Any]:
        shared = ("timeout_min", "cpus_per_task", "gpus_per_node", "mem_gb")
        values = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        if self.executor == "local":
            return {name: values[name] for name in shared if name in values}
        if not self.gpus_per_node:
            del values["gpus_per_node"]  # a cluster without GPUs may not know the option
        return {name if name in shared else f"slurm_{name}": v for name, v in values.items() if name != "executor"}


class Submission:
    """What a job calls; at its time limit, or where its machine is needed, it is queued again."""

    def __init__(self, attendance: Attendance) -> None:
        self.attendance = attendance

    def __call__(self) -> None:
        """Train; the state file says how it ended."""
        self.attendance.attend()

    def checkpoint(self) -> "submitit.helpers.DelayedSubmission":
        """Save, and say what is to be queued."""
        from submitit.helpers import DelayedSubmission

        self.attendance.stop()
        return DelayedSubmission(Submission(dataclasses.replace(self.attendance)))


class SubmittedJob:
    """A job of submitit. Its pickled result is never read: the state file says how the training ended."""

    def __init__(self, job: "submitit.Job[None]") -> None:
        self.job = job

    def ended(self) -> bool:
        """Whether it is over, however it ended."""
        return bool(self.job.done())

    def cancel(self) -> None:
        """End it at once, or take it out of the queue."""
        self.job.cancel(check=False)

    def reason(self) -> str:
        """Why it ended without a result."""
        return f"the job {self.job.job_id} ended without a result ({self.job.state}); see {self.job.paths.stderr}"


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
