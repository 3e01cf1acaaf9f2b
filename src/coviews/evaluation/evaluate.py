"""`evaluate`: what an encoder from anywhere is worth on images from anywhere."""

import dataclasses
import hashlib
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from torch import nn

import coviews
from coviews.console.progress import waiting
from coviews.data.load import ImageSet, load_images
from coviews.encoders.architectures import check_encoder
from coviews.encoders.frozen import device_of
from coviews.encoders.images import move_to_device, normalisation, own_data
from coviews.encoders.open import OpenedEncoder, open_encoder
from coviews.errors import CoviewsError
from coviews.evaluation.crops import AREA
from coviews.evaluation.judge import check_measures
from coviews.evaluation.judge import evaluate as judge
from coviews.evaluation.knn import TEMPERATURE, K
from coviews.evaluation.records import FILE, append_record, check_place
from coviews.evaluation.text_tables import as_text, result_tables
from coviews.ops.images import Images
from coviews.runs.folder import Run
from coviews.runs.settings import FROM_PYTHON, PretrainSettings

_PUBLISHED = 128  # pixels below which published weights, which are made for about 224, tell little of an image
_COMPARED = 1 << 31  # bytes of images up to which test images are looked for among the training images


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """What was measured, of what, and how; printed, it is the table that the command shows."""

    time: str
    version: str  # of coviews
    source: str
    encoder: str  # its architecture
    data: str
    test_data: str | None
    options: dict[str, Any]
    results: dict[str, Any]  # accuracies are shares in 0..1
    kept: Path | None  # the file that it was added to

    @property
    def record(self) -> dict[str, Any]:
        """As the file has it."""
        return {name: value for name, value in vars(self).items() if name != "kept"}

    def __rich__(self) -> RenderableType:
        return result_tables(self.results, self._heading())

    def __repr__(self) -> str:
        return as_text(self)

    def _heading(self) -> list[str]:
        found, images = self.results, self.results["images"]
        (height, width), done, epochs = (self.options[name] for name in ("size", "epoch", "epochs"))
        unfinished = "" if done is None else f", unfinished: {done} of {epochs} epochs"
        part = "" if self.options["subset"] is None else f" (subset {self.options['subset']})"
        sets = f"{self.data}{part}: {images['train']:,} images"
        if images["test"]:
            other = "" if self.test_data is None else f"{self.test_data}: "
            sets += f" to learn from; {other}{images['test']:,} to judge"
        classes = f"; {len(found['classes'])} classes" if "classes" in found else ""
        return [
            f"{self.source}: {self.encoder}, {found['features']:,} features{unfinished}",
            f"{sets}; {height} x {width} pixels{classes}",
        ]


