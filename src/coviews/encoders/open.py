"""Opening an encoder by its source: a run, a file, or the name of an encoder of torchvision or timm."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from coviews.boundary.checkpoints import is_plain_tensor, read_pickled, read_tensors
from coviews.boundary.schema import checked
from coviews.boundary.weights import open_weights
from coviews.compat import import_torchvision
from coviews.data.levels import MOST_CHANNELS, ValueRange
from coviews.encoders.architectures import SMALL, WIDTHS, encoder_of_shapes, make_encoder
from coviews.encoders.file import (
    FORMAT,
    EncoderDescription,
    describe_encoder,
    fill_encoder,
    load_encoder,
)
from coviews.errors import CoviewsError
from coviews.runs.folder import Run, read_checkpoint

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_FULL, _TINY = 224, 32  # sides of images: with a ResNet's usual stem, and with that for small images
_PREFIXES = ("module.", "model.", "encoder.", "backbone.")
_HEADS = ("fc.", "head.", "classifier.", "projector.", "projection_head.")


@dataclass(frozen=True)
class OpenedEncoder:
    """An encoder in eval mode, with its name, image size and normalisation."""

    encoder: nn.Module
    name: str  # of its architecture
    size: tuple[int, int] | None  # (height, width) of its training images, if known
    channels: int | None
    normalisation: tuple[tuple[float, ...], tuple[float, ...]] | None  # mean and std; None if not known
    run: Path | None = None  # the folder of its run
    epoch: int | None = None  # the number of complete epochs, if the run has not ended
    depth: int | None = None  # bits of a level of its training images, if known
    values: ValueRange | None = None  # that became the lowest and highest level, if its training images were scaled

    def untrained(self, size: tuple[int, int], channels: int) -> Callable[[], nn.Module]:
        """A function that makes an encoder of the same architecture with new weights."""

        def shapes(module: nn.Module) -> dict[str, torch.Size]:
            return {name: weight.shape for name, weight in module.state_dict().items()}

        def make() -> nn.Module:
            encoder = make_encoder(self.name, size, channels)
            if shapes(encoder) == shapes(self.encoder):
                return encoder
            # the stem depends on the image size, and this encoder has the other one
            return make_encoder(self.name, _FULL if min(size) < SMALL else _TINY, channels)

        return make


def open_encoder(
    source: str | Path, *, architecture: str | None = None, size: int | None = None, download: bool = False
) -> OpenedEncoder:
    """An encoder by its source; no code in a file is executed.

    Args:
        source: the folder of a run (finished or not), an `encoder.safetensors`, a state dict of weights from elsewhere
            (.pt, .pth, .safetensors), or a name such as `resnet50` or `timm/convnext_nano` for published weights.
        architecture: the name of the encoder that a state dict is of.
        size: the side of the images, if the architecture depends on it; by default 224, or inferred from the weights.
        download: download the published weights of a name.
    """
    path = Path(source)
    if path.is_dir():
        return _of_run(path)
    if path.is_file():
        return _of_file(path, architecture, size)
    name = str(source)
    if is_file_name(name):
        raise CoviewsError(f"there is no run or file {source}")
    return _published(name, size or _FULL, download)


def is_file_name(name: str) -> bool:
    """Whether a text must be the name of a file or folder, rather than that of an encoder."""
    return Path(name).suffix in (".pt", ".pth", ".safetensors") or (
        "/" in name and re.fullmatch("timm/[^/]*", name) is None
    )


def _of_run(path: Path) -> OpenedEncoder:
    if (path / "encoder.safetensors").exists():
        return _of_coviews(path / "encoder.safetensors", path)
    if is_encoder_of_run(path / "model.safetensors"):  # as `export --format huggingface` writes it
        return _of_coviews(path / "model.safetensors", None)
    run = Run.open(path, writes=False)
    if not run.checkpoint.exists():
        raise CoviewsError(f"the run {path} has no checkpoint yet: wait, or continue it with --resume")
    start = next((r for r in run.metrics() if r.get("kind") == "start"), {})
    facts = {name: start[name] for name in ("channels", "mean", "std", "depth", "values") if name in start}
    size = [start.get("height"), start.get("width")]
    description = checked(
        {"format": FORMAT, "encoder": run.settings.encoder, "image_size": size, **facts},
        EncoderDescription, f"how the run {path} started, as its metrics have it,",
    )  # fmt: skip
    name = run.settings.encoder
    if name.startswith("module "):
        raise _needs_python(path)
    saved = read_checkpoint(run.checkpoint)
    weights = {k.removeprefix("encoder."): v for k, v in saved["method"].items() if k.startswith("encoder.")}
    shapes = {k: tuple(v.shape) for k, v in weights.items()}
    encoder = encoder_of_shapes(name, description.image_size, description.channels, shapes, run.checkpoint)
    fill_encoder(encoder, weights, name, run.checkpoint)
    return _opened(encoder, description, path, epoch=saved["epoch"] - 1)


def _of_coviews(file: Path, run: Path | None) -> OpenedEncoder:
    description = describe_encoder(file)
    if description.encoder is None:
        raise _needs_python(run or file)
    return _opened(load_encoder(file), description, run)


def _opened(encoder: nn.Module, about: EncoderDescription, run: Path | None, epoch: int | None = None) -> OpenedEncoder:
    return OpenedEncoder(
        encoder, about.encoder or "", about.image_size, about.channels, (about.mean, about.std), run, epoch=epoch,
        depth=about.depth, values=about.values,
    )  # fmt: skip


def _needs_python(source: Path) -> CoviewsError:
    return CoviewsError(
        f"{source} was trained from a module of your own, which no file can tell: in Python, "
        f"coviews.load_encoder({str(source)!r}, into=your_module) gives it its weights"
    )


def _of_file(file: Path, architecture: str | None, size: int | None) -> OpenedEncoder:
    if is_encoder_of_run(file):
        return _of_coviews(file, file.parent if (file.parent / "config.yaml").exists() else None)
    weights = read_weights(file)
    if architecture is None:
        raise CoviewsError(f"{file} does not say of which encoder it is: give --architecture, such as resnet50")
    weights = bare_weights(weights, file)
    channels = next((v.shape[1] for v in weights.values() if v.ndim == 4), 3)
    if size is None:
        stem = weights.get("conv1.weight")
        size = _TINY if stem is not None and stem.ndim == 4 and stem.shape[-1] == 3 else _FULL
    channels = channels if 1 <= channels <= MOST_CHANNELS else 3
    shapes = {k: tuple(v.shape) for k, v in weights.items()}
    encoder = encoder_of_shapes(architecture, (size, size), channels, shapes, file)
    fill_encoder(encoder, weights, architecture, file)
    return OpenedEncoder(encoder, architecture, None, channels, None)


def is_encoder_of_run(file: Path) -> bool:
    """Whether a file is an encoder of a run."""
    if file.suffix != ".safetensors" or not file.exists():
        return False
    with open_weights(file, "file of weights") as content:
        return content.has_description


def read_weights(file: Path) -> Any:
    """What a file of weights holds; no code in it is executed."""
    return read_tensors(file) if file.suffix == ".safetensors" else read_pickled(file, "file of weights")


def bare_weights(weights: Any, file: str | Path) -> dict[str, torch.Tensor]:
    """The weights of the backbone under its own names: without the prefixes of wrappers, and without heads."""
    for key in ("state_dict", "model", "teacher"):
        if isinstance(weights, dict) and isinstance(weights.get(key), dict):
            weights = weights[key]
    if not isinstance(weights, dict) or not weights or not all(isinstance(k, str) for k in weights):
        raise CoviewsError(f"{file} holds no state dict: names with tensors")
    if not all(is_plain_tensor(v) for v in weights.values()):
        raise CoviewsError(f"{file} holds more than plain tensors: a state dict has names with dense arrays of numbers")
    for prefix in _PREFIXES * 2:
        inside = {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}
        weights = inside or weights
    return {k: v for k, v in weights.items() if not k.startswith(_HEADS)}


def _published(name: str, size: int, download: bool) -> OpenedEncoder:
    check_published(name, download, size)
    model = published_model(name)
    if name.startswith("timm/"):
        normalisation = (tuple(model.default_cfg["mean"]), tuple(model.default_cfg["std"]))
        return OpenedEncoder(model.eval(), name, None, 3, normalisation)
    model.feature_count, model.fc = model.fc.in_features, nn.Identity()
    return OpenedEncoder(model.eval(), name, None, 3, IMAGENET)


def check_published(name: str, download: bool, size: int = _FULL) -> None:
    """Raise an error if there are no published weights of this name, or they may not be fetched."""
    try:
        make_encoder(name, size, 3)
    except CoviewsError as error:
        raise CoviewsError(f"there is no run or file {name!r}; as the name of an encoder: {error}") from error
    if name in WIDTHS:
        raise CoviewsError(f"{name} has no published weights: give a run, or a file with --architecture {name}")
    if not download:
        raise CoviewsError(
            f"{name} is the name of an encoder: add --download for its published weights, or give a run or a file"
        )


def published_model(name: str, image_size: tuple[int, int] | None = None, channels: int = 3) -> Any:
    """A model with its published weights; one of timm for such images, where they are given."""
    torchvision = import_torchvision()
    try:
        if not name.startswith("timm/"):
            return torchvision.models.get_model(name, weights="DEFAULT")
        import timm

        short = name.removeprefix("timm/")
        plain: dict[str, Any] = {"pretrained": True, "num_classes": 0, "in_chans": channels}
        if image_size is None:
            return timm.create_model(short, **plain)
        height, width = image_size
        try:
            return timm.create_model(short, img_size=height if height == width else image_size, **plain)
        except TypeError:  # most convolutional networks take every size, and no such argument
            return timm.create_model(short, **plain)
    except Exception as error:  # no network, no weights of that name
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CoviewsError(
            f"cannot fetch the published weights of {name}: {reason}; without a network, give a file of them: "
            f"pretrain --init-from FILE, or evaluate FILE --architecture {name}"
        ) from error
