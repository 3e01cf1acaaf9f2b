"""Batches of images: their form and their statistics."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError
from coviews.ops.kernels.layout import CHANNELS

Images = NDArray[Any]  # uint8 or uint16; (B, H, W) or (B, H, W, C) with 1 to 16 channels

LARGEST = 16384  # pixels a side; for larger images Pillow does not use the fixed point arithmetic that the kernels copy


def check_images(images: Any) -> Images:
    """Return the batch as a contiguous (B, H, W, C) array, or raise an error that says what is wrong with it."""
    if not isinstance(images, np.ndarray) or images.dtype not in (np.uint8, np.uint16):
        kind = images.dtype if isinstance(images, np.ndarray) else type(images).__name__
        hint = "give its .images" if hasattr(images, "images") else "convert floats to 0..255 first"
        if hasattr(images, "permute"):  # a torch tensor, whose channels come before height and width
            levels = "" if kind == "Tensor" and not images.is_floating_point() else ".mul(255).round().byte()"
            hint = f"give images{levels}.permute(0, 2, 3, 1).cpu().numpy() of a tensor (B, C, H, W)"
        raise CoviewsError(f"images must be a uint8 or uint16 array (B, H, W, C), not {kind}: {hint}")
    if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] > CHANNELS):
        raise CoviewsError(
            f"images must be (B, H, W) or (B, H, W, C) with 1 to {CHANNELS} channels, not of shape {images.shape}"
        )
    if 0 in images.shape:
        raise CoviewsError(f"there is no image in a batch of shape {images.shape}")
    if max(images.shape[1:3]) > LARGEST:
        raise CoviewsError(f"images of {images.shape[1:3]} are too large: at most {LARGEST} pixels a side")
    return np.ascontiguousarray(images.reshape(*images.shape[:3], -1))


def value_limit(images: Images) -> int:
    """The largest value that such images can have: 255 or 65535."""
    return int(np.iinfo(images.dtype).max)


def channel_statistics(images: Images) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel, in 0..1."""
    batch = check_images(images)
    limit = value_limit(batch)
    counts = np.zeros((batch.shape[3], limit + 1), np.int64)
    for start in range(0, len(batch), 1024):  # in parts: counting makes a wide copy
        for k, row in enumerate(counts):
            row += np.bincount(batch[start : start + 1024, ..., k].ravel(), minlength=limit + 1)
    levels = np.arange(limit + 1) / limit
    share = counts / counts.sum(1, keepdims=True)
    mean = share @ levels
    variance = share @ levels**2 - mean**2
    return mean.tolist(), np.sqrt(np.maximum(variance, 1e-8)).tolist()
