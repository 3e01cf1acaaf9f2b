"""Checks of a run's settings: ranges of numbers, and choices that do not go together."""

import math
from typing import TYPE_CHECKING

from coviews.console.options import flag
from coviews.data.request import check_channels, check_depth_and_frames
from coviews.data.shown_channels import check_shown
from coviews.errors import CoviewsError
from coviews.methods.known import METHODS
from coviews.ops.placement import AREA
from coviews.policies.fixed import FIXED, takes_option
from coviews.searching.known import SEARCHES
from coviews.searching.settings import SearchSettings

if TYPE_CHECKING:
    from coviews.runs.settings import PretrainSettings

_LEAST = {
    "epochs": 1, "batch_size": 2, "warmup_epochs": 0, "queue_size": 1, "lr_warmup_epochs": 0, "hard_views": 2,
    "knn_every": 0, "keep_every": 0, "devices": 1, "num_nodes": 1, "seed": 0, "subset_seed": 0, "magnitude": 0,
    "size": 1, "max_size": 1, "threads": 1, "view_size": 1, "views_global": 1, "views_local": 0, "local_size": 1,
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
    check_channels(settings.channels)
    check_depth_and_frames(settings.depth, settings.frames)
    check_shown(settings.show_channels)
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


def check_views(settings: "PretrainSettings") -> None:
    """An error for numbers of views that the views or the method cannot have."""
    if (settings.views_global, settings.views_local) == (2, 0):
        return
    if settings.view_count < 2:
        raise CoviewsError("there must be two views of each image or more: raise --views-global or --views-local")
    if settings.learns_views or (settings.views not in FIXED and settings.family is None):
        learned = "hardviews chooses" if settings.views == "hardviews" else "learned views are"
        raise CoviewsError(
            f"{learned} pairs: use --views {', '.join(FIXED)}, or leave out --views-global and --views-local"
        )
    if not settings.method.takes_many_views:
        able = [name for name, method in METHODS.items() if method.settings_type.takes_many_views]
        raise CoviewsError(
            f"{settings.method.name} learns from two views of each image: use --method {' or '.join(able)}, or leave "
            "out --views-global and --views-local"
        )


def check_search(settings: "PretrainSettings") -> None:
    """An error for a search that does not go with the other choices."""
    settings.search.check()
    first = settings.search.first_source
    if not takes_option(first, "space_name") and settings.space not in (None, settings.space_name):
        raise CoviewsError(
            f"{first} views have operations of their own, not those of --space {settings.space}: "
            "leave out --space or --search.prior"
        )
    if not takes_option(first, "steps") and settings.search.steps != SearchSettings.steps:
        raise CoviewsError(f"{first} views have steps of their own: leave out --search.steps")
    if settings.search.reads_training_losses and not settings.method.reveals_hardness:
        usable = [name for name, search in SEARCHES.items() if not search.settings_type.reads_training_losses]
        methods = [name for name, method in METHODS.items() if method.settings_type.reveals_hardness]
        raise CoviewsError(
            f"--search {settings.search.name} learns from training's own losses, and those of {settings.method.name} "
            f"do not reveal how hard a pair is: use --search {' or '.join(usable)}, or --method {' or '.join(methods)}"
        )
    if settings.epochs <= settings.warmup:
        raise CoviewsError(
            f"{settings.epochs} epochs with {settings.warmup} of warm-up leave none for a search: "
            "give more --epochs or fewer --warmup-epochs"
        )
