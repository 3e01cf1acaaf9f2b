"""The trainings of a comparison in this process: starting one takes longer than a small training."""

import contextlib
import importlib

from coviews import CoviewsError
from coviews.comparison import workers
from ended_process import Done


def train_here(patch=setattr) -> list[str]:
    """Let comparisons and choices train in this process; gives the names of the trainings that are done."""
    done: list[str] = []

    def start(self, job):
        folder, log = self.run_folder(job), self.log(job)
        log.parent.mkdir(parents=True, exist_ok=True)
        module = importlib.import_module(self.module)
        work = module.train_and_look if "pilot" in self.module else module.train_and_judge
        try:
            work(folder, job.settings.replaced(out=folder, threads=self.threads), dict(job.evaluation))
            code = 0
        except CoviewsError as error:
            with contextlib.suppress(OSError):  # a full disk; the log of a process would be empty then
                log.write_text(f"error: {error}\n")
            code = 2
        done.append(job.name)
        self._running[job.name] = Done(code)

    patch(workers.Workers, "_start", start)
    patch(workers, "_LOOK", 0.0)
    return done
