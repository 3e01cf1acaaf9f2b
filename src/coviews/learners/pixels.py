"""From views in bytes to the tensors that an encoder takes."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from coviews.images import Images, check_images


def to_tensors(
    views: Images,
    mean: Sequence[float] = (0.5, 0.5, 0.5),
    std: Sequence[float] = (0.25, 0.25, 0.25),
    device: torch.device | str = "cpu",
) -> list[Tensor]:
    """Views (B, V, H, W, C) in uint8 -> V tensors (B, C, H, W) in float32, normalised on the device.

    Args:
        views: what `make_views` gave.
        mean: of each channel in 0..1, best the data set's (see `channel_statistics`).
        std: the same for the standard deviation.
        device: where the tensors are wanted; bytes travel there, four times fewer than floats.
    """
    b, v, h, w = views.shape[:4]
    c = views.shape[4] if views.ndim == 5 else 1
    pixels = torch.from_numpy(views.reshape(b, v, h, w, c)).to(device)
    scale = torch.tensor(std[:c], device=device).mul(255).reciprocal()
    shift = -torch.tensor(mean[:c], device=device) / torch.tensor(std[:c], device=device)
    return [torch.addcmul(shift, pixels[:, i].float(), scale).permute(0, 3, 1, 2) for i in range(v)]


def channel_statistics(images: Images) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel, in 0..1."""
    batch = check_images(images)
    counts = np.zeros((batch.shape[3], 256), np.int64)
    for start in range(0, len(batch), 1024):  # in parts: counting makes a wide copy
        for k, row in enumerate(counts):
            row += np.bincount(batch[start : start + 1024, ..., k].ravel(), minlength=256)
    levels = np.arange(256) / 255
    share = counts / counts.sum(1, keepdims=True)
    mean = share @ levels
    variance = share @ levels**2 - mean**2
    return mean.tolist(), np.sqrt(np.maximum(variance, 1e-8)).tolist()
