"""What is compared: variants of one training, each with the same seeds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coviews.config import FROM_PYTHON, PretrainSettings
from coviews.errors import CoviewsError

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

    @property
    def jobs(self) -> list[Job]:
        """All trainings, the first seed of every variant first: so there is something to see early."""
        return [
            Job(name, settings.replaced(seed=seed), {**self.evaluation, **self.judged_on.get(name, {})})
            for seed in self.seeds
            for name, settings in self.variants.items()
        ]


def view_variants(settings: PretrainSettings, views: Sequence[str]) -> dict[str, PretrainSettings]:
    """A variant for each view source; `randaugment:15` is RandAugment with the magnitude 15."""
    found: dict[str, PretrainSettings] = {}
    for name in views:
        if name in found:
            raise CoviewsError(f"{name} is named twice in --views")
        kind, _, strength = name.partition(":")
        if strength and (kind != "randaugment" or not strength.isascii() or not strength.isdecimal()):
            raise CoviewsError(f"only RandAugment has a magnitude, written as randaugment:15, not {name!r}")
        changes = {"magnitude": int(strength)} if strength else {}
        called = Path(name).stem if name.endswith(".safetensors") else name
        found[called] = settings.replaced(views=kind, **changes)
    return found


def folder_name(variant: str) -> str:
    """A variant's name as part of a path."""
    return re.sub(r"[^\w%+.=-]+", "-", variant).strip("-.") or "variant"
