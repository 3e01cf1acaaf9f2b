"""Convolutions over maps smaller than their kernel, in 32 bits whatever the precision of the others.

On processors, torch 2.13 leaves the gradient of some of such a layer's weights unset in bfloat16, those that meet only
padding: it is what was in the memory before, at times NaN. Views of 8 pixels have such maps in `resnet8`.
"""

from typing import Any

import torch
from torch import Tensor, nn

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def compute_small_maps_in_full(model: nn.Module) -> None:
    """Let the model's convolutions leave automatic mixed precision where their input is smaller than their kernel."""
    for layer in model.modules():
        if isinstance(layer, _CONVOLUTIONS) and max(layer.kernel_size) > 1:
            layer.register_forward_pre_hook(_leave_mixed_precision)
            layer.register_forward_hook(_return_to_it, always_call=True)


def _leave_mixed_precision(layer: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
    (x,) = inputs
    small = any(side < kernel for side, kernel in zip(x.shape[2:], layer.kernel_size, strict=False))
    if not (small and x.device.type == "cpu" and torch.is_autocast_enabled("cpu")):
        return None
    layer.full_precision = torch.autocast("cpu", enabled=False)
    layer.full_precision.__enter__()
    return (x.float(),)


def _return_to_it(layer: Any, _inputs: Any, _output: Any) -> None:
    full_precision = layer.__dict__.pop("full_precision", None)
    if full_precision is not None:
        full_precision.__exit__(None, None, None)
