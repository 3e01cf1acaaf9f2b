"""The ranges of the numbers of a run's settings."""

import math
from typing import TYPE_CHECKING

from coviews.console.options import flag
from coviews.errors import CoviewsError
from coviews.ops.placement import AREA

if TYPE_CHECKING:
    from coviews.runs.settings import PretrainSettings

_LEAST = {
    "epochs": 1, "batch_size": 2, "warmup_epochs": 0, "queue_size": 1, "lr_warmup_epochs": 0, "hard_views": 2,
    "knn_every": 0, "keep_every": 0, "devices": 1, "num_nodes": 1, "seed": 0, "subset_seed": 0, "magnitude": 0,
    "size": 1, "threads": 1, "view_size": 1, "views_global": 1, "views_local": 0, "local_size": 1,
}  # fmt: skip


def check_numbers(settings: "PretrainSettings") -> None:
    """An error for a number that is out of its range."""
    for name, low in _LEAST.items():
        value = getattr(settings, name)
        if value is not None and (type(value) is not int or value < low):
            raise CoviewsError(f"{flag(name)} must be a whole number from {low}, not {value!r}")
    if max(settings.seed, settings.subset_seed) >= 2**63:
        raise CoviewsError("--seed must be below 2**63")
    if settings.magnitude > 30:
        raise CoviewsError(f"--magnitude must be 0 to 30, not {settings.magnitude}")
    if settings.channels not in (None, 1, 3):
        raise CoviewsError(f"--channels must be 1 for grey or 3 for colour, not {settings.channels!r}")
    if not 0 < settings.lr < math.inf:
        raise CoviewsError(f"--lr must be above 0, not {settings.lr}")
    for name in ("weight_decay", "save_every"):
        if not 0 <= getattr(settings, name) < math.inf:
            raise CoviewsError(f"{flag(name)} must be 0 or more, not {getattr(settings, name)}")
    if not 0 <= settings.sgd_momentum < 1:
        raise CoviewsError(f"--sgd-momentum must be from 0 to below 1, not {settings.sgd_momentum}")
    if not 0 < settings.queue_p < 1:
        raise CoviewsError(f"--queue-p must be between 0 and 1, not {settings.queue_p}")
    for name, example in (("crop_area", "0.2 1.0"), ("local_area", "0.05 0.4")):
        least, largest = getattr(settings, name) or AREA
        if not 0 < least <= largest <= 1:
            raise CoviewsError(f"{flag(name)} must be a range within 0..1, such as {example}, not {(least, largest)}")
    for name in ("flip", "flip_vertical", "quarter_turns"):
        if not 0 <= (getattr(settings, name) or 0.0) <= 1:
            raise CoviewsError(f"{flag(name)} is a probability in 0..1, not {getattr(settings, name)}")
