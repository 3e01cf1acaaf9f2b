"""`evaluate`: what an encoder from anywhere is worth on images from anywhere."""

import dataclasses
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Unpack

from rich.console import RenderableType
from torch import nn

import coviews
from coviews.console.option_types import EvaluateKeywords
from coviews.console.options import replaced
from coviews.console.progress import waiting
from coviews.encoders.architectures import check_encoder
from coviews.encoders.frozen import device_of
from coviews.encoders.images import move_to_device, normalisation, reading_of, run_settings, warn_if_shallow
from coviews.encoders.open import OpenedEncoder, open_encoder
from coviews.errors import CoviewsError
from coviews.evaluation.judge import judge
from coviews.evaluation.options import EvaluateOptions
from coviews.evaluation.records import append_record, results_file
from coviews.evaluation.text_tables import as_text, result_tables
from coviews.evaluation.train_and_test import choose_data, data_label, shared_images, shared_text
from coviews.ops.engine import AREA
from coviews.runs.settings import FROM_PYTHON

_PUBLISHED = 128  # pixels below which published weights, which are made for about 224, say little about an image


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """The results of `evaluate` and how they were measured; printed, it is the table that the command shows."""

    time: str
    version: str  # of coviews
    source: str
    encoder: str  # its architecture
    data: str
    test_data: str | None
    options: dict[str, Any]
    results: dict[str, Any]  # accuracies are shares in 0..1
    file: Path | None  # that it was added to

    @property
    def record(self) -> dict[str, Any]:
        """As the file has it."""
        return {name: value for name, value in vars(self).items() if name != "file"}

    def __rich__(self) -> RenderableType:
        return result_tables(self.results, self._heading())

    def __repr__(self) -> str:
        return as_text(self)

    def _heading(self) -> list[str]:
        results, images = self.results, self.results["images"]
        (height, width), done, epochs = (self.options[name] for name in ("size", "epoch", "epochs"))
        unfinished = "" if done is None else f", unfinished: {done} of {epochs} epochs"
        part = "" if self.options["subset"] is None else f" (subset {self.options['subset']})"
        sets = f"{self.data}{part}: {images['train']:,} images"
        if images["test"]:
            other = "" if self.test_data is None else f"{self.test_data}: "
            sets += f" to learn from; {other}{images['test']:,} to judge"
        classes = f"; {len(results['classes'])} classes" if "classes" in results else ""
        return [
            f"{self.source}: {self.encoder}, {results['features']:,} features{unfinished}",
            f"{sets}; {height} x {width} pixels{classes}",
        ]


