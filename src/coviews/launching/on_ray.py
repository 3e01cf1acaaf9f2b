"""Trainings as tasks of a Ray cluster."""

import contextlib
import importlib.util
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coviews.errors import CoviewsError
from coviews.launching.attendance import Attendance
from coviews.launching.far_training import Submit, far_trainings
from coviews.launching.options import option
from coviews.launching.task import Task, Training

_STORE = 100 * 2**20  # bytes of the object store, which is not used, of a cluster that is started here


@dataclass(frozen=True)
class RayLauncher:
    """Runs each training as a task of a Ray cluster."""

    address: str | None = option(
        None, "such as `10.0.0.1:6379`; by default `RAY_ADDRESS`, or the cluster of this machine, or a new one there"
    )
    num_cpus: int = option(1, "cores of a run", 1)
    num_gpus: float = option(0.0, "GPUs of a run; 0.5 lets two runs share one", 0)

    def check(self) -> None:
        """An error if it cannot work here."""
        if importlib.util.find_spec("ray") is None:
            raise CoviewsError("--launcher ray needs Ray: pip install 'coviews[ray]'")

    def threads(self, at_once: int) -> int:
        """Of each training."""
        return self.num_cpus

    def opened(self, folder: Path) -> contextlib.AbstractContextManager[Callable[[Task], Training]]:
        """What starts trainings, for a comparison or a choice in a folder."""
        return far_trainings(folder, self._connected)

    @contextlib.contextmanager
    def _connected(self, folder: Path) -> Iterator[Submit]:
        import ray

        ours = not ray.is_initialized()
        if ours:
            self._connect()
        try:
            has = ray.cluster_resources()
            for name, wanted in (("CPU", self.num_cpus), ("GPU", self.num_gpus)):
                if wanted > has.get(name, 0):
                    text = f"the Ray cluster has {has.get(name, 0):g} {name}s now, and a run asks for {wanted:g}"
                    warnings.warn(f"{text}: it waits until there are more", stacklevel=2)
            remote = ray.remote(num_cpus=self.num_cpus, num_gpus=self.num_gpus, max_retries=0)(_attend)
            yield lambda attendance: RayTask(remote.options(name=attendance.task.name).remote(attendance))
        finally:
            if ours:
                ray.shutdown()

    def _connect(self) -> None:
        import ray

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            ray.init(address=self.address or "auto", **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            if self.address is not None or os.environ.get("RAY_ADDRESS"):
                where = self.address or os.environ["RAY_ADDRESS"]
                raise CoviewsError(f"cannot connect to the Ray cluster at {where}: {_first_line(error)}") from error
            ray.init(address="local", include_dashboard=False, object_store_memory=_STORE, **quiet)


def _attend(attendance: Attendance) -> None:
    attendance.attend()


class RayTask:
    """A task of Ray."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference

    def ended(self) -> bool:
        """Whether it is over, however it ended."""
        import ray

        return bool(ray.wait([self.reference], timeout=0)[0])

    def cancel(self) -> None:
        """End it at once, or take it out of the queue."""
        import ray

        ray.cancel(self.reference, force=True)

    def reason(self) -> str:
        """Why it ended without a result."""
        import ray

        try:
            ray.get(self.reference, timeout=0)
        except ray.exceptions.RayError as error:
            return f"the task of Ray ended without a result: {_first_line(error)}"
        return "the task of Ray ended without a result"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
