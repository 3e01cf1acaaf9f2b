"""Convolutions over very small maps, in 32 bits whatever the precision of the others.

On processors, torch 2.13 can leave the gradient of a convolution's weights unset in bfloat16 where a weight meets only
padding: it is what was in the memory before, at times NaN. Views of 8 pixels have such maps in `resnet8`.
"""

import functools
from typing import Any

import torch
from torch import Tensor, nn

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def compute_small_maps_in_full(model: nn.Module) -> None:
    """Let the model's convolutions leave automatic mixed precision where some of their weights meet only padding."""
    for layer in model.modules():
        if isinstance(layer, _CONVOLUTIONS) and max(layer.kernel_size) > 1:
            layer.register_forward_pre_hook(_leave_mixed_precision)
            layer.register_forward_hook(_return_to_it, always_call=True)


def _leave_mixed_precision(layer: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
    (x,) = inputs
    if x.device.type != "cpu" or not torch.is_autocast_enabled("cpu") or not _has_idle_weights(layer, x.shape[2:]):
        return None
    layer.full_precision = torch.autocast("cpu", enabled=False)
    layer.full_precision.__enter__()
    return (x.float(),)


def _return_to_it(layer: Any, _inputs: Any, _output: Any) -> None:
    full_precision = layer.__dict__.pop("full_precision", None)
    if full_precision is not None:
        full_precision.__exit__(None, None, None)


def _has_idle_weights(layer: Any, sides: torch.Size) -> bool:
    """Whether some weights meet only padding, at every output."""
    for axis, side in enumerate(sides):
        kernel, stride, dilation = layer.kernel_size[axis], layer.stride[axis], layer.dilation[axis]
        padding = dilation * (kernel - 1) // 2 if isinstance(layer.padding, str) else layer.padding[axis]
        if _are_idle(side, kernel, stride, dilation, padding):
            return True
    return False


@functools.cache
def _are_idle(side: int, kernel: int, stride: int, dilation: int, padding: int) -> bool:
    starts = range(-padding, side + padding - dilation * (kernel - 1), stride)  # of the first weight, at each output
    return any(all(not 0 <= start + dilation * i < side for start in starts) for i in range(kernel))