def evaluate(
    source: str | Path | nn.Module,
    data: Any = None,
    test_data: Any = None,
    *,
    options: EvaluateOptions | None = None,
    **changes: Unpack[EvaluateKeywords],
) -> Evaluation:
    """Tell what an encoder is worth: kNN, linear probes and quality without labels, beside baselines.

    Args:
        source: the folder of a run (finished or not), its encoder.safetensors, a state dict from elsewhere, the name
            of an encoder with published weights, or a module of your own that gives a vector for each image (it stays
            on its device).
        data: images to learn from, anything that `load_images` takes; by default those of the run.
        test_data: images to judge; by default those of the run, or else a fifth of `data` is held out.
        options: how it is measured; the defaults of `EvaluateOptions` if none.
        changes: fields of `EvaluateOptions` that differ from `options`, such as `finetune=["1%"]`.
    """
    options = replaced(options or EvaluateOptions(), changes)

    # the encoder
    own = isinstance(source, nn.Module)
    if own and options.device != "auto":
        raise CoviewsError(f"a module of your own is evaluated where it is: move it to {options.device} beforehand")
    model = _open(source, options)
    _check_weights(model.encoder, "the encoder" if own else str(source))
    settings = run_settings(model)
    file = results_file(model.run if settings else None, options.out)

    # the images
    sets = choose_data(model, settings, data, test_data, options)
    train, test = sets.load(
        model.size if options.size is None else options.size,
        model.channels,
        root=options.data_root or (settings.data_root if settings else "data"),
        cache=options.cache or (settings.cache if settings else None),
        download=options.download,
        progress=options.progress,
        **reading_of(model, options.frames),
    )
    warn_if_shallow(model, train)
    _, height, width, channels = train.images.shape
    if not own and options.size is None and not Path(str(source)).exists():
        _warn_if_small(model.name, height, width)
    try:
        check_encoder(model.encoder, (height, width), channels, model.name)
    except CoviewsError as error:
        raise CoviewsError(f"{error}; --size sets the side of the images") from error
    with waiting("comparing training and test images" if options.progress else ""):
        shared = shared_images(train, test)
    if shared and test is not None:
        warnings.warn(shared_text(shared, len(test)), stacklevel=2)

    # the measures
    device = device_of(model.encoder) if own else move_to_device(model.encoder, options.device)
    mean, std = normalisation(model, train)
    placement = settings.placement if settings else None
    results = judge(
        model.encoder, train, test, options, mean=mean, std=std, device=device,
        untrained=model.untrained((height, width), channels) if options.baselines and not own else None,
        crop=AREA if placement is None else None if placement.crop == "none" else placement.area,
        flip=0.5 if placement is None else placement.flip,
    )  # fmt: skip
    results["images"]["shared"] = shared
    if options.baselines and own:
        reason = "coviews cannot make a module of yours anew"
        results["missing"].append({"name": "untrained", "reason": reason})
    evaluation = Evaluation(
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        version=coviews.__version__,
        source=f"{FROM_PYTHON}{model.name}" if own else str(source),
        encoder=model.name,
        data=data_label(sets.data),
        test_data=None if test is None else data_label(sets.test_data),
        options={
            "k": options.k, "temperature": options.temperature, "whole": options.whole, "paper": options.paper,
            "finetune": [f"{100 * fraction:g}%" for fraction in options.fractions],
            "baselines": options.baselines, "seed": options.seed, "size": [height, width], "channels": channels,
            "subset": sets.subset, "subset_seed": sets.subset_seed, "batch_size": options.batch_size,
            "device": str(device), "epoch": model.epoch, "epochs": None if settings is None else settings.epochs,
        },
        results=results,
        file=file,
    )  # fmt: skip
    return _record(evaluation)


def _open(source: str | Path | nn.Module, options: EvaluateOptions) -> OpenedEncoder:
    if isinstance(source, nn.Module):
        return OpenedEncoder(source, type(source).__name__, None, None, getattr(source, "normalisation", None))
    model = open_encoder(source, architecture=options.architecture, size=options.size, download=options.download)
    if options.architecture not in (None, model.name):
        raise CoviewsError(f"{source} is of the encoder {model.name}, not of {options.architecture}")
    return model


def _check_weights(encoder: nn.Module, name: str) -> None:
    for key, weight in encoder.state_dict().items():
        if weight.is_floating_point() and not weight.isfinite().all():
            raise CoviewsError(
                f"{name} holds weights that are not finite ({key}): its training diverged, try an earlier checkpoint"
            )


def _warn_if_small(name: str, height: int, width: int) -> None:
    if min(height, width) < _PUBLISHED:
        warnings.warn(
            f"the published weights of {name} were made for larger images than {height} x {width}: "
            "--size 224 may do them justice",
            stacklevel=3,
        )


def _record(evaluation: Evaluation) -> Evaluation:
    """Add it to its file; a full disk should not take from the user what was measured."""
    if evaluation.file is None:
        return evaluation
    try:
        append_record(evaluation.file, evaluation.record)
    except CoviewsError as error:
        warnings.warn(f"{error}: the results are not kept", stacklevel=3)
        return dataclasses.replace(evaluation, file=None)
    return evaluation
