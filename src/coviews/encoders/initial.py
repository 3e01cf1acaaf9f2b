"""The weights that a training starts from: of a run, of a file, or published ones."""

import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from coviews.encoders.file import fill_encoder
from coviews.encoders.open import (
    bare_weights,
    check_published,
    is_encoder_of_run,
    is_file_name,
    open_encoder,
    published_model,
    read_weights,
)
from coviews.errors import CoviewsError


def start_from(
    source: str, encoder: nn.Module, name: str, image_size: tuple[int, int], channels: int, *, download: bool
) -> None:
    """Give an encoder the weights that the source has for it; the first layer is adapted to its channels.

    Args:
        source: the folder of a run, an `encoder.safetensors`, a state dict (.pt, .pth, .safetensors), or the encoder's
            name for its published weights.
        encoder: what gets the weights.
        name: of the encoder.
        image_size: height and width of the images that it will be trained on.
        channels: of these images.
        download: whether published weights may be fetched.
    """
    weights = _weights(source, name, image_size, channels, download)
    fill_encoder(encoder, _with_first_layer_of(encoder, weights, source, channels), name, Path(source))
    encoder.train()


def _weights(source: str, name: str, image_size: tuple[int, int], channels: int, download: bool) -> dict[str, Tensor]:
    path = Path(source)
    if path.is_dir():
        for file in (path / "encoder.safetensors", path / "model.safetensors"):
            if file.exists():
                return _of_file(file)
        return open_encoder(path).encoder.state_dict()  # of the last checkpoint
    if path.is_file():
        return _of_file(path)
    if is_file_name(source):
        raise CoviewsError(f"--init-from: there is no run or file {source}")
    check_published(source, download)
    if source != name:
        raise CoviewsError(f"--init-from {source} has the weights of another encoder: add --encoder {source}")
    return bare_weights(published_model(source, image_size, channels).state_dict(), source)


def _of_file(file: Path) -> dict[str, Tensor]:
    """The weights of an encoder as they are, and those of other files under the names of the encoder alone."""
    weights = read_weights(file)
    return dict(weights) if is_encoder_of_run(file) else bare_weights(weights, file)


def _with_first_layer_of(
    encoder: nn.Module, weights: dict[str, Tensor], source: str, channels: int
) -> dict[str, Tensor]:
    """The weights with a first layer for so many channels; where its kernel is of another size, a new one."""
    state = encoder.state_dict()
    name = next((k for k, v in state.items() if v.ndim == 4), None)
    if name is None or name not in weights or weights[name].ndim != 4 or weights[name].shape == state[name].shape:
        return weights
    old, new = weights[name], state[name]
    if old.shape[2:] != new.shape[2:] and old.shape[0] == new.shape[0]:
        warnings.warn(
            f"the first layer starts untrained: that of {source} has a kernel of {_sides(old)}, and that for these "
            f"images {_sides(new)}; images of 64 pixels or more (--size) can use it",
            stacklevel=2,
        )
        return {**weights, name: new}
    if new.shape[1] != channels or old.shape[0] != new.shape[0]:
        return weights  # not of this encoder
    return {**weights, name: adapted(old, channels)}


def adapted(weight: Tensor, channels: int) -> Tensor:
    """A first layer (O, C, H, W) for another number of channels; an image of equal channels gives what it gave before.

    For fewer channels weights are added up, so that one channel gets their sum; for more they are shared.
    """
    before = weight.shape[1]
    groups = [k % min(channels, before) for k in range(max(channels, before))]  # what comes together
    if channels <= before:
        return torch.stack([weight[:, [j for j in range(before) if groups[j] == k]].sum(1) for k in range(channels)], 1)
    return torch.stack([weight[:, k] / groups.count(k) for k in groups], 1)


def _sides(weight: Tensor) -> str:
    return " x ".join(map(str, weight.shape[2:]))