def evaluate(
    source: str | Path | nn.Module,
    data: Any = None,
    test_data: Any = None,
    *,
    k: int = K,
    temperature: float = TEMPERATURE,
    whole: bool = False,
    paper: bool = False,
    finetune: Sequence[str | float] = (),
    baselines: bool = True,
    seed: int = 0,
    architecture: str | None = None,
    size: int | None = None,
    subset: str | int | None = None,
    subset_seed: int | None = None,
    data_root: str | Path | None = None,
    download: bool = False,
    cache: str | Path | None = None,
    batch_size: int = 256,
    device: str = "auto",
    out: str | Path | None = None,
    progress: bool = True,
) -> Evaluation:
    """Tell what an encoder is worth: kNN, linear probes and quality without labels, beside baselines.

    Args:
        source: the folder of a run (finished or not), its encoder.safetensors, a state dict from elsewhere, the name
            of an encoder with published weights, or a module of your own that gives a vector for each image.
        data: images to learn from, anything that `load_images` takes; by default those of the run.
        test_data: images to judge; by default those of the run, or else a fifth of `data` is held out.
        k: neighbours that vote; at most one for every 25 images to learn from.
        temperature: of their vote.
        whole: the linear probe that learns from whole images as well.
        paper: the paper's linear probe as well: SGD, 100 epochs of random crops, five heads.
        finetune: shares of the labels, such as "1%" or 0.1, to fine-tune a copy of the encoder with.
        baselines: measure the untrained encoder and raw pixels too.
        seed: for all that is drawn.
        architecture: the name of the encoder that a state dict is of.
        size: the side of the images; by default that of the encoder's training, or their own.
        subset: learn from a part, "10%" or 5000 images; of a run's own data by default what the run took.
        subset_seed: chooses the subset.
        data_root: where known sets are; by default as in the run, or "data".
        download: fetch a known set, or published weights.
        cache: where images that do not fit into memory are kept decoded.
        batch_size: images that pass the encoder at once.
        device: auto, cpu, cuda or mps; a module of your own stays where it is.
        out: the file that the results are added to; by default evaluations.jsonl in the run, if it is one.
        progress: show what is going on where it takes long.
    """
    fractions = [_fraction(share) for share in finetune]
    check_measures(k, temperature, fractions)
    for name, value, least in (("seed", seed, 0), ("batch-size", batch_size, 1), ("size", size, 1)):
        if value is not None and value < least:
            raise CoviewsError(f"--{name} must be {least} or more, not {value}")
    own = isinstance(source, nn.Module)
    if own and device != "auto":
        raise CoviewsError(f"a module of your own is evaluated where it is: move it to {device} beforehand")
    opened = _opened(source, architecture, size, download)
    _check_weights(opened.encoder, "the encoder" if own else str(source))
    settings = _settings(opened)
    kept = _place(settings, opened.run, out)
    sets = _sets(opened, settings, data, test_data, subset, subset_seed)
    where_data_is: dict[str, Any] = {
        "root": data_root or (settings.data_root if settings else "data"),
        "cache": cache or (settings.cache if settings else None),
        "download": download,
    }
    train, test = sets.load(opened.size if size is None else size, opened.channels, progress=progress, **where_data_is)
    _, height, width, channels = train.images.shape
    if not own and size is None and not Path(str(source)).exists():
        _say_if_small(opened.name, height, width)
    try:
        check_encoder(opened.encoder, (height, width), channels, opened.name)
    except CoviewsError as error:
        raise CoviewsError(f"{error}; --size sets the side of the images") from error
    with waiting("comparing training and test images" if progress else ""):
        _say_if_shared(train, test)
    where = device_of(opened.encoder) if own else move_to_device(opened.encoder, device)
    mean, std = normalisation(opened, train)
    results = judge(
        opened.encoder, train, test, mean=mean, std=std, k=k, temperature=temperature, seed=seed,
        whole=whole, paper=paper,
        untrained=opened.untrained((height, width), channels) if baselines and not own else None, pixels=baselines,
        finetune=fractions, batch=batch_size, device=where, progress=progress,
        crop=AREA if settings is None else settings.crop_area if settings.crop else None,
        flip=0.5 if settings is None or settings.flip else 0.0,
    )  # fmt: skip
    if baselines and own:
        why = "coviews cannot make a module of yours anew"
        results["missing"].append({"name": "untrained", "reason": why})
    made = Evaluation(
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        version=coviews.__version__,
        source=f"{FROM_PYTHON}{opened.name}" if own else str(source),
        encoder=opened.name,
        data=_called(sets.data),
        test_data=None if sets.test_data is None else _called(sets.test_data),
        options={
            "k": k, "temperature": temperature, "whole": whole, "paper": paper,
            "finetune": [f"{100 * f:g}%" for f in fractions],
            "baselines": baselines, "seed": seed, "size": [height, width], "channels": channels,
            "subset": sets.subset, "subset_seed": sets.subset_seed, "batch_size": batch_size, "device": str(where),
            "epoch": opened.epoch, "epochs": None if settings is None else settings.epochs,
        },
        results=results,
        kept=kept,
    )  # fmt: skip
    return made if kept is None else _keep(made, kept)


# ---------------------------------------------------------------------------------------------- the encoder


def _opened(
    source: str | Path | nn.Module, architecture: str | None, size: int | None, download: bool
) -> OpenedEncoder:
    if isinstance(source, nn.Module):
        return OpenedEncoder(source, type(source).__name__, None, None, getattr(source, "normalisation", None))
    opened = open_encoder(source, architecture=architecture, size=size, download=download)
    if architecture not in (None, opened.name):
        raise CoviewsError(f"{source} is of the encoder {opened.name}, not of {architecture}")
    return opened


