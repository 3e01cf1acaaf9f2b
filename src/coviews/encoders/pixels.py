"""From views as bytes to normalised tensors for an encoder."""

import functools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from coviews.data.levels import MOST_CHANNELS
from coviews.errors import CoviewsError
from coviews.ops.images import Images


def to_tensors(
    views: Images,
    mean: Sequence[float] = (0.5,) * MOST_CHANNELS,
    std: Sequence[float] = (0.25,) * MOST_CHANNELS,
    device: torch.device | str = "cpu",
) -> list[Tensor]:
    """Views (B, V, H, W, C) in uint8 or uint16 -> V tensors (B, C, H, W) in float32, normalised on the device.

    Args:
        views: the result of `make_views`.
        mean: of each channel in 0..1, preferably the data set's (see `channel_statistics`).
        std: the same for the standard deviation.
        device: the device of the tensors; levels are copied to it, which are smaller than floats.
    """
    if not isinstance(views, np.ndarray) or views.ndim not in (4, 5) or views.dtype not in (np.uint8, np.uint16):
        kind = f"{views.dtype} {views.shape}" if isinstance(views, np.ndarray) else type(views).__name__
        raise CoviewsError(f"to_tensors takes the array (B, V, H, W, C) that make_views gives, not {kind}")
    b, v, h, w = views.shape[:4]
    c = views.shape[4] if views.ndim == 5 else 1
    if min(len(mean), len(std)) < c:
        raise CoviewsError(f"images of {c} channels need a mean and a std for each, not {len(mean)} and {len(std)}")
    pixels = torch.from_numpy(views.reshape(b, v, h, w * c)).to(device)
    scale, shift = _scale_and_shift(
        tuple(mean[:c]), tuple(std[:c]), int(np.iinfo(views.dtype).max), w, torch.device(device)
    )
    rows = [torch.addcmul(shift, pixels[:, i].float(), scale) for i in range(v)]
    return [some.view(b, h, w, c).permute(0, 3, 1, 2) for some in rows]


@functools.lru_cache(16)
def _scale_and_shift(
    mean: tuple[float, ...], std: tuple[float, ...], most: int, width: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """By which a row of levels is multiplied, and what is added; rows are three times as fast as single pixels."""
    scale = torch.tensor(std, device=device).mul(most).reciprocal()
    shift = -torch.tensor(mean, device=device) / torch.tensor(std, device=device)
    return scale.repeat(width), shift.repeat(width)
