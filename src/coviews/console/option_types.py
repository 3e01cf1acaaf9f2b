"""The keyword arguments of the public functions, for type checkers and editors.

Written by tests/test_option_types.py from the options of the commands: do not edit it by hand.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from coviews.methods.method import MethodSettings
    from coviews.searching.settings import SearchSettings


class PretrainKeywords(TypedDict, total=False):
    """Of `pretrain`."""

    temperature: float
    projector: int | None
    bank: int
    momentum: float
    predictor: int | None
    prototypes: int
    bottleneck: int | None
    student_temperature: float
    teacher_temperature: float
    teacher_start: float
    teacher_warmup: int
    centering: str
    invariance: float
    variance: float
    covariance: float
    out: str | Path | None
    size: int | None
    max_side: int | None
    channels: int | None
    depth: int | None
    frames: str | None
    max_pixels: int
    show_channels: str | None
    subset: str | None
    subset_seed: int
    test_data: str | None
    data_root: str | Path
    download: bool
    cache: str | Path | None
    stream: bool
    stream_buffer: int
    method: "str | Mapping[str, Any] | MethodSettings"
    keep: float | None
    keep_what: str
    init_from: str | None
    views: str
    magnitude: int
    randaugment_steps: int
    hard_source: str
    hard_views: int
    hard_crops: int
    hard_scale: float
    viewmaker_source: str
    viewmaker_budget: float
    viewmaker_lr: float
    infomin_labels: int
    crop: str | None
    crop_area: tuple[float, float] | None
    flip: float | None
    flip_vertical: float | None
    quarter_turns: float | None
    matters: str | None
    ignores: str | None
    forbid: str | None
    cap: str | None
    fill: str
    view_size: int | None
    views_global: int
    views_local: int
    local_size: int | None
    local_area: tuple[float, float]
    epochs: int
    batch_size: int
    accumulate: int
    optimizer: str
    lr: float | None
    lr_warmup_epochs: int
    weight_decay: float | None
    sgd_momentum: float
    seed: int
    warmup_epochs: int | None
    queue_size: int
    queue_p: float
    space: str | None
    search: "str | Mapping[str, Any] | SearchSettings"
    knn_every: int
    report: bool
    tensorboard: bool
    wandb: bool
    trackio: bool
    save_every: float
    keep_every: int
    accelerator: str
    devices: int
    num_nodes: int
    precision: str
    threads: int | None


class SettingsKeywords(PretrainKeywords, total=False):
    """Of `PretrainSettings.replaced`."""

    data: str
    encoder: str


class CompareKeywords(TypedDict, total=False):
    """Of `compare`."""

    temperature: float
    projector: int | None
    bank: int
    momentum: float
    predictor: int | None
    prototypes: int
    bottleneck: int | None
    student_temperature: float
    teacher_temperature: float
    teacher_start: float
    teacher_warmup: int
    centering: str
    invariance: float
    variance: float
    covariance: float
    out: str | Path
    size: int | None
    max_side: int | None
    channels: int | None
    depth: int | None
    frames: str | None
    max_pixels: int
    show_channels: str | None
    subset: str | None
    subset_seed: int
    test_data: str | None
    data_root: str | Path
    download: bool
    cache: str | Path | None
    stream: bool
    stream_buffer: int
    method: "str | Mapping[str, Any] | MethodSettings"
    keep: float | None
    keep_what: str
    init_from: str | None
    views: str | Sequence[str] | None
    magnitude: int
    randaugment_steps: int
    hard_source: str
    hard_views: int
    hard_crops: int
    hard_scale: float
    viewmaker_source: str
    viewmaker_budget: float
    viewmaker_lr: float
    infomin_labels: int
    crop: str | None
    crop_area: tuple[float, float] | None
    flip: float | None
    flip_vertical: float | None
    quarter_turns: float | None
    matters: str | None
    ignores: str | None
    forbid: str | None
    cap: str | None
    fill: str
    view_size: int | None
    views_global: int
    views_local: int
    local_size: int | None
    local_area: tuple[float, float]
    epochs: int
    batch_size: int
    accumulate: int
    optimizer: str
    lr: float | None
    lr_warmup_epochs: int
    weight_decay: float | None
    sgd_momentum: float
    seed: int
    warmup_epochs: int | None
    queue_size: int
    queue_p: float
    space: str | None
    search: "str | Mapping[str, Any] | SearchSettings"
    knn_every: int
    report: bool
    tensorboard: bool
    wandb: bool
    trackio: bool
    save_every: float
    keep_every: int
    accelerator: str
    devices: int
    num_nodes: int
    precision: str
    threads: int | None
    encoder: str
    variants: str | Path | Mapping[str, Any] | None
    seeds: int
    jobs: int
    launcher: str
    launcher_options: str | None
    k: int | None
    paper: bool
    probe_data: str | None
    probe_test_data: str | None
    dry_run: bool
    figures: str | Path | None
    progress: bool


class ReproduceKeywords(TypedDict, total=False):
    """Of `reproduce`."""

    scale: str
    data: str | None
    test_data: str | None
    subset: str | None
    columns: str | None
    rows: str | None
    seeds: int | None
    epochs: int | None
    precision: str | None
    out: str | Path | None
    data_root: str | Path
    download: bool
    jobs: int
    launcher: str
    launcher_options: str | None
    dry_run: bool
    progress: bool


class ChooseKeywords(TypedDict, total=False):
    """Of `choose`."""

    per_class: int | None
    matters: str | None
    ignores: str | None
    forbid: str | None
    cap: str | None
    keep: bool
    budget: str
    jobs: int | None
    launcher: str
    launcher_options: str | None
    out: str | Path
    size: int
    channels: int | None
    images: int
    pilots: int | None
    epochs: int | None
    encoder: str
    seed: int
    data_root: str | Path
    cache: str | Path | None
    dry_run: bool
    progress: bool


class EvaluateKeywords(TypedDict, total=False):
    """Of `evaluate`."""

    size: int | None
    frames: str | None
    subset: str | None
    data_root: str | Path | None
    download: bool
    cache: str | Path | None
    architecture: str | None
    batch_size: int
    device: str
    progress: bool
    labels: str | None
    k: int | None
    temperature: float
    whole: bool
    paper: bool
    finetune: Sequence[str | float]
    baselines: bool
    seed: int
    subset_seed: int | None
    out: str | Path | None


class EmbedKeywords(TypedDict, total=False):
    """Of `embed`."""

    size: int | None
    frames: str | None
    subset: str | None
    data_root: str | Path | None
    download: bool
    cache: str | Path | None
    architecture: str | None
    batch_size: int
    device: str
    progress: bool
    out: str | Path | None
    map: str | Path | None
    map_method: str
    overwrite: bool
    seed: int


class NeighboursKeywords(TypedDict, total=False):
    """Of `neighbours`."""

    size: int | None
    frames: str | None
    subset: str | None
    data_root: str | Path | None
    download: bool
    cache: str | Path | None
    architecture: str | None
    batch_size: int
    device: str
    progress: bool
    query: str | Path | Sequence[str | Path]
    out: str | Path | None
    count: int
    show_channels: str | None
    seed: int


class ExportKeywords(TypedDict, total=False):
    """Of `export`."""

    out: str | Path | None
    overwrite: bool
    progress: bool
