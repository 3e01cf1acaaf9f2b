"""What an encoder says of images: one vector each, in batches, with nothing of the encoder changed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from coviews.console.progress import shown
from coviews.encoders.frozen import device_of, evaluating
from coviews.encoders.pixels import to_tensors
from coviews.errors import CoviewsError
from coviews.ops.images import Images, check_images

Features = NDArray[np.float32]  # (N, D)


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
    """The features of all images (N, D), with the encoder in eval mode and as it was afterwards.

    Args:
        encoder: gives a vector, or a map that is flattened, for each image.
        images: (N, H, W, C) uint8; a memory map is read batch by batch.
        mean: of each channel in 0..1, as in training.
        std: the same for the standard deviation.
        batch: how many images pass the encoder at once.
        device: where the encoder is; by default where its first parameter is.
        change: what is done to a batch (B, H, W, C) before it is encoded, such as a random crop.
        progress: show a progress bar if it takes more than two seconds.
        title: what it says.
    """
    found = np.empty((0, 0), np.float32)
    done = 0
    parts = feature_batches(encoder, images, mean, std, batch=batch, device=device, change=change)
    for part in shown(parts, title if progress else "", -(-len(images) // max(batch, 1))):
        if not done:
            found = np.empty((len(images), part.shape[1]), np.float32)
        found[done : done + len(part)] = part.cpu().numpy()
        done += len(part)
    return check_features(found, "features")


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
    """The features (B, D) of one batch of images after the other, in float32 and on the device.

    Args:
        encoder, images, mean, std, batch, device, change: as for `features`.
    """
    check_images(images[:1] if isinstance(images, np.ndarray) and images.ndim else images)
    if batch < 1:
        raise CoviewsError(f"a batch needs at least one image, not {batch}")
    where = device_of(encoder, device)
    for start in range(0, len(images), batch):
        part = check_images(np.array(images[start : start + batch]))  # a copy: a memory map may not be writable
        if change is not None:
            part = change(part)
        with evaluating(encoder):  # for this batch only: whoever reads the next one late has the encoder as it was
            made = encoder(to_tensors(part[:, None], mean, std, where)[0])
        if not isinstance(made, Tensor) or made.ndim < 2 or len(made) != len(part):
            got = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
            raise CoviewsError(f"the encoder must give a vector for each of {len(part)} images, but gives {got}")
        yield made.flatten(1).float()


def check_features(values: Any, what: str) -> Features:
    """The features as (N, D) in float32, or an error that says what is wrong with them."""
    found = np.asarray(values)
    if found.ndim != 2 or 0 in found.shape or found.dtype.kind not in "fiu":
        raise CoviewsError(f"{what} must be numbers (N, D), at least one row, not {found.dtype} {found.shape}")
    found = np.require(found, np.float32, ["C", "W"])  # torch warns of what cannot be written
    good = np.isfinite(found).all(1)
    if not good.all():
        raise CoviewsError(
            f"{what} of {len(good) - good.sum()} of {len(good)} images are not finite, first of image "
            f"{good.argmin()}: training may have diverged, try an earlier checkpoint"
        )
    return found
