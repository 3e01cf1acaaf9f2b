"""Where the time of a run goes."""

import time
from typing import NamedTuple

KINDS = ("training", "waiting for views", "search", "looking", "saving")


class Pace(NamedTuple):
    """How fast an epoch goes."""

    images_per_second: float
    waiting: float  # share of the time that was spent waiting for views
    seconds: float


class Clock:
    """A clock that is read at the end of each kind of work; `seconds` adds up over resumed runs."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(KINDS, 0.0)
        self._mark = time.perf_counter()
        self._epoch = dict(self.seconds)

    def __call__(self, kind: str | None = None) -> float:
        """The time since the last call, which was spent on this kind of work."""
        now = time.perf_counter()
        spent, self._mark = now - self._mark, now
        if kind is not None:
            self.seconds[kind] += spent
        return spent

    def start_epoch(self) -> None:
        """Measure the pace from here on."""
        self._epoch = dict(self.seconds)

    def pace(self, images: int) -> Pace:
        """Of so many images since the epoch's start."""
        waited, trained = (self.seconds[kind] - self._epoch[kind] for kind in ("waiting for views", "training"))
        seconds = max(waited + trained, 1e-9)
        return Pace(images / seconds, waited / seconds, seconds)
