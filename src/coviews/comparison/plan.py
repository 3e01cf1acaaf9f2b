"""What is compared: variants of one training, each with the same seeds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coviews.boundary.yaml_text import read_yaml
from coviews.errors import CoviewsError
from coviews.policies.fixed import FIXED
from coviews.policies.named import is_policy_file
from coviews.policies.tilted import COOPERATIVE
from coviews.runs.settings import FROM_PYTHON, PretrainSettings
from coviews.runs.settings_file import changed_settings
from coviews.runs.view_names import CHOOSE
from coviews.searching.known import SEARCHES

VIEWS = ("simclr", "random", "uniform", "randaugment", "hardviews", "indepviews", "coviews")


@dataclass(frozen=True)
class Job:
    """One training: a variant with one seed."""

    variant: str
    settings: PretrainSettings
    evaluation: Mapping[str, Any]  # options of `evaluate`

    @property
    def seed(self) -> int:
        """Of the training."""
        return self.settings.seed

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{folder_name(self.variant)}-{self.seed}"


@dataclass(frozen=True)
class Plan:
    """Variants by name, in the order in which they are shown, and the seeds that each is trained with."""

    variants: Mapping[str, PretrainSettings]
    seeds: tuple[int, ...]
    evaluation: Mapping[str, Any] = field(default_factory=dict)  # options of `evaluate`, for all
    judged_on: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # data for it, by variant

    def __post_init__(self) -> None:
        if not self.variants:
            raise CoviewsError("there is nothing to compare: name some view sources")
        if not self.seeds:
            raise CoviewsError("--seeds must be 1 or more")
        folders = [folder_name(name) for name in self.variants]
        if len(set(folders)) < len(folders):
            twice = next(name for name in folders if folders.count(name) > 1)
            raise CoviewsError(f"two of what is to be compared would share the folder {twice!r}")
        for settings in self.variants.values():
            if settings.data.startswith(FROM_PYTHON):
                raise CoviewsError("a comparison needs data by name: a folder, a file or a known set")
            if settings.stream:
                raise CoviewsError("a comparison judges by all images: leave out --stream, or give a --subset instead")
            if settings.views == CHOOSE:
                raise CoviewsError("choose views first, with coviews choose, and compare the file that it writes")

    @property
    def jobs(self) -> list[Job]:
        """All trainings, the first seed of every variant first: so there is something to see early."""
        return [
            Job(name, settings.replaced(seed=seed), {**self.evaluation, **self.judged_on.get(name, {})})
            for seed in self.seeds
            for name, settings in self.variants.items()
        ]


def view_variants(settings: PretrainSettings, views: Sequence[str]) -> dict[str, PretrainSettings]:
    """A variant for each view source; `randaugment:15` has the magnitude 15, `coviews:ppo` is learned by ppo."""
    variants: dict[str, PretrainSettings] = {}
    for name in views:
        called = Path(name).stem if is_policy_file(name) or name.endswith((".yaml", ".yml")) else name
        if called in variants:
            raise CoviewsError(f"{called} is named twice in --views")
        variants[called] = changed_settings(settings, _changes(name))
    return variants


def named_variants(settings: PretrainSettings, variants: Mapping[str, Any], where: str) -> dict[str, PretrainSettings]:
    """A variant for each name, with its own settings in place of the shared ones."""
    by_name = {}
    for name, changes in variants.items():
        if not isinstance(changes, Mapping):
            raise CoviewsError(f"{where}: {name} must be a mapping of settings to values, not {changes!r}")
        for taken in ("seed", "out"):
            if taken in changes:
                raise CoviewsError(f"{where}: {name} has a {taken} of its own, but the comparison chooses that")
        try:
            by_name[str(name)] = changed_settings(settings, changes)
        except CoviewsError as error:
            raise CoviewsError(f"{where}: {name}: {error}") from error
    return by_name


def read_variants(path: str | Path) -> dict[str, Any]:
    """Names and their settings from a YAML file."""
    content: dict[str, Any] | None = read_yaml(path, dict[str, Any] | None)  # type: ignore[arg-type]
    if not content:
        raise CoviewsError(
            f"{path} must hold names, each with settings, such as 'mild: {{views: simclr, flip: false}}'"
        )
    return content


def _changes(name: str) -> dict[str, Any]:
    kind, _, how = name.partition(":")
    if not how or name in FIXED:
        return {"views": name}
    if kind == "randaugment" and how.isascii() and how.isdecimal():
        return {"views": kind, "magnitude": int(how)}
    if kind in COOPERATIVE and how in SEARCHES:
        return {"views": kind, "search": how}
    raise CoviewsError(
        f"{name!r} is no view source: only {', '.join(n for n in FIXED if ':' in n)}, randaugment:15 and "
        f"coviews:{'|'.join(SEARCHES)} have a second part"
    )


def folder_name(variant: str) -> str:
    """A variant's name as part of a path."""
    return re.sub(r"[^\w%+.=-]+", "-", variant).strip("-.") or "variant"
