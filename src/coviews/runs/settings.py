"""Every choice of a pretraining run: one frozen dataclass, checked when made."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Unpack

import tyro

from coviews.console.option_types import SettingsKeywords
from coviews.console.options import Int, Number, Text
from coviews.data.formats import data_help
from coviews.data.levels import MAX_PIXELS
from coviews.data.stream_order import BUFFER
from coviews.errors import CoviewsError
from coviews.methods.keeping import KEEP_WEIGHTS, KeepSettings
from coviews.methods.method import MethodSettings
from coviews.methods.simclr import SimCLRSettings
from coviews.methods.viewmaker import BUDGET
from coviews.ops.operations import PixelType
from coviews.ops.placement import Placement
from coviews.ops.space import STANDARD, standard_space
from coviews.policies.factors import OPERATIONS, Family, with_locks
from coviews.policies.fixed import FIXED, ViewSourceKeywords, source_space, takes_option, view_source
from coviews.policies.learned import COOPERATIVE
from coviews.policies.limits import Limits, view_limits
from coviews.policies.named import is_policy_file, policy_source
from coviews.policies.subpolicy import ViewSource
from coviews.runs.leaves import OF_THE_MACHINE, changed_leaves, differing_leaves
from coviews.runs.settings_checks import OPTIMIZERS, check_choices, check_limits, check_names, check_numbers
from coviews.runs.view_names import CHOSEN_FIRST, DEFAULT_VIEWS, MADE_FROM, VIEWS, check_view_name, view_family
from coviews.searching.loss_table import TableSettings
from coviews.searching.settings import SearchSettings

LOCAL_AREA = (0.05, 0.4)  # the least and largest area of a local view
LEAST_LOCAL = 8  # pixels a side, where the size of local views is not given
AUTO = "auto"  # a precision that the machine decides on which the run starts
FROM_PYTHON = "python: "  # so data is called that came from Python and has no name
# the choices of a placement, and what the options for them are called
_PLACEMENT = {"crop": "crop", "area": "crop_area", **{n: n for n in ("flip", "flip_vertical", "quarter_turns")}}


@dataclass(frozen=True)
class PretrainSettings:
    """What is trained, on what, and how."""

    data: Annotated[
        tyro.conf.Positional[str],
        tyro.conf.arg(metavar="[DATA]", help_behavior_hint=lambda default: f"{data_help()} (default: {default})"),
    ] = "shapes"
    """The images:"""
    out: Path | None = None
    """The run's folder; by default runs/<data>-<views>-<time>."""

    size: int | None = None
    """The side of the images in pixels; by default their own, as far as --max-side allows."""
    max_side: int | None = None
    """Where no --size is given, larger images are scaled down to so many pixels of their longer side; by default
    128 on a CPU and 224 on a GPU."""
    channels: int | None = None
    """1 for grey, 3 for colour; otherwise grey only if all images are. Other channels, up to 16, stay."""
    depth: int | None = None
    """Bits of a level of images that have more than 8: 16 (the default) or 8."""
    frames: str | None = None
    """How files with several pages are read: channels (pages are channels), middle (the middle page) or each (each
    page is an image); by default channels if the file says so, otherwise middle."""
    max_pixels: int = MAX_PIXELS
    """Pixels of an image file: larger JPEG files are decoded reduced, other larger files are skipped."""
    show_channels: str | None = None
    """The channels that pictures show as red, green and blue, such as 3,2,1, or one; by default the first three."""
    subset: str | None = None
    """Train on a part: '10%' or a number of images, balanced over classes where there are labels."""
    subset_seed: int = 0
    """Chooses the subset."""
    test_data: str | None = None
    """Labelled images for the kNN accuracy; without them, each training image is judged by the others."""
    data_root: Path = Path("data")
    """Where known sets are, or are downloaded to."""
    download: bool = False
    """Fetch a known set that is not there, or published weights for --init-from."""
    cache: Path | None = None
    """Where images that do not fit into memory are kept decoded; by default the user's cache folder."""
    stream: bool = False
    """Decode images whenever they are needed, instead of once before training: for data larger than a disk."""
    stream_buffer: int = BUFFER
    """With --stream: images that are shuffled among each other."""

    method: Annotated[MethodSettings, tyro.conf.arg(name="")] = field(default_factory=SimCLRSettings)
    """What learns from the views, with its options."""
    keep: Number = None
    """Let the encoder keep what views change: the weight of a small network that predicts, from the features of two
    views, what was done differently to them. 5 is a good try where colour or position may matter; 0 for none. By
    default 5 for a family of views with `keep`, 15 with `keep much`, otherwise 0."""
    keep_what: str = "all"
    """What it predicts, with commas between: colour, crop, flip (turns too), other (rotations, blur, ...), or all."""
    encoder: str = "resnet18"
    """resnet8 and resnet8x2 (small), series8 (for series), any torchvision ResNet, or timm/NAME."""
    init_from: Text = None
    """Start from trained weights: the folder of a run, an encoder.safetensors, a state dict from elsewhere (.pt, .pth,
    .safetensors), or the name of the encoder for its published weights (with --download)."""

    views: str = DEFAULT_VIEWS
    """How views are made: a family (recipe, recipe-keep, cropflip, a line such as 'crop small, mirror, light', or the
    .yaml file of coviews choose), choose, selfrandaugment, selfaugment or population (find views first), coviews or
    indepviews (learned), hardviews, random, uniform, randaugment, trivialaugment, autoaugment:cifar10 (or svhn,
    imagenet), fast-autoaugment:cifar10 (or svhn, imagenet), simclr, infomin, viewmaker (learned perturbations),
    infomin-flow (learned channels), or the file of a policy (.safetensors, .json)."""
    magnitude: int = 9
    """RandAugment's, 0 to 30."""
    randaugment_steps: int = 2
    """How many operations in a row RandAugment applies."""
    hard_source: str = "simclr"
    """hardviews chooses among views of this source: a fixed one, or a family of views, named as for --views."""
    hard_views: int = 2
    """How many views of an image pass the encoder, which chooses a pair of them (4 in the paper); 2: none pass it."""
    hard_crops: int = 8
    """How many views of an image are drawn; --hard-views of them, with the hardest crops, are made. 0: all are."""
    hard_scale: float = 1.0
    """The share of their resolution at which views are compared by the encoder, such as 0.5: a quarter of its work."""
    viewmaker_source: str = "crop whole"
    """viewmaker and infomin-flow change views of this source, as for --hard-source; by default whole images."""
    viewmaker_budget: float = BUDGET
    """How much viewmaker changes a value of an image on average, at most, as a share of its range."""
    viewmaker_lr: float = 1e-3
    """The learning rate of the network of viewmaker or infomin-flow, by Adam; 0 for one that does not learn."""
    infomin_labels: int = 0
    """infomin-flow keeps the classes of so many labelled images in each view; 0 for none, without labels."""
    crop: Text = None
    """How views are cropped: random, joint (the areas of the two crops differ more) or none; by default as --views."""
    crop_area: Annotated[tuple[float, float] | None, tyro.conf.arg(metavar="LOW HIGH")] = None
    """The smallest and largest area of a crop, as shares of the image; by default as --views says, or 0.2 and 1."""
    flip: Number = None
    """Probability of a mirror image, left to right; by default as --views says, or 0.5. 0 if left and right differ."""
    flip_vertical: Number = None
    """Probability of a mirror image, top to bottom, for images without an up; by default as --views says, or 0."""
    quarter_turns: Number = None
    """Probability of a turn by 90, 180 or 270 degrees, for images without an up; by default as --views says, or 0."""
    matters: Text = None
    """What views must not change, separated by commas: colour, orientation, brightness, detail, position, or single
    factors (crop, mirror, turns, tilt, light, colour, tone, grey, blur, cutout)."""
    ignores: Text = None
    """What a family of views must change, because it does not matter in these images; the words of --matters."""
    forbid: Text = None
    """Operations that never occur, such as Invert,Solarize."""
    cap: Text = None
    """The strongest value of operations: Rotate=10,Brightness=1.2 allows -10 to 10 degrees and 0.8 to 1.2."""
    fill: str = "black"
    """The colour that rotations, shears and translations bring in from outside the image: black, mean (that of all
    images) or border (that of most pixels at the images' borders)."""
    view_size: int | None = None
    """The side of the views in pixels, if not that of the stored images (--size)."""
    views_global: int = 2
    """Views of each image. More than two work with simclr and dino, and with views that are not learned."""
    views_local: int = 0
    """Further views of each image that are smaller and show a small part of it (multi-crop)."""
    local_size: int | None = None
    """The side of local views in pixels; by default 3/7 of that of the others, at least 8."""
    local_area: tuple[float, float] = LOCAL_AREA
    """The smallest and largest area of local views, as shares of the image."""

    epochs: int = 200
    """Passes over all images."""
    batch_size: int = 256
    """Pairs in a step, over all devices."""
    accumulate: int = 1
    """Batches whose gradients are averaged before the weights change. The images of a batch are compared only with
    those of the same batch, so this does not replace a larger --batch-size."""
    optimizer: str = "sgd"
    """sgd, lars (for batches of thousands of images) or adamw (for transformers)."""
    lr: Number = None
    """Learning rate for 256 images between two changes of the weights; it is scaled with that number. By default 0.03
    with sgd, 0.3 with lars and 0.0005 with adamw."""
    lr_warmup_epochs: int = 10
    """The learning rate rises for so long, and then falls as a cosine; at most a tenth of all epochs."""
    weight_decay: Number = None
    """Of the optimiser: by default 0.0005 with sgd, 0.000001 with lars and 0.05 with adamw."""
    sgd_momentum: float = 0.9
    """Of sgd and lars."""
    seed: int = 0
    """Everything that is drawn comes from it: the same seed gives the same run."""

    warmup_epochs: Int = None
    """Epochs before views are learned: with those of the prior by table, with random ones by ppo. By default 10, but at
    most a tenth of all."""
    queue_size: int = 4
    """The most recent policies that make the views."""
    queue_p: float = 0.6
    """The newest policy's share (before normalisation); each older one has 1 - p of the one after it."""
    space: str | None = None
    """The operations of learned, uniform and random views: all (the default; channels for images that are not 8-bit
    grey or colour), autoaugment (the paper's), autoaugment-bins, simclr, simclr-wide, randaugment or
    trivialaugment."""
    search: SearchSettings = field(default_factory=TableSettings)

    knn_every: int = 10
    """Epochs from one look at the encoder to the next (kNN accuracy, or RankMe without labels); 0 for none."""
    report: bool = True
    """Write report.html at the end: what was trained and learned, as a page."""
    tensorboard: bool = True
    """Write the metrics for TensorBoard too."""
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
    precision: str = AUTO
    """32-true, bf16-mixed, 16-mixed, or auto: bf16-mixed where the processor or GPU has instructions for it, which is
    faster, otherwise 32-true. The loss always has 32 bits."""
    threads: int | None = None
    """Threads that make views; all cores if none. The result does not depend on it."""

    def __post_init__(self) -> None:
        check_names(self)
        check_view_name(self.views)
        check_numbers(self)
        check_choices(self)
        self.keeping  # noqa: B018 - it is checked when made
        check_limits(self, _PLACEMENT.values())
        self.method.check_batch(self.batch_size)

    def __repr__(self) -> str:
        return f"PretrainSettings({', '.join(changed_leaves(self, PretrainSettings()))})"

    @property
    def keeping(self) -> KeepSettings:
        """How much the encoder is asked to keep of what views change, and what."""
        default = KEEP_WEIGHTS["off" if self.family is None else self.family.keep]
        return KeepSettings(weight=default if self.keep is None else self.keep, what=self.keep_what)

    @property
    def base_lr(self) -> float:
        """The learning rate for 256 images."""
        return OPTIMIZERS[self.optimizer].lr if self.lr is None else self.lr

    @property
    def base_decay(self) -> float:
        """The weight decay."""
        return OPTIMIZERS[self.optimizer].weight_decay if self.weight_decay is None else self.weight_decay

    @property
    def learns_views(self) -> bool:
        """Whether policies are searched for."""
        return self.views in COOPERATIVE

    @property
    def space_name(self) -> str:
        """The space of learned, uniform and random views: the prior's own, if it has one."""
        if self._takes_space:
            return self.space or STANDARD
        return source_space(self.search.first_source) if self.family is None else OPERATIONS

    @property
    def warmup(self) -> int:
        """Epochs before views are learned."""
        default = min(10, max(1, self.epochs // 10), self.epochs - 1)
        return default if self.warmup_epochs is None else self.warmup_epochs

    def for_images(self, channels: int, dtype: PixelType, height: int = 0) -> "PretrainSettings":
        """The same with the default space for such images, if no other space is chosen."""
        name = standard_space(channels, dtype, height)
        if self.space is not None or self.space_name == name or not self._takes_space:
            return self
        return dataclasses.replace(self, space=name)

    @property
    def _takes_space(self) -> bool:
        """Whether the views are of the space that is chosen, rather than of one of their own."""
        return not self.learns_views or takes_option(self.search.first_source, "space_name")

    @property
    def placement(self) -> Placement:
        """How views are cut out of their image, flipped and turned."""
        family = self.family
        choices = {name: getattr(self, own) for name, own in _PLACEMENT.items() if getattr(self, own) is not None}
        default = Placement() if family is None else family.placement
        return self.limits.placement(dataclasses.replace(default, **choices))

    @property
    def limits(self) -> Limits:
        """What views must not do."""
        return view_limits(self.matters, self.ignores, self.forbid, self.cap)

    @property
    def family(self) -> Family | None:
        """The family of the views, or of those that others are chosen from or depart from, if there is one."""
        if self.base_views in VIEWS or is_policy_file(self.base_views):
            return None
        return with_locks(view_family(self.base_views), self.limits.locks)

    @property
    def base_views(self) -> str:
        """The views before any are learned or chosen."""
        if self.learns_views:
            return self.search.first_source
        name = MADE_FROM.get(self.views)
        return self.views if name is None else getattr(self, name)

    @property
    def view_sizes(self) -> tuple[tuple[int, int], ...]:
        """The height and width of each view that is not local; empty if those of the images."""
        count = self.hard_views if self.views == "hardviews" else self.views_global
        return () if self.view_size is None else ((self.view_size, self.view_size),) * count

    @property
    def view_count(self) -> int:
        """How many views of each image there are in a step, local ones included."""
        return self.views_global + self.views_local

    @property
    def local_placement(self) -> Placement:
        """The same as `placement` for local views, which are always random parts of the image."""
        return dataclasses.replace(self.placement, crop="random", area=self.local_area)

    def local_sizes(self, image_size: tuple[int, int]) -> tuple[tuple[int, int], ...]:
        """The height and width of each local view of images of this height and width."""
        if not self.views_local:
            return ()
        height, width = self.view_sizes[0] if self.view_sizes else image_size
        sides = (max(LEAST_LOCAL, round(3 * side / 7)) for side in (height, width))
        h, w = sides if self.local_size is None else (self.local_size, self.local_size)
        if h > height or w > width or (h, w) == (height, width):
            raise CoviewsError(
                f"local views of {h} x {w} pixels must be smaller than the other views of {height} x {width}: give "
                "another --local-size, or a larger --view-size"
            )
        return ((h, w),) * self.views_local

    def first_source(self) -> ViewSource:
        """Who makes the views before a policy is learned."""
        name = self.search.first_source
        steps: ViewSourceKeywords = {"steps": self.search.steps} if name == "randaugment" else {}
        return self.named_source(name, **steps)

    def named_source(self, name: str, **options: Unpack[ViewSourceKeywords]) -> ViewSource:
        """A view source that is not learned, within the limits.

        A fixed one has these settings' operations, steps and strength where it has a choice of them.
        """
        if is_policy_file(name):
            return self.limits.source(policy_source(name, options.get("views", 2)))
        if name not in FIXED:
            return self.limits.source(view_family(name).source(options.get("views", 2)))
        if takes_option(name, "space_name"):
            options["steps"], options["space_name"] = self.search.steps, self.space_name
        if takes_option(name, "p"):
            options["p"] = self.search.p
        if takes_option(name, "magnitude"):
            options = {"steps": self.randaugment_steps, "magnitude": self.magnitude, **options}
        return self.limits.source(view_source(name, **options))

    def searches_at(self, epoch: int) -> bool:
        """Whether a search comes before this epoch, counted from 1."""
        return self.learns_views and self.search.due(epoch - self.warmup - 1)

    @property
    def searches(self) -> int:
        """How many searches the whole run makes."""
        return sum(self.searches_at(epoch) for epoch in range(1, self.epochs + 1))

    def replaced(self, **changes: Unpack[SettingsKeywords]) -> "PretrainSettings":
        """The same with other choices.

        A method or a search can be given by its name; the options of the method stand beside the other choices:
        `replaced(method="moco", bank=65536)`. Unknown names get the nearest valid one.
        """
        from coviews.runs.settings_file import changed_settings

        return changed_settings(self, changes)

    def differences(self, other: "PretrainSettings") -> dict[str, tuple[Any, Any]]:
        """The choices that differ and change what comes out, by name: mine and the other's."""
        found = differing_leaves(self.settled(), other.settled())
        return {name: values for name, values in found.items() if name not in OF_THE_MACHINE}

    def settled(self) -> "PretrainSettings":
        """The same with nothing left to defaults that depend on other choices, and may be others tomorrow."""
        if self.views in CHOSEN_FIRST:
            return self  # what is found will decide
        p, family = self.placement, self.family
        named: dict[str, Any] = {}
        if family is not None:  # a file may have other views tomorrow
            prior: dict[str, Any] = {"prior": family.text}
            own = {MADE_FROM.get(self.views, "views"): family.text}
            named = {"search": dataclasses.replace(self.search, **prior)} if self.learns_views else own
        return dataclasses.replace(
            self, space=self.space_name, crop=p.crop, crop_area=p.area, flip=p.flip, flip_vertical=p.flip_vertical,
            quarter_turns=p.quarter_turns, warmup_epochs=self.warmup, keep=self.keeping.weight, lr=self.base_lr,
            weight_decay=self.base_decay, **named,
        )  # fmt: skip
