"""The options of `compare` and `reproduce`, for the command line and for Python alike."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coviews.console.options import Data, Int, MaybePath, Text
from coviews.errors import CoviewsError, unknown
from coviews.launching.launchers import check_launcher

SCALES = ("small", "paper")

_MOST = 100_000  # seeds, and trainings at once


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What is compared, with how many seeds, and how all are judged."""

    views: Text = None
    """The view sources, with commas between them: those of pretrain, randaugment:15 for RandAugment with the magnitude
    15, coviews:table and coviews:ppo for learned ones by that search, or files of policies. By default simclr,
    random, uniform, randaugment, hardviews, indepviews and coviews, or none where there are variants."""
    variants: MaybePath = None
    """A YAML file of names, each with the settings in which it differs from the others."""
    seeds: int = 3
    """Pretraining seeds of each, counted from --seed."""
    out: Path = Path("comparison")
    """The folder for results.json, comparison.html, the runs and their logs."""
    jobs: int = 1
    """Trainings at once; on this machine the cores are shared among them."""
    launcher: str = "local"
    """Where trainings run: local (this machine), submitit (jobs of SLURM) or ray (a Ray cluster)."""
    launcher_options: Text = None
    """For submitit and ray, such as partition=gpu,gpus_per_node=1,timeout_min=600."""
    k: Int = None
    """Neighbours that vote in kNN; by default as in evaluate."""
    paper: bool = False
    """Judge by the paper's linear probe as well, which takes long."""
    probe_data: Data = None
    """Labelled images to judge the encoders by, where those of training have no labels."""
    probe_test_data: Data = None
    """Images to judge, with --probe-data; a fifth of that by default."""
    dry_run: bool = False
    """Only say what would be done, and how long it would take."""
    figures: MaybePath = None
    """A folder for the charts as files, PNG and SVG (needs matplotlib)."""
    progress: bool = True
    """Show what is going on."""

    def __post_init__(self) -> None:
        check_count("seeds", self.seeds)
        check_count("jobs", self.jobs)
        check_launcher(self.launcher, self.launcher_options)
        if self.probe_test_data is not None and self.probe_data is None:
            raise CoviewsError("--probe-test-data goes with --probe-data")


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions:
    """Which part of a table is made, on which data, and at which scale."""

    scale: str = "small"
    """small (5,000 images, resnet8, 60 epochs: hours on a CPU) or paper (ResNet-50, up to 800 epochs: days on a
    GPU)."""
    data: Data = None
    """Images with labels instead of the paper's, as for pretrain; then there is one column."""
    test_data: Data = None
    """Images to judge by, with --data."""
    subset: Text = None
    """A part of --data: '10%' or a number of images."""
    columns: Text = None
    """Only these of the table, such as CIFAR-10,SVHN."""
    rows: Text = None
    """Only these, such as Random,CoViews."""
    seeds: Int = None
    """Pretraining seeds; by default 1 at the paper's scale, as in the paper, and up to 3 at the small one."""
    epochs: Int = None
    """Other than the scale's; the warm-up and the time between searches shrink with them."""
    precision: Text = None
    """Of all trainings, as for pretrain; by default 32-true, with --data auto."""
    out: MaybePath = None
    """The folder; by default reproduced/NAME-SCALE."""
    data_root: Path = Path("data")
    """Where the known data sets are."""
    download: bool = False
    """Fetch those that are not there."""
    jobs: int = 1
    """Trainings at once; on this machine the cores are shared among them."""
    launcher: str = "local"
    """Where trainings run: local (this machine), submitit (jobs of SLURM) or ray (a Ray cluster)."""
    launcher_options: Text = None
    """For submitit and ray, such as partition=gpu,gpus_per_node=1,timeout_min=600."""
    dry_run: bool = False
    """Only say what would be done, and how long it would take."""
    progress: bool = True
    """Show what is going on."""

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise unknown("scale", self.scale, SCALES)
        for name in ("test_data", "subset"):
            if self.data is None and getattr(self, name) is not None:
                flag = f"--{name.replace('_', '-')}"
                raise CoviewsError(f"{flag} goes with --data: the paper's sets have their own")
        if self.seeds is not None:
            check_count("seeds", self.seeds)
        check_count("jobs", self.jobs)
        check_launcher(self.launcher, self.launcher_options)


def check_count(name: str, value: int) -> None:
    """An error for a number below 1, or beyond any use."""
    if type(value) is not int or not 1 <= value <= _MOST:
        raise CoviewsError(f"--{name} must be 1 to {_MOST:,}, not {value}")


ReproduceName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[NAME]")]
