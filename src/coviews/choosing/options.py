"""The options of `choose`, for the command line and for Python alike."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from coviews.compat import cores
from coviews.console.options import Data, Int, MaybePath, Text
from coviews.errors import CoviewsError
from coviews.launching.launchers import check_launcher
from coviews.policies.factors import FACTORS
from coviews.policies.limits import Limits, view_limits

LEAST_BUDGET = 20.0  # seconds


@dataclass(frozen=True, kw_only=True)
class ChooseOptions:
    """What is known of the images, and what the pilots may cost."""

    labels: Data = None
    """A few labelled images: a table of files and labels (.csv; files in its folder or in that of the images, rows
    without a label are skipped), class folders, images with labels (.npz), or the labels of all images (.npy; -1 for
    none). By default the class folders of the images, if they are in such; 'none' for no labels."""
    per_class: Int = None
    """Use at most this many labelled images of each class."""
    matters: Text = None
    """What views must not change, with commas between: factors (mirror, light, ...) or colour, orientation,
    brightness, detail, position."""
    ignores: Text = None
    """What views must change: what does not matter in these images, named as for --matters."""
    forbid: Text = None
    """Operations that never occur, such as Invert,Solarize; give the same to pretrain."""
    cap: Text = None
    """Operations with the strongest value that may occur, such as Rotate=10; give the same to pretrain."""
    keep: bool = True
    """Also try the keeping head, which lets the encoder keep what views change."""
    budget: str = "30m"
    """The time for all pilots together, such as 90s, 30m or 2h."""
    jobs: Int = None
    """Pilots at once, with one thread each; by default as many as there are cores."""
    launcher: str = "local"
    """Where pilots run: local (this machine), submitit (jobs of SLURM) or ray (a Ray cluster)."""
    launcher_options: Text = None
    """For submitit and ray, such as partition=cpu,timeout_min=60."""
    out: Path = Path("choice")
    """The folder for views.yaml, choice.html, choice.json, and the pilots."""
    size: int = 32
    """The side of the pilots' images in pixels."""
    channels: Int = None
    """1 for grey, 3 for colour; otherwise grey only if all images are."""
    images: int = 2000
    """The pilots learn from at most this many images."""
    pilots: Int = None
    """How many pilots, if the budget should not decide it; more can be added later."""
    epochs: Int = None
    """The length of each pilot, if the budget should not decide it."""
    encoder: str = "resnet8"
    """The pilots' encoder."""
    seed: int = 0
    """The same seed gives the same choice, with the same number and length of pilots and as many at once."""
    data_root: Path = Path("data")
    """Where known sets are."""
    cache: MaybePath = None
    """Where images that do not fit into memory are kept decoded; by default the user's cache folder."""
    dry_run: bool = False
    """Only say what would be tried, and how long it would take."""
    progress: bool = True
    """Show what is going on."""

    def __post_init__(self) -> None:
        for path in ("out", "data_root"):  # in Python, a text will do
            object.__setattr__(self, path, Path(getattr(self, path)))
        for name, least in (
            ("per_class", 2),
            ("jobs", 1),
            ("size", 8),
            ("images", 64),
            ("seed", 0),
            ("pilots", 2),
            ("epochs", 1),
        ):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise CoviewsError(f"--{name.replace('_', '-')} must be a whole number from {least}, not {value!r}")
        check_launcher(self.launcher, self.launcher_options)
        if self.seconds < LEAST_BUDGET:
            raise CoviewsError(f"--budget {self.budget} is too little for two pilots: give 5m or more")

    @property
    def seconds(self) -> float:
        """The budget."""
        match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)\s*([smh]?)", str(self.budget).strip())
        if not match:
            raise CoviewsError(f"write --budget as a time such as 90s, 30m or 2h, not {self.budget!r}")
        return float(match[1]) * {"s": 1.0, "m": 60.0, "": 60.0, "h": 3600.0}[match[2]]

    @property
    def at_once(self) -> int:
        """Pilots at once."""
        return self.jobs or cores()

    @property
    def limits(self) -> Limits:
        """What is decided: a factor whose operations are all forbidden is off, and so is a head that is not tried."""
        limits = view_limits(self.matters, self.ignores, self.forbid, self.cap)
        off = {n: False for n, f in FACTORS.items() if f.ops and limits.forbidden.issuperset(f.ops)}
        if both := [name for name in off if limits.locks.get(name)]:
            raise CoviewsError(f"--ignores turns {both[0]} on, and --forbid excludes all of its operations")
        off |= {} if self.keep else {"keep": False}
        return replace(limits, locks={n: on for n in FACTORS if (on := {**limits.locks, **off}.get(n)) is not None})
