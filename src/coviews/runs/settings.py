"""Every choice of a pretraining run: one frozen dataclass, checked when made, and its YAML form."""

import dataclasses
import math
import os
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
import yaml

from coviews.errors import CoviewsError, unknown
from coviews.ops.space import SPACES, STANDARD
from coviews.policies.fixed import FIXED, view_source
from coviews.policies.learned import COOPERATIVE
from coviews.policies.subpolicy import ViewSource
from coviews.searching.settings import SearchSettings

METHODS = ("simclr", "moco", "byol", "simsiam")
VIEWS = (*FIXED, "hardviews", *COOPERATIVE)
TEMPERATURES = {"simclr": 0.2, "moco": 0.1, "byol": 0.5, "simsiam": 0.5}
TABLED = ("simclr", "moco")  # methods whose losses a search by table can read
OWN_SPACE = ("simclr", "randaugment", "trivialaugment")  # sources with operations of their own
ACCELERATORS = ("auto", "cpu", "cuda", "mps")
FROM_PYTHON = "python: "  # so data is called that came from Python and has no name
PRECISIONS = ("32-true", "16-mixed", "bf16-mixed")

# the options that mean something to a search by ppo only, or begin like this
OF_PPO = (
    "search_every", "search.ppo.", "search.network.", "search.reference", "search.batch", "search.images_each"
)  # fmt: skip

# what may change when a run is continued: it says how and where the work is done, not what comes out
OF_THE_MACHINE = frozenset(
    ("out", "data_root", "download", "cache", "accelerator", "devices", "num_nodes", "threads", "save_every",
     "keep_every", "report", "tensorboard", "wandb", "trackio")
)  # fmt: skip