def _check_weights(encoder: nn.Module, name: str) -> None:
    for key, weight in encoder.state_dict().items():
        if weight.is_floating_point() and not weight.isfinite().all():
            raise CoviewsError(
                f"{name} holds weights that are not finite ({key}): its training diverged, try an earlier checkpoint"
            )


def _settings(opened: OpenedEncoder) -> PretrainSettings | None:
    """Those of the run that the encoder is of."""
    if opened.run is None or not (opened.run / "config.yaml").is_file():
        return None
    return Run.open(opened.run, writes=False).settings


def _say_if_small(name: str, height: int, width: int) -> None:
    if min(height, width) < _PUBLISHED:
        warnings.warn(
            f"the published weights of {name} were made for larger images than {height} x {width}: "
            "--size 224 may do them justice",
            stacklevel=3,
        )


# ----------------------------------------------------------------------------------------------- the images


@dataclass(frozen=True)
class _Sets:
    """Which images are learned from, and which are judged."""

    data: Any
    test_data: Any
    subset: str | int | None
    subset_seed: int
    of_run: bool  # the data are the run's own

    def load(
        self, size: int | tuple[int, int] | None, channels: int | None, **where: Any
    ) -> tuple[ImageSet, ImageSet | None]:
        try:
            train = load_images(
                self.data, size=size, channels=channels, subset=self.subset, subset_seed=self.subset_seed, **where
            )
        except CoviewsError as error:
            if not self.of_run:
                raise
            raise CoviewsError(f"cannot load the data of the run: {error}; or give others by --data") from error
        if self.test_data is None:
            return train, None
        _, height, width, found = train.images.shape
        return train, load_images(self.test_data, size=(height, width), channels=found, **where)


def _sets(
    opened: OpenedEncoder, settings: PretrainSettings | None, data: Any, test_data: Any, subset: Any, seed: int | None
) -> _Sets:
    """What is given; without `data`, what the run was trained on and judged by."""
    if data is not None:
        return _Sets(data, test_data, subset, seed or 0, of_run=False)
    data = own_data(opened)
    assert settings is not None
    return _Sets(
        data,
        settings.test_data if test_data is None else test_data,
        settings.subset if subset is None else subset,
        settings.subset_seed if seed is None else seed,
        of_run=True,
    )


def _say_if_shared(train: ImageSet, test: ImageSet | None) -> None:
    """Warn where test images are among the training images: to know them is no merit."""
    if test is None or train.images.nbytes + test.images.nbytes > _COMPARED:
        return
    known = set(_digests(train.images))
    shared = sum(digest in known for digest in _digests(test.images))
    if shared:
        warnings.warn(
            f"{shared:,} of {len(test):,} test images are among the training images, to the last pixel: accuracies "
            "will be too high",
            stacklevel=3,
        )


def _digests(images: Images) -> list[bytes]:
    return [hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in images]


def _called(data: Any) -> str:
    return str(data) if isinstance(data, str | Path) else f"{FROM_PYTHON}{type(data).__name__}"


def _fraction(share: str | float) -> float:
    """1% or 0.01 as a number."""
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(%?)\s*", str(share), re.ASCII)
    if not found or not 0 < float(found[1]) <= (100 if found[2] else 1):
        raise CoviewsError(f"write a share of the labels as 1% or 0.01, not {share!r}")
    return float(found[1]) / (100 if found[2] else 1)


# ---------------------------------------------------------------------------------------------- the results


def _place(settings: PretrainSettings | None, run: Path | None, out: str | Path | None) -> Path | None:
    """The file for the results, if there is to be one; checked before the work."""
    if out is not None:
        check_place(Path(out))
        return Path(out)
    if settings is None or run is None:
        return None
    try:
        check_place(run / FILE)
    except CoviewsError as error:  # someone else's run can be looked at all the same
        warnings.warn(f"{error}: the results will not be kept, unless you give --out FILE", stacklevel=3)
        return None
    return run / FILE


def _keep(made: Evaluation, place: Path) -> Evaluation:
    try:
        append_record(place, made.record)
    except CoviewsError as error:  # a full disk should not take from the user what was measured
        warnings.warn(f"{error}: the results are not kept", stacklevel=3)
        return dataclasses.replace(made, kept=None)
    return made
