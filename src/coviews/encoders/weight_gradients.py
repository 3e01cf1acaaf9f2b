"""The gradients of convolutions' weights as one matrix product, on processors where that is faster.

In bfloat16 torch's own take up to four times as long where a convolution has strides, or maps of a few pixels:
a tenth of the whole step of `resnet8` at 32 pixels.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

_SMALL_MAP = 3  # pixels of a side, without strides
_FEWEST = 128  # outputs; with fewer, writing every patch of the input takes as long as the product saves
_LARGEST = 32 << 20  # bytes of all patches; more take longer to write


def multiply_for_weight_gradients(model: nn.Module) -> None:
    """Let the model's convolutions compute their weights' gradients as one product where that is faster."""
    for layer in model.modules():
        if type(layer) is nn.Conv2d and _can_multiply(layer):
            layer.__class__ = _Convolution  # so that a copy of the layer uses its own weights


class _Convolution(nn.Conv2d):
    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        learns = torch.is_grad_enabled() and weight.requires_grad
        if learns and _in_bfloat16(input) and self._is_faster(input):
            low = input.to(torch.bfloat16), weight.to(torch.bfloat16)
            output: Tensor = _Multiplied.apply(*low, self.stride, self.padding)
            return output if bias is None else output + bias.to(torch.bfloat16)[:, None, None]
        return super()._conv_forward(input, weight, bias)

    def _is_faster(self, x: Tensor) -> bool:
        height, width = _output_size(x, self.kernel_size, self.stride, self.padding)
        patches = len(x) * height * width * self.weight[0].numel() * 2
        return patches <= _LARGEST and (max(self.stride) > 1 or max(height, width) <= _SMALL_MAP)


class _Multiplied(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: tuple[int, int], padding: tuple[int, int]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding = stride, padding
        return functional.conv2d(x, weight, None, stride, padding)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x, weight = ctx.saved_tensors
        of_x = of_weight = None
        if ctx.needs_input_grad[0]:
            of_x = torch.ops.aten.convolution_backward(
                gradient, x, weight, None, ctx.stride, ctx.padding, (1, 1), False, (0, 0), 1, (True, False, False)
            )[0]
        if ctx.needs_input_grad[1]:
            outputs, inputs, *kernel = weight.shape
            patches = _patches(x, tuple(kernel), ctx.stride, ctx.padding)
            product = gradient.permute(0, 2, 3, 1).reshape(-1, outputs).t() @ patches
            of_weight = product.view(outputs, *kernel, inputs).permute(0, 3, 1, 2)
        return of_x, of_weight, None, None


def _patches(x: Tensor, kernel: tuple[int, ...], stride: tuple[int, int], padding: tuple[int, int]) -> Tensor:
    """What every output sees of the input: (N, C, H, W) -> (N * outputs, kernel * C)."""
    rows, columns = padding
    padded = functional.pad(x.permute(0, 2, 3, 1), (0, 0, columns, columns, rows, rows))
    windows = padded.unfold(1, kernel[0], stride[0]).unfold(2, kernel[1], stride[1])  # (N, h, w, C, *kernel)
    return windows.permute(0, 1, 2, 4, 5, 3).reshape(-1, kernel[0] * kernel[1] * x.shape[1])


def _output_size(x: Tensor, kernel: Any, stride: Any, padding: Any) -> tuple[int, int]:
    height, width = ((x.shape[2 + i] + 2 * padding[i] - kernel[i]) // stride[i] + 1 for i in range(2))
    return height, width


def _can_multiply(layer: nn.Conv2d) -> bool:
    plain = layer.groups == 1 and layer.padding_mode == "zeros" and max(layer.dilation) == 1
    return plain and not isinstance(layer.padding, str) and max(layer.kernel_size) > 1 and layer.out_channels >= _FEWEST


def _in_bfloat16(x: Tensor) -> bool:
    if x.device.type != "cpu" or x.ndim != 4:
        return False
    mixed = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    return mixed or x.dtype == torch.bfloat16
