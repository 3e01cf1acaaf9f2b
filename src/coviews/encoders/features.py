"""The features of images: one vector per image, computed in batches, without changing the encoder."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from coviews.console.progress import shown
from coviews.encoders.architectures import described
from coviews.encoders.frozen import device_of, evaluating
from coviews.encoders.pixels import to_tensors
from coviews.errors import CoviewsError
from coviews.ops.images import Images, check_images

Features = NDArray[np.float32]  # (N, D)
MOST_PIXELS = 1 << 22  # of a batch on the CPU, such as 83 images of 224 pixels: its memory stays bounded


def features(
    encoder: nn.Module,
    images: Images,
    mean: Sequence[float],
    std: Sequence[float],
    *,
    batch: int = 256,
    device: torch.device | str | None = None,
    change: Callable[[Images], Images] | None = None,
    progress: bool = False,
    title: str = "features",
) -> Features:
    """The features (N, D) of all images, with the encoder in eval mode; its modes are restored.

    Args:
        encoder: a module that maps each image to a vector, or to a feature map, which is flattened.
        images: (N, H, W, C) in uint8 or uint16; a memory map is read batch by batch.
        mean: of each channel in 0..1, as in training.
        std: the same for the standard deviation.
        batch: the number of images in a batch; on the CPU fewer, if they are large.
        device: the device of the encoder; by default that of its first parameter.
        change: applied to each batch (B, H, W, C) before it is encoded, such as a random crop.
        progress: show a progress bar if it takes more than two seconds.
        title: the title of the bar.
    """
    rows = np.empty((0, 0), np.float32)
    done = 0
    device = device_of(encoder, device)
    parts = feature_batches(encoder, images, mean, std, batch=batch, device=device, change=change)
    for part in shown(parts, title if progress else "", -(-len(images) // _batch_size(images, batch, device))):
        if not done:
            rows = np.empty((len(images), part.shape[1]), np.float32)
        rows[done : done + len(part)] = part.cpu().numpy()
        done += len(part)
    return check_features(rows, "features")


def feature_batches(
    encoder: nn.Module,
    images: Images,
    mean: Sequence[float],
    std: Sequence[float],
    *,
    batch: int = 256,
    device: torch.device | str | None = None,
    change: Callable[[Images], Images] | None = None,
) -> Iterator[Tensor]:
    """The features (B, D) of the images, batch by batch, in float32 and on the device.

    Args:
        encoder, images, mean, std, batch, device, change: as for `features`.
    """
    where = device_of(encoder, device)
    batch = _batch_size(images, batch, where)
    for start in range(0, len(images), batch):
        part = check_images(np.array(images[start : start + batch]))  # a copy: a memory map may not be writable
        if change is not None:
            part = change(part)
        with evaluating(encoder):  # for this batch only: between two batches the encoder is in its own modes
            output = encoder(to_tensors(part[:, None], mean, std, where)[0])
        if not isinstance(output, Tensor) or output.ndim < 2 or len(output) != len(part):
            raise CoviewsError(
                f"the encoder must give a vector for each of {len(part)} images, but gives {described(output)}"
            )
        yield output.flatten(1).float()


def _batch_size(images: Images, wanted: int, device: torch.device) -> int:
    """As many images as are wanted; on the CPU, no more than MOST_PIXELS have. An error if either is wrong."""
    check_images(images[:1] if isinstance(images, np.ndarray) and images.ndim else images)
    if wanted < 1:
        raise CoviewsError(f"a batch needs at least one image, not {wanted}")
    most = MOST_PIXELS // (images.shape[1] * images.shape[2]) if device.type == "cpu" else wanted
    return max(1, min(wanted, most))


def check_features(values: Any, title: str) -> Features:
    """The features as (N, D) in float32, or an error that says what is wrong with them."""
    array = np.asarray(values)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "fiu":
        raise CoviewsError(f"{title} must be numbers (N, D), at least one row, not {array.dtype} {array.shape}")
    array = np.require(array, np.float32, ["C", "W"])  # torch warns of read-only arrays
    good = np.isfinite(array).all(1)
    if not good.all():
        raise CoviewsError(
            f"{title} of {len(good) - good.sum()} of {len(good)} images are not finite, first of image "
            f"{good.argmin()}: training may have diverged, try an earlier checkpoint"
        )
    return array
