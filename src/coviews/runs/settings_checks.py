"""Checks of a run's settings: ranges of numbers, and choices that do not go together."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from coviews.console.options import flag
from coviews.data.request import check_channels, check_depth_and_frames
from coviews.data.shown_channels import check_shown
from coviews.errors import CoviewsError, unknown
from coviews.methods.known import METHODS
from coviews.methods.view_networks import VIEW_NETWORKS
from coviews.ops.images import LARGEST
from coviews.ops.placement import AREA, CROPS
from coviews.ops.plan import LARGEST_VIEW
from coviews.ops.space import SPACES
from coviews.ops.view_settings import OUTSIDE
from coviews.policies.factors import FAMILIES, is_family, named_family
from coviews.policies.files import MOST_STEPS
from coviews.policies.fixed import FIXED, takes_option
from coviews.policies.named import PLAIN, is_policy_file
from coviews.runs.view_names import CHOSEN_FIRST
from coviews.searching.known import SEARCHES
from coviews.searching.settings import SearchSettings

if TYPE_CHECKING:
    from coviews.runs.settings import PretrainSettings

ACCELERATORS, PRECISIONS = ("auto", "cpu", "cuda", "mps"), ("auto", "32-true", "16-mixed", "bf16-mixed")
_MANY = 1_000_000


class OptimizerDefaults(NamedTuple):
    """What an optimiser has where nothing else is chosen."""

    lr: float  # for 256 images
    weight_decay: float


# SGD as in CoViews, LARS as in SimCLR, AdamW as vision transformers are mostly trained
OPTIMIZERS = {
    "sgd": OptimizerDefaults(0.03, 5e-4),
    "lars": OptimizerDefaults(0.3, 1e-6),
    "adamw": OptimizerDefaults(5e-4, 0.05),
}
# the least and the largest value of each whole number
_RANGES = {
    "epochs": (1, _MANY), "batch_size": (2, _MANY), "warmup_epochs": (0, _MANY), "queue_size": (1, 1000),
    "lr_warmup_epochs": (0, _MANY), "hard_views": (2, 64), "hard_crops": (0, 1024), "knn_every": (0, _MANY),
    "keep_every": (0, _MANY), "devices": (1, 1024), "num_nodes": (1, 100_000), "seed": (0, 2**63 - 1),
    "subset_seed": (0, 2**63 - 1), "magnitude": (0, 30), "size": (1, LARGEST), "threads": (1, 4096),
    "view_size": (1, LARGEST_VIEW), "views_global": (1, 64), "views_local": (0, 64), "local_size": (1, LARGEST_VIEW),
    "max_pixels": (1, 10**10), "max_side": (1, LARGEST), "accumulate": (1, _MANY),
    "stream_buffer": (1, 10**9), "infomin_labels": (0, _MANY),
    "randaugment_steps": (1, MOST_STEPS),
}  # fmt: skip
_LARGEST_LR = 1e4
_LARGEST_DECAY = 1e4
_LONGEST = 1e9  # seconds


def check_names(settings: "PretrainSettings") -> None:
    """An error for a name that does not exist."""
    for name, value, valid in (
        ("space", settings.space_name, SPACES),
        ("crop", settings.crop or CROPS[0], CROPS),
        ("fill", settings.fill, OUTSIDE),
        ("accelerator", settings.accelerator, ACCELERATORS),
        ("precision", settings.precision, PRECISIONS),
        ("optimizer", settings.optimizer, OPTIMIZERS),
    ):
        if value not in valid:
            raise unknown(name, value, valid)


def check_numbers(settings: "PretrainSettings") -> None:
    """An error for a number that is out of its range."""
    for name, (low, high) in _RANGES.items():
        value = getattr(settings, name)
        if value is not None and (type(value) is not int or not low <= value <= high):
            raise CoviewsError(f"{flag(name)} must be a whole number from {low} to {high}, not {value!r}")
    if settings.view_size is None and (settings.size or 0) > LARGEST_VIEW:
        raise CoviewsError(
            f"views have at most {LARGEST_VIEW} pixels a side: give --view-size for images of that --size"
        )
    devices = settings.devices * settings.num_nodes
    if settings.batch_size % devices:
        raise CoviewsError(f"--batch-size {settings.batch_size} cannot be shared evenly among {devices} devices")
    check_channels(settings.channels)
    check_depth_and_frames(settings.depth, settings.frames)
    check_shown(settings.show_channels)
    if settings.lr is not None and not 0 < settings.lr <= _LARGEST_LR:
        raise CoviewsError(f"--lr must be above 0 and at most {_LARGEST_LR:g}, not {settings.lr}")
    for name, most in (("weight_decay", _LARGEST_DECAY), ("save_every", _LONGEST)):
        value = getattr(settings, name)
        if value is not None and not 0 <= value <= most:
            raise CoviewsError(f"{flag(name)} must be from 0 to {most:g}, not {value}")
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


def check_choices(settings: "PretrainSettings") -> None:
    """An error for views, hard views, a viewmaker or a search that do not go with the other choices."""
    if settings.stream and settings.frames == "each":
        raise CoviewsError("--frames each has to open all files first, which --stream does not: leave one of them out")
    if settings.stream and settings.views in CHOSEN_FIRST:
        raise CoviewsError(
            f"--views {settings.views} looks at all images first, which --stream does not: choose views with a part of "
            "them, and train with those"
        )
    _check_views(settings)
    _check_hard_views(settings)
    _check_viewmaker(settings)
    if settings.learns_views:
        _check_search(settings)


def _check_views(settings: "PretrainSettings") -> None:
    """An error for views, or numbers of them, that the views or the method cannot have."""
    placement = settings.placement
    if settings.method.needs_upright_views and (placement.flip_vertical or placement.quarter_turns):
        raise CoviewsError(
            f"{settings.method.name} learns where up is, and --flip-vertical, --quarter-turns or --views turn the "
            "views: give --flip-vertical 0 --quarter-turns 0, or another --method"
        )
    if (settings.views_global, settings.views_local) == (2, 0):
        return
    if settings.view_count < 2:
        raise CoviewsError("there must be two views of each image or more: raise --views-global or --views-local")
    pairs_only = settings.learns_views or settings.views == "hardviews"
    base = settings.base_views
    if pairs_only or (base not in FIXED and settings.family is None and not base.endswith(PLAIN)):
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


def check_limits(settings: "PretrainSettings", placement: Iterable[str]) -> None:
    """An error for limits that the views cannot have; `placement` names the options that place views."""
    limits = settings.limits
    if not limits:
        return
    limits.check(settings.views, settings.family, {name: getattr(settings, name) for name in placement})
    if settings.views_local and limits.locks.get("crop") is False:
        raise CoviewsError("local views are parts of the image, which --matters excludes: leave out --views-local")
    if not is_policy_file(settings.views):
        source = settings.first_source() if settings.learns_views else settings.named_source(settings.base_views)
        limits.check_family(source, settings.placement)


def _check_hard_views(settings: "PretrainSettings") -> None:
    """An error for hard views that cannot be chosen."""
    _check_source("hard_source", settings.hard_source)
    if settings.hard_crops and settings.hard_crops <= settings.hard_views:
        raise CoviewsError(
            f"--hard-crops {settings.hard_crops} must be more than --hard-views {settings.hard_views}, which are "
            "chosen among them; 0 for no choice by crops"
        )
    if not 0 < settings.hard_scale <= 1:
        raise CoviewsError(f"--hard-scale must be above 0 and at most 1, not {settings.hard_scale}")
    if settings.views != "hardviews" or settings.hard_views > 2:
        return
    more = "give --hard-views 4, so that the encoder chooses among four views"
    if not settings.hard_crops:
        raise CoviewsError(f"with --hard-crops 0 and --hard-views 2 there is nothing to choose from: {more}")
    if settings.hard_scale != 1:
        raise CoviewsError(f"--hard-scale is for views that pass the encoder, and --hard-views 2 means none: {more}")
    if settings.placement.crop == "none":
        raise CoviewsError(f"hard views are chosen by their crops, and these views have none: {more}")


def _check_viewmaker(settings: "PretrainSettings") -> None:
    """An error for a viewmaker that cannot be trained."""
    _check_source("viewmaker_source", settings.viewmaker_source)
    if not 0 < settings.viewmaker_budget <= 1:
        raise CoviewsError(f"--viewmaker-budget must be above 0 and at most 1, not {settings.viewmaker_budget}")
    if not 0 <= settings.viewmaker_lr <= _LARGEST_LR:
        raise CoviewsError(f"--viewmaker-lr must be from 0 to {_LARGEST_LR:g}, not {settings.viewmaker_lr}")
    if settings.infomin_labels and settings.views != "infomin-flow":
        raise CoviewsError(f"--infomin-labels is an option of --views infomin-flow, not of {settings.views}")
    if settings.views in VIEW_NETWORKS and settings.precision == "16-mixed":
        raise CoviewsError(f"--views {settings.views} works with --precision 32-true or bf16-mixed, not 16-mixed")


def _check_source(option: str, name: str) -> None:
    """An error if views that others are made from are neither fixed nor a family."""
    if name not in FIXED:
        if not is_family(name):
            raise unknown(f"view source for {option}", name, [*FIXED, *FAMILIES])
        named_family(name)


def _check_search(settings: "PretrainSettings") -> None:
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
