"""Where the numbers of a run go besides its metrics file: TensorBoard, and trackers of others if asked for."""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from coviews.errors import CoviewsError
from coviews.files.atomic import writing
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import settings_yaml

_ADVICE = "make room, or continue with --no-tensorboard"
TRACKERS = ("wandb", "trackio")


def check_trackers(settings: PretrainSettings) -> None:
    """Whether all that are asked for are installed: seen before anything is made or replaced."""
    for name in TRACKERS:
        if getattr(settings, name) and importlib.util.find_spec(name) is None:
            raise CoviewsError(f"--{name} needs the package {name}: pip install {name}")


class Trackers:
    """Sends named numbers to every tracker that was asked for; to none without settings."""

    def __init__(self, settings: PretrainSettings | None, run: Path, *, from_epoch: int = 0) -> None:
        self._board: Any = None
        self._folder = run / "tensorboard"
        self._trackers: list[Any] = []
        if settings is None:
            return
        if settings.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            # what a killed run wrote beyond its checkpoint is hidden
            with writing(self._folder, _ADVICE):
                self._board = SummaryWriter(str(self._folder), purge_step=from_epoch or None)
        for name in TRACKERS:
            if getattr(settings, name):
                tracker = importlib.import_module(name)
                tracker.init(project="coviews", name=run.name, config={"settings": settings_yaml(settings)})
                self._trackers.append(tracker)

    def __call__(self, numbers: dict[str, float], epoch: int) -> None:
        """Log numbers at an epoch."""
        if self._board is not None:
            with writing(self._folder, _ADVICE):
                for name, value in numbers.items():
                    self._board.add_scalar(name, value, epoch)
        for tracker in self._trackers:
            tracker.log(numbers, step=epoch)

    def close(self) -> None:
        """Write out what is still in memory."""
        if self._board is not None:
            with writing(self._folder, _ADVICE):
                self._board.close()
        for tracker in self._trackers:
            tracker.finish()
