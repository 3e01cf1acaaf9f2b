"""`coviews compare` and `coviews reproduce`: which views are better, on your images and in the paper's tables."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coviews.console.options import Data, Int, MaybePath, Text
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

    @property
    def plain(self) -> PretrainSettings:
        """As `pretrain` takes them."""
        return PretrainSettings(**{f.name: getattr(self, f.name) for f in dataclasses.fields(PretrainSettings)})


def compare(
    settings: Annotated[SharedSettings, tyro.conf.arg(name="")],
    *,
    views: Text = None,
    variants: MaybePath = None,
    seeds: int = 3,
    out: Path = Path("comparison"),
    jobs: int = 1,
    k: int = 200,
    paper: bool = False,
    probe_data: Data = None,
    probe_test_data: Data = None,
    dry_run: bool = False,
    figures: MaybePath = None,
    preset: str | None = None,
    config: MaybePath = None,
    progress: bool = True,
) -> None:
    """Train with each view source at the same budget, judge all in the same way, and say who wins.

    Cut off, the same command goes on where it was; more view sources or seeds can be added later.

    Args:
        settings: What is trained.
        views: The view sources, with commas between them: those of pretrain, randaugment:15 for RandAugment with the
            magnitude 15, coviews:table and coviews:ppo for learned ones by that search, or files of learned policies.
            By default simclr, random, uniform, randaugment, hardviews, indepviews and coviews, or none where there are
            variants.
        variants: A YAML file of names, each with the settings in which it differs from the others.
        seeds: Pretraining seeds of each, counted from --seed.
        out: The folder for results.json, comparison.html, the runs and their logs.
        jobs: Trainings at once; the cores are shared among them.
        k: Neighbours that vote in kNN.
        paper: Judge by the paper's linear probe as well, which takes long.
        probe_data: Labelled images to judge the encoders by, where those of training have no labels.
        probe_test_data: Images to judge, with --probe-data; a fifth of that by default.
        dry_run: Only say what would be done, and how long it would take.
        figures: A folder for the charts as files, PNG and SVG (needs matplotlib).
        preset: Named settings, as for pretrain; the other options change them.
        config: A YAML file of settings, as for pretrain.
        progress: Show what is going on.
    """
    from coviews.comparison.compare import compare as run
    from coviews.comparison.compare import failure

    named = None if views is None else [name.strip() for name in views.split(",") if name.strip()]
    made = run(
        views=named, variants=variants, seeds=seeds, settings=settings.plain, out=out, jobs=jobs, k=k, paper=paper,
        probe_data=probe_data, probe_test_data=probe_test_data, dry_run=dry_run, figures=figures, progress=progress,
    )  # fmt: skip
    if dry_run:
        return
    _show(made)
    print(f"\nwrote {out / 'comparison.html'} and {out / 'results.json'}")
    if made.failed:
        raise failure(made.failed)


def reproduce(
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[NAME]")] = "",
    *,
    list: bool = False,
    scale: str = "small",
    data: Data = None,
    test_data: Data = None,
    subset: Text = None,
    columns: Text = None,
    rows: Text = None,
    seeds: Int = None,
    epochs: Int = None,
    precision: Text = None,
    out: MaybePath = None,
    data_root: Path = Path("data"),
    download: bool = False,
    jobs: int = 1,
    dry_run: bool = False,
    progress: bool = True,
) -> None:
    """Make a table or figure of the paper, its figures beside ours; cut off, the same command goes on.

    Args:
        name: Which one, such as table-less-data.
        list: Only name all tables and figures.
        scale: small (5,000 images, resnet8, 60 epochs: hours on a CPU) or paper (ResNet-50, up to 800 epochs: days on
            a GPU).
        data: Images with labels instead of the paper's, as for pretrain; then there is one column.
        test_data: Images to judge by, with --data.
        subset: A part of --data: '10%' or a number of images.
        columns: Only these of the table, such as CIFAR-10,SVHN.
        rows: Only these, such as Random,CoViews.
        seeds: Pretraining seeds; by default 1 at the paper's scale, as in the paper, and up to 3 at the small one.
        epochs: Other than the scale's; the warm-up and the time between searches shrink with them.
        precision: Of all trainings, as for pretrain: bf16-mixed is faster where the processor or GPU can do it.
        out: The folder; by default reproduced/NAME-SCALE.
        data_root: Where the known data sets are.
        download: Fetch those that are not there.
        jobs: Trainings at once; the cores are shared among them.
        dry_run: Only say what would be done, and how long it would take.
        progress: Show what is going on.
    """
    from coviews.comparison.compare import failure
    from coviews.comparison.paper_tables import RECIPES
    from coviews.comparison.reproduce import reproduce as make

    if list or not name:
        width = max(map(len, RECIPES))
        for recipe in RECIPES.values():
            print(f"{recipe.name:<{width}}  {recipe.about}")
        return
    made = make(
        name, scale=scale, data=data, test_data=test_data, subset=subset, columns=columns, rows=rows, seeds=seeds,
        epochs=epochs, precision=precision, out=out, data_root=data_root, download=download, jobs=jobs,
        dry_run=dry_run, progress=progress,
    )  # fmt: skip
    if dry_run:
        return
    _show(made)
    for path in made.written:
        print(f"wrote {path}")
    if made.comparison is not None and made.comparison.failed:
        raise failure(made.comparison.failed)


def _show(made: object) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if console.is_terminal:
        console.print(made)
    else:
        print(made)
