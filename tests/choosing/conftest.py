"""Choices in milliseconds, on forty images."""

import numpy as np
import pytest
from PIL import Image

from coviews import choose
from coviews.choosing.pilots import HitsByPilot
from coviews.comparison import workers
from made_up_pilots import Pilots


@pytest.fixture
def pilots(monkeypatch):
    made = Pilots()
    monkeypatch.setattr(workers.Workers, "_start", lambda self, job: made.start(self, job))
    monkeypatch.setattr(workers, "_LOOK", 0.0)
    monkeypatch.setattr(HitsByPilot, "of", lambda self, pilot: made.hits(self, pilot))
    monkeypatch.setattr(HitsByPilot, "agreements", lambda self, pilots: None)
    return made


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """Forty images in two class folders, of several sizes, in colour."""
    folder, rng = tmp_path_factory.mktemp("data") / "images", np.random.default_rng(0)
    for i in range(40):
        path = folder / "ab"[i % 2] / f"{i:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        size = (24 + i % 3, 20 + i % 5, 3)
        Image.fromarray(rng.integers(0, 256, size, np.uint8)).save(path)
    return folder


@pytest.fixture
def quick(images, tmp_path, pilots):
    """`choose` on those images, with pilots of 16 pixels; seven factors are free, so that little is computed."""

    def run(data=images, **changes):
        options = {
            "out": tmp_path / "choice", "size": 16, "pilots": 12, "epochs": 2, "jobs": 2, "progress": False,
            "matters": "tilt,blur,cutout", "keep": False,
        }  # fmt: skip
        return choose(data, **(options | changes))

    run.folder = tmp_path
    return run
