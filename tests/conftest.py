"""Images for the exactness tests, and trainings without a process of their own."""

import importlib
import sys

import pytest

from ended_process import Done
from made_up_images import Pictures


@pytest.fixture(autouse=True)
def one_thread():
    """Torch computes on one thread wherever it is loaded: nothing in the tests is large, and results are repeatable."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() > 1:
        torch.set_num_threads(1)


@pytest.fixture(scope="session")
def pictures() -> Pictures:
    return Pictures()


@pytest.fixture
def here(monkeypatch):
    """Trainings in this process: starting one takes longer than such a training. Gives the names of those done."""
    from coviews import CoviewsError
    from coviews.comparison import workers

    done = []

    def start(self, job):
        folder, log = self.run_folder(job), self.log(job)
        log.parent.mkdir(parents=True, exist_ok=True)
        module = importlib.import_module(self.module)
        work = module.train_and_look if "pilot" in self.module else module.train_and_judge
        try:
            work(folder, job.settings.replaced(out=folder, threads=self.threads), dict(job.evaluation))
            code = 0
        except CoviewsError as error:
            log.write_text(f"error: {error}\n")
            code = 2
        done.append(job.name)
        self._running[job.name] = Done(code)

    monkeypatch.setattr(workers.Workers, "_start", start)
    monkeypatch.setattr(workers, "_LOOK", 0.0)
    return done
