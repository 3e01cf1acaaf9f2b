"""`coviews compare` and `coviews reproduce`: which views are better, on your images and in the paper's tables."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coviews.cli.settings import MethodName, SearchName, starting_settings
from coviews.comparison.options import CompareOptions, ReproduceName, ReproduceOptions
from coviews.console.options import MaybePath
from coviews.runs.settings import PretrainSettings


@dataclass(frozen=True)
class SharedSettings(PretrainSettings):
    """What all runs of a comparison share: all of a run's settings but its views."""

    views: tyro.conf.Suppress[tyro.conf.Fixed[str]] = "coviews"
    out: tyro.conf.Suppress[tyro.conf.Fixed[Path | None]] = None

    @classmethod
    def of(cls, settings: PretrainSettings) -> "SharedSettings":
        """Settings that options start from."""
        return cls(**{f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)})

    def _check_limits(self) -> None:
        """Whether the limits fit is a question of the views, which are not known yet."""

    @property
    def plain(self) -> PretrainSettings:
        """As `pretrain` takes them; the views of each run take the place of these."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(PretrainSettings)}
        return PretrainSettings(**{**values, "views": "recipe" if self.ignores else self.views})


def compare_command(
    settings: Annotated[SharedSettings, tyro.conf.arg(name="")],
    options: Annotated[CompareOptions, tyro.conf.arg(name="")],
    *,
    method: MethodName = None,
    search: SearchName = None,
    preset: str | None = None,
    config: MaybePath = None,
) -> None:
    """Train with several view sources, and say which is best.

    All have the same budget and are judged in the same way. If interrupted, the same command continues; view sources
    and seeds can be added later.

    Args:
        settings: What is trained.
        options: What is compared.
        method: What learns from the views.
        search: How views are learned.
        preset: Named settings, as for pretrain; the other options change them.
        config: A YAML file of settings, as for pretrain.
    """
    from coviews.comparison.compare import compare as run
    from coviews.comparison.compare import failure

    comparison = run(settings=settings.plain, options=options)
    if options.dry_run:
        return
    _show(comparison)
    print(f"\nwrote {options.out / 'comparison.html'} and {options.out / 'results.json'}")
    if comparison.failed:
        raise failure(comparison.failed)


def reproduce_command(
    options: Annotated[ReproduceOptions, tyro.conf.arg(name="")],
    name: ReproduceName = "",
    *,
    list: bool = False,
) -> None:
    """Repeat a table or figure of the paper.

    If interrupted, the same command continues.

    Args:
        options: Which part, on which data, at which scale.
        name: Which one, such as table-less-data.
        list: Only name all tables and figures.
    """
    from coviews.comparison.compare import failure
    from coviews.comparison.paper_tables import RECIPES
    from coviews.comparison.reproduce import reproduce as make

    if list or not name:
        width = max(map(len, RECIPES))
        for recipe in RECIPES.values():
            print(f"{recipe.name:<{width}}  {recipe.about}")
        return
    reproduction = make(name, options=options)
    if options.dry_run:
        return
    _show(reproduction)
    for path in reproduction.written:
        print(f"wrote {path}")
    if reproduction.comparison is not None and reproduction.comparison.failed:
        raise failure(reproduction.comparison.failed)


def _show(result: object) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if console.is_terminal:
        console.print(result)
    else:
        print(result)


starting_options = {"compare": lambda arguments: SharedSettings.of(starting_settings(arguments))}
