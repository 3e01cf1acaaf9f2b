"""Images of every kind that the exactness tests use, and trainings without a process of their own."""

import importlib
import sys

import numpy as np
import pytest

from ended_process import Done

CONTENTS = ("flat", "gradient", "noise", "photograph", "dark", "two colours")


def _photographs() -> list[np.ndarray]:
    from sklearn.datasets import load_sample_images

    return list(load_sample_images().images)


class Pictures:
    """Test images by content, height, width and channels."""

    def __init__(self) -> None:
        self.photographs = _photographs()

    def make(self, content: str, h: int, w: int, c: int, seed: int = 0) -> np.ndarray:
        rng = np.random.default_rng([seed, h, w, c, CONTENTS.index(content)])
        match content:
            case "flat":
                image = np.broadcast_to(rng.integers(0, 256, c), (h, w, c))
            case "gradient":
                ramp = np.linspace(0, 255, h)[:, None] * 0.4 + np.linspace(0, 255, w)[None] * 0.6
                image = ramp[..., None] * rng.uniform(0.5, 1, c)
            case "noise":
                image = rng.integers(0, 256, (h, w, c))
            case "photograph":
                photo = self.photographs[rng.integers(len(self.photographs))]
                y, x = rng.integers(0, photo.shape[0] - h), rng.integers(0, photo.shape[1] - w)
                image = photo[y : y + h, x : x + w, :c]
            case "dark":
                image = rng.integers(0, 9, (h, w, c))
            case "two colours":
                one, other = rng.integers(0, 256, (2, c))
                image = np.where(rng.random((h, w, 1)) < 0.3, one, other)
            case _:
                raise AssertionError(content)
        return np.ascontiguousarray(image).astype(np.uint8)


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
