"""Images for the exactness tests, and trainings without a process of their own."""

import sys

import pytest

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
    from trainings_here import train_here

    return train_here(monkeypatch.setattr)
