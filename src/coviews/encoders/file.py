"""An encoder as one file: its weights, its architecture, and the size and normalisation of its images."""

import contextlib
import json
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import safetensors.torch
import torch
from torch import nn

from coviews.boundary.checkpoints import read_tensors
from coviews.boundary.schema import Name, Schema
from coviews.boundary.weights import Weights, open_weights
from coviews.data.levels import MOST_CHANNELS, ValueRange, checked_range
from coviews.encoders.architectures import check_shapes, encoder_of_shapes
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole
from coviews.ops.images import LARGEST

FORMAT = 1
_Side = Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]  # of an image, in pixels


def save_encoder(
    path: Path,
    encoder: nn.Module,
    *,
    name: str | None,
    image_size: tuple[int, int],
    channels: int,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    depth: int = 8,
    values: ValueRange | None = None,
) -> None:
    """Write the encoder, complete or not at all; without a name it can be loaded only into a module like it.

    Args:
        path: the file.
        encoder: its weights are written.
        name: of the architecture.
        image_size: height and width of the images that it was trained on.
        channels: of these images.
        mean: of each channel in 0..1.
        std: the same for the standard deviation.
        depth: bits of a level of the images, 8 or 16.
        values: for each channel the values that became the lowest and highest level, if images were scaled.
    """
    description = {"format": FORMAT, "encoder": name, "image_size": image_size, "channels": channels}
    deep = {"depth": depth, "values": values} if (depth, values) != (8, None) else {}
    text = json.dumps({**description, **deep, "mean": mean, "std": std}, sort_keys=True)
    weights = {
        k: v.detach().cpu().clone(memory_format=torch.contiguous_format) for k, v in encoder.state_dict().items()
    }
    write_whole(path, safetensors.torch.save(weights, {"coviews": text}))


class EncoderDescription(Schema):
    """What an encoder is, and what its images are: in its file, or from the metrics of its run."""

    format: int
    encoder: Name | None  # None for a module of Python
    image_size: tuple[_Side, _Side]
    channels: Annotated[int, msgspec.Meta(ge=1, le=MOST_CHANNELS)]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    depth: Literal[8, 16] = 8
    values: ValueRange | None = None

    def __post_init__(self) -> None:
        if not len(self.mean) == len(self.std) == self.channels:
            raise ValueError(f"there must be a mean and a std for each of {self.channels} channels")
        if min(self.std) < 0:
            raise ValueError("a standard deviation must not be negative")
        if self.values is not None:
            checked_range(self.values, self.channels)


def load_encoder(path: str | Path, into: nn.Module | None = None) -> nn.Module:
    """The encoder of a run, in eval mode, with its `normalisation` (mean and standard deviation of each channel).

    Args:
        path: the run's folder, or its `encoder.safetensors`; no code in it is executed.
        into: a module of your own to load the weights into, for a run that trained one.
    """
    file = Path(path)
    file = file / "encoder.safetensors" if file.is_dir() else file
    with open_encoder_file(file) as weights:
        description, shapes = _described(weights), weights.shapes
    name = description.encoder
    if into is None and name is None:
        raise CoviewsError(f"{file} was made from a module of yours: give it as load_encoder(..., into=module)")
    if into is None:
        assert name is not None
        encoder = encoder_of_shapes(name, description.image_size, description.channels, shapes, file)
    else:
        encoder = into
    fill_encoder(encoder, read_tensors(file), name or type(encoder).__name__, file)
    encoder.normalisation = (description.mean, description.std)  # type: ignore[assignment]
    return encoder.eval()


def describe_encoder(file: Path) -> EncoderDescription:
    """The description in an encoder file."""
    with open_encoder_file(file) as weights:
        return _described(weights)


def open_encoder_file(file: Path) -> contextlib.AbstractContextManager[Weights]:
    """An encoder file, open."""
    if not file.exists():
        raise CoviewsError(f"there is no encoder file {file}; a run has one when its training has ended")
    return open_weights(file, "encoder file")


def _described(weights: Weights) -> EncoderDescription:
    weights.check_format(FORMAT)
    return weights.description(EncoderDescription)


def fill_encoder(encoder: nn.Module, weights: dict[str, torch.Tensor], name: str, file: Path) -> None:
    """Give an encoder its weights, all of which have to be there and to fit; it is then in eval mode."""
    check_shapes({k: tuple(v.shape) for k, v in encoder.state_dict().items()},
                 {k: tuple(v.shape) for k, v in weights.items()}, name, file)  # fmt: skip
    try:
        encoder.load_state_dict(weights)
    except (RuntimeError, NotImplementedError, ValueError, TypeError) as error:
        raise CoviewsError(f"{file} is not of the encoder {name}: {error}") from error
    encoder.eval()
