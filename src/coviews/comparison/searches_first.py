"""Searches for views that are made before a training, by name, and how long they will take."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from coviews.comparison.pilot_folder import pilot_epochs
from coviews.comparison.population import MEMBERS, population_augment
from coviews.comparison.self_augment import FOLDS, MOST_IMAGES, REPEATS, TRIALS, self_augment
from coviews.comparison.self_randaugment import MAGNITUDES, STEPS, self_randaugment
from coviews.evaluation.turns import TURNS
from coviews.runs.folder import CHOICE
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import read_settings
from coviews.runs.view_names import POPULATION, SELF_AUGMENT, SELF_RANDAUGMENT

SEARCHES: dict[str, Callable[..., Any]] = {
    SELF_RANDAUGMENT: self_randaugment, SELF_AUGMENT: self_augment, POPULATION: population_augment
}  # fmt: skip
# pilots that each trains, on all images: SelfAugment's are trained on all folds but one
_PILOTS = {SELF_RANDAUGMENT: len(STEPS) * len(MAGNITUDES), SELF_AUGMENT: FOLDS - 1, POPULATION: MEMBERS}
_PASSES = TURNS + 2  # of an image through the encoder, in a trial of SelfAugment


def search_first(settings: PretrainSettings, run: Path, *, progress: bool = True, **figures: Any) -> PretrainSettings:
    """The settings of a run with the views that its search finds, in its folder; goes on where it was stopped."""
    found = SEARCHES[settings.views](settings, run / CHOICE, progress=progress, **figures)
    print(found.sentence, flush=True)
    chosen: PretrainSettings = found.settings
    return chosen


def with_views_of(run: Path, settings: PretrainSettings) -> PretrainSettings:
    """The settings with the views that the search of a run has found."""
    begun = read_settings(run / "config.yaml")
    return settings.replaced(
        views=begun.views, magnitude=begun.magnitude, randaugment_steps=begun.randaugment_steps
    )  # fmt: skip


def expected_search_seconds(settings: PretrainSettings, training: float, passing: float, images: int) -> float:
    """A rough estimate of the seconds of the search before a run, if there is one.

    Args:
        settings: of the run.
        training: the seconds of the training that follows.
        passing: the seconds of an image that passes the encoder.
        images: how many there are.
    """
    pilots = _PILOTS.get(settings.views, 0) * training * pilot_epochs(settings) / settings.epochs
    if settings.views != SELF_AUGMENT:
        return pilots
    return pilots + FOLDS * REPEATS * TRIALS * _PASSES * min(images // FOLDS, MOST_IMAGES) * passing