@dataclass(frozen=True)
class PretrainSettings:
    """What is trained, on what, and how."""

    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[DATA]")] = "shapes"
    """A folder of images, a list of paths (.txt, .csv), an array (.npy, .npz), the name of a known set (cifar10,
    cifar100, svhn, stl10, stl10:train+unlabeled, tinyimagenet) or 'shapes', the built-in one."""
    out: Path | None = None
    """The run's folder; by default runs/<data>-<views>-<time>."""

    size: int | None = None
    """The side of the images in pixels, if not their own."""
    channels: int | None = None
    """1 for grey, 3 for colour; otherwise grey only if all images are."""
    subset: str | None = None
    """Train on a part: '10%' or a number of images, balanced over classes where there are labels."""
    subset_seed: int = 0
    """Chooses the subset."""
    test_data: str | None = None
    """Labelled images for the kNN accuracy; without them, each training image is judged by the others."""
    data_root: Path = Path("data")
    """Where known sets are, or are downloaded to."""
    download: bool = False
    """Fetch a known set that is not there."""
    cache: Path | None = None
    """Where images that do not fit into memory are kept decoded; by default the user's cache folder."""

    method: str = "simclr"
    """What learns from the views: simclr, moco, byol or simsiam."""
    encoder: str = "resnet18"
    """resnet8 and resnet8x2 (small), any torchvision ResNet, or timm/NAME."""
    init_from: Path | None = None
    """Start from the encoder of another run: its folder, or its encoder.safetensors."""
    temperature: float | None = None
    """Of the contrastive loss; by default 0.2 for simclr (0.5 in the paper), 0.1 for moco, else 0.5."""
    projector: int | None = None
    """The projector's width; by default as many as the encoder has features."""
    bank: int = 4096
    """MoCo's queue of keys."""
    momentum: float = 0.99
    """Of the slow encoder of moco and byol."""

    views: str = "coviews"
    """Who chooses the views: coviews, indepviews, random, uniform, randaugment, trivialaugment, simclr, hardviews, or
    the file of a learned policy (.safetensors)."""
    magnitude: int = 9
    """RandAugment's, 0 to 30."""
    hard_source: str = "simclr"
    """hardviews chooses among views of this source."""
    hard_views: int = 4
    """How many views of an image hardviews chooses a pair from."""
    crop: bool = True
    """Cut a random part out of each view, after the operations."""
    crop_area: tuple[float, float] = (0.2, 1.0)
    """The least and largest area of that part, as shares."""
    flip: bool = True
    """Mirror half of the views."""

    epochs: int = 200
    batch_size: int = 256
    """Pairs in a step, over all devices."""
    lr: float = 0.03
    """Learning rate for 256 images in a batch; it is scaled with the batch size."""
    lr_warmup_epochs: int = 10
    """The learning rate rises for so long, and then falls as a cosine; at most a tenth of all epochs."""
    weight_decay: float = 5e-4
    sgd_momentum: float = 0.9
    seed: int = 0
    """Everything that is drawn comes from it: the same seed gives the same run."""

    warmup_epochs: int = 10
    """Epochs before views are learned: with those of the prior by table, with random ones by ppo."""
    search_every: int = 10
    """K, the epochs from one search by ppo to the next; a table is fitted before every epoch."""
    queue_size: int = 4
    """The most recent policies that make the views."""
    queue_p: float = 0.6
    """The newest policy's share (before normalisation); each older one has 1 - p of the one after it."""
    warm_start: bool = False
    """Each search by ppo goes on from the last policy instead of starting anew."""
    space: str | None = None
    """Which operations learned, uniform and random views have: all (the default), autoaugment (the paper's), simclr,
    simclr-wide, randaugment or trivialaugment."""
    prior: str = "uniform"
    """What a search by table departs from: uniform, random, randaugment, trivialaugment or simclr."""
    search: SearchSettings = field(default_factory=SearchSettings)

    knn_every: int = 10
    """Epochs from one look at the encoder to the next (kNN accuracy, or RankMe without labels); 0 for none."""
    report: bool = True
    """Write report.html at the end: what was trained and learned, as a page."""
    tensorboard: bool = True
    wandb: bool = False
    """Log to Weights & Biases too (needs the package wandb)."""
    trackio: bool = False
    """Log to trackio too (needs the package trackio)."""
    save_every: float = 60.0
    """Seconds from one checkpoint to the next: the most that a kill can cost, besides a search."""
    keep_every: int = 0
    """Keep a checkpoint for good every so many epochs; 0 for none."""

    accelerator: str = "auto"
    """auto, cpu, cuda or mps."""
    devices: int = 1
    """Devices (on a CPU: processes) on each machine."""
    num_nodes: int = 1
    """Machines."""
    precision: str = "32-true"
    """32-true, 16-mixed or bf16-mixed."""
    threads: int | None = None
    """Threads that make views; all cores if none. The result does not depend on it."""

    def __post_init__(self) -> None:
        for name, value, valid in (
            ("method", self.method, METHODS),
            ("space", self.space_name, SPACES),
            ("prior", self.prior, FIXED),
            ("accelerator", self.accelerator, ACCELERATORS),
            ("precision", self.precision, PRECISIONS),
            ("view source for hard_source", self.hard_source, FIXED),
        ):
            if value not in valid:
                raise unknown(name, value, valid)
        self._check_search()
        if self.views not in VIEWS and not self.views.endswith(".safetensors"):
            raise unknown("view source", self.views, VIEWS)
        least = {
            "epochs": 1, "batch_size": 2, "warmup_epochs": 0, "search_every": 1, "queue_size": 1, "lr_warmup_epochs": 0,
            "bank": 2, "hard_views": 2, "knn_every": 0, "keep_every": 0, "devices": 1, "num_nodes": 1, "seed": 0,
            "subset_seed": 0, "magnitude": 0, "projector": 1, "size": 1, "threads": 1,
        }  # fmt: skip
        for name, low in least.items():
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < low):
                raise CoviewsError(f"{_flag(name)} must be a whole number from {low}, not {value!r}")
        if max(self.seed, self.subset_seed) >= 2**63:
            raise CoviewsError("--seed must be below 2**63")
        if self.magnitude > 30:
            raise CoviewsError(f"--magnitude must be 0 to 30, not {self.magnitude}")
        if self.channels not in (None, 1, 3):
            raise CoviewsError(f"--channels must be 1 for grey or 3 for colour, not {self.channels!r}")
        for name in ("lr", "temperature"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise CoviewsError(f"{_flag(name)} must be above 0, not {value}")
        for name in ("weight_decay", "save_every"):
            if not 0 <= getattr(self, name) < math.inf:
                raise CoviewsError(f"{_flag(name)} must be 0 or more, not {getattr(self, name)}")
        for name in ("momentum", "sgd_momentum"):
            if not 0 <= getattr(self, name) < 1:
                raise CoviewsError(f"{_flag(name)} must be from 0 to below 1, not {getattr(self, name)}")
        if not 0 < self.queue_p < 1:
            raise CoviewsError(f"--queue-p must be between 0 and 1, not {self.queue_p}")
        if not 0 < self.crop_area[0] <= self.crop_area[1] <= 1:
            raise CoviewsError(f"--crop-area must be a range within 0..1, such as 0.2 1.0, not {self.crop_area}")
        if self.batch_size % (self.devices * self.num_nodes):
            raise CoviewsError(
                f"--batch-size {self.batch_size} cannot be shared evenly among {self.devices * self.num_nodes} devices"
            )
        if self.learns_views and self.epochs <= self.warmup_epochs:
            raise CoviewsError(
                f"{self.epochs} epochs with {self.warmup_epochs} of warm-up leave none for a search: "
                "give more --epochs or fewer --warmup-epochs"
            )

    def _check_search(self) -> None:
        if self.search_by != "table" and self.prior != "uniform":
            raise CoviewsError(f"--prior {self.prior} is an option of --search.by table, not of {self.search_by}")
        if self.by_table and self.prior in OWN_SPACE and self.space not in (None, self.prior):
            raise CoviewsError(
                f"--prior {self.prior} has operations of its own, not those of --space {self.space}: "
                "leave one of the two out"
            )
        if self.prior in ("simclr", "trivialaugment") and self.search.steps != SearchSettings().steps:
            raise CoviewsError(f"--prior {self.prior} has steps of its own: leave out --search.steps")
        if not self.by_table:
            return
        if self.method not in TABLED:
            raise CoviewsError(
                f"--search.by table reads training's own losses, and that of {self.method} has no level for views that "
                "lost their image: use --search.by ppo, or --method simclr or moco"
            )
        if self.warm_start:
            raise CoviewsError("--warm-start is an option of --search.by ppo: a table always goes on")

    @property
    def learns_views(self) -> bool:
        """Whether policies are searched for."""
        return self.views in COOPERATIVE

    @property
    def by_table(self) -> bool:
        """Whether policies come from a table of training's own losses."""
        return self.learns_views and self.search_by == "table"

    @property
    def search_by(self) -> str:
        """How views are learned: by table where the method's losses allow it, unless another way was chosen."""
        return self.search.by or ("table" if self.method in TABLED else "ppo")

    @property
    def space_name(self) -> str:
        """The space of a learned policy."""
        return self.prior if self.by_table and self.prior in OWN_SPACE else self.space or STANDARD

    def first_source(self) -> ViewSource:
        """Who makes the views before a policy is learned: random ones, or the table's prior."""
        name = self.prior if self.by_table else "random"
        return self.named_source(name, **({"steps": self.search.steps} if name == "randaugment" else {}))

    def named_source(self, name: str, **options: Any) -> ViewSource:
        """A fixed view source, with these settings' operations, steps and strength where it has a choice of them."""
        s = self.search
        if name in ("random", "uniform"):
            options |= {"steps": s.steps, "space_name": self.space_name}
        if name == "uniform":
            options["p"] = s.p
        if name == "randaugment":
            options["magnitude"] = self.magnitude
        return view_source(name, **options)

    def searches_at(self, epoch: int) -> bool:
        """Whether a search comes before this epoch (counted from 1): after the warm-up, and then every K."""
        since, every = epoch - self.warmup_epochs - 1, 1 if self.by_table else self.search_every
        return self.learns_views and since >= 0 and since % every == 0

    def check_ppo_options(self) -> None:
        """Refuse options of a search by ppo where no search was chosen, and it is by table."""
        if self.search.by is not None or not self.by_table:
            return
        mine, default = _leaves(self), _leaves(PretrainSettings())
        for name, value in mine.items():
            if name.startswith(OF_PPO) and value != default[name]:
                raise CoviewsError(
                    f"{_flag(name)} is an option of --search.by ppo, and by default the search is by table: "
                    "add --search.by ppo, or leave it out"
                )

    def replaced(self, **changes: Any) -> "PretrainSettings":
        """The same with other choices; unknown names get the nearest valid one."""
        hints = typing.get_type_hints(type(self))
        for name, value in changes.items():
            if name not in hints:
                raise unknown("setting", name, hints)
            if not dataclasses.is_dataclass(value):
                changes[name] = _checked(value, hints[name], name)
        return dataclasses.replace(self, **changes)

    def settled(self) -> "PretrainSettings":
        """The same with nothing left to defaults that depend on other choices, and may be others tomorrow."""
        temperature = TEMPERATURES[self.method] if self.temperature is None else self.temperature
        search = dataclasses.replace(self.search, by=self.search_by)
        return dataclasses.replace(self, temperature=temperature, space=self.space_name, search=search)

    def differences(self, other: "PretrainSettings") -> list[str]:
        """The names of the choices that differ and change what comes out."""
        fields, one, two = (f.name for f in dataclasses.fields(self)), self.settled(), other.settled()
        return [name for name in fields if name not in OF_THE_MACHINE and getattr(one, name) != getattr(two, name)]

    def to_yaml(self) -> str:
        """Enough to repeat the run."""
        return yaml.safe_dump(_plain(self.settled()), sort_keys=False, allow_unicode=True)


def read_settings(path: Path, default: PretrainSettings | None = None) -> PretrainSettings:
    """Settings from a YAML file; what it does not name is as in `default`."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CoviewsError(f"there is no file {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise CoviewsError(f"cannot read {path}: {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise CoviewsError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    return _settings_of(content, default, str(path))


def parse_settings(text: str, where: str) -> PretrainSettings:
    """Settings from what `to_yaml` gave."""
    try:
        return _settings_of(yaml.safe_load(text), None, where)
    except yaml.YAMLError as error:
        raise CoviewsError(f"{where} holds no settings") from error


def changed_settings(settings: PretrainSettings, changes: Mapping[str, Any]) -> PretrainSettings:
    """The same with other choices, nested ones as mappings: {"search": {"steps": 1}}."""
    return _settings_of(dict(changes), settings, "settings")


def _settings_of(content: Any, default: PretrainSettings | None, where: str) -> PretrainSettings:
    try:
        return _read(default or PretrainSettings(), content or {}, "")
    except CoviewsError as error:
        raise CoviewsError(f"{where}: {error}") from error


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _leaves(settings: Any, prefix: str = "") -> dict[str, Any]:
    """Every single choice by its full name, such as search.ppo.clip."""
    found: dict[str, Any] = {}
    for f in dataclasses.fields(settings):
        value, name = getattr(settings, f.name), prefix + f.name
        found |= _leaves(value, f"{name}.") if dataclasses.is_dataclass(value) else {name: value}
    return found


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, Path) else value


def _read(default: Any, content: Any, where: str) -> Any:
    """A dataclass like `default` with the fields that the mapping has, each checked against its type."""
    if not isinstance(content, dict):
        raise CoviewsError(f"{where.rstrip('.') or 'it'} must be a mapping of names to values, not {content!r}")
    hints = typing.get_type_hints(type(default))
    changes = {}
    for name, value in content.items():
        if name not in hints:
            raise unknown("setting", f"{where}{name}", [f"{where}{n}" for n in hints])
        old = getattr(default, name)
        if dataclasses.is_dataclass(old):
            changes[name] = _read(old, value, f"{where}{name}.")
        else:
            changes[name] = _checked(value, hints[name], f"{where}{name}")
    return dataclasses.replace(default, **changes)


def _checked(value: Any, hint: Any, name: str) -> Any:
    """The value as its type says, or an error."""
    if isinstance(value, np.generic):
        value = value.item()
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        if value is None and type(None) in typing.get_args(hint):
            return None
        hint = next(h for h in typing.get_args(hint) if h is not type(None))
    if typing.get_origin(hint) is tuple:
        wanted = typing.get_args(hint)
        if isinstance(value, list | tuple) and len(value) == len(wanted):
            return tuple(_checked(v, h, name) for v, h in zip(value, wanted, strict=True))
    elif hint is float and type(value) in (int, float):
        return float(value)
    elif hint is float and isinstance(value, str) and re.fullmatch(r"\d+(\.\d*)?e[+-]?\d+", value):
        return float(value)  # 1e-3 is text in YAML
    elif hint is Path and isinstance(value, str | os.PathLike):
        return Path(value)
    elif hint is str and name == "subset" and type(value) is int:
        return str(value)
    elif hint in (bool, int, str) and type(value) is hint:
        return value
    kind = getattr(hint, "__name__", str(hint))
    raise CoviewsError(f"{name} must be of the type {kind}, not {value!r}")
