"""From views as bytes to normalised tensors for an encoder."""

from collections.abc import Sequence

import torch
from torch import Tensor

from coviews.ops.images import Images


def to_tensors(
    views: Images,
    mean: Sequence[float] = (0.5, 0.5, 0.5),
    std: Sequence[float] = (0.25, 0.25, 0.25),
    device: torch.device | str = "cpu",
) -> list[Tensor]:
    """Views (B, V, H, W, C) in uint8 -> V tensors (B, C, H, W) in float32, normalised on the device.

    Args:
        views: the result of `make_views`.
        mean: of each channel in 0..1, preferably the data set's (see `channel_statistics`).
        std: the same for the standard deviation.
        device: the device of the tensors; bytes are copied to it, a quarter of the size of floats.
    """
    b, v, h, w = views.shape[:4]
    c = views.shape[4] if views.ndim == 5 else 1
    pixels = torch.from_numpy(views.reshape(b, v, h, w, c)).to(device)
    scale = torch.tensor(std[:c], device=device).mul(255).reciprocal()
    shift = -torch.tensor(mean[:c], device=device) / torch.tensor(std[:c], device=device)
    return [torch.addcmul(shift, pixels[:, i].float(), scale).permute(0, 3, 1, 2) for i in range(v)]
