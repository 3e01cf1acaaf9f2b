"""Maps smaller than a kernel in mixed precision: gradients that depend on nothing but the input."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from coviews.data.load import load_images
from coviews.encoders.architectures import make_encoder
from coviews.encoders.method import build_method
from coviews.encoders.small_maps import _has_idle_weights, compute_small_maps_in_full
from small_runs import SMALL


def gradients(model, x):
    """Of the weights, in bfloat16, with memory around that was last used for other numbers."""
    for size in range(6, 20):
        torch.full((1 << size,), float("nan"))
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        y = model(x)
    y.float().square().sum().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.parametrize("size", [4, 5, 6, 8])
def test_small_views_have_the_gradients_of_32_bits_and_always_the_same(size):
    torch.manual_seed(0)
    encoder = make_encoder("resnet8", 16)
    compute_small_maps_in_full(encoder)
    x = torch.randn(16, 3, size, size).contiguous(memory_format=torch.channels_last)
    first, again = gradients(encoder, x), gradients(encoder, x)
    assert torch.equal(first, again)
    encoder.zero_grad()
    encoder(x).square().sum().backward()
    full = torch.cat([p.grad.flatten() for p in encoder.parameters()])
    assert F.cosine_similarity(first, full, dim=0) > 0.97


@pytest.mark.parametrize("kernel", [1, 3, 5, 7])
@pytest.mark.parametrize(("stride", "padding"), [*itertools.product((1, 2, 3), (0, 1, 2, 3)), (1, "same")])
def test_weights_that_meet_only_padding(kernel, stride, padding):
    """Their gradient is zero for every input, which a convolution of ones in 32 bits shows."""
    for side in range(1, 9):
        layer = nn.Conv1d(1, 1, kernel, stride, padding, bias=False)
        if side + 2 * (kernel // 2 if padding == "same" else padding) < kernel:
            continue
        layer(torch.ones(1, 1, side)).sum().backward()
        assert _has_idle_weights(layer, torch.Size([side])) == bool((layer.weight.grad == 0).any()), side


def test_only_small_maps_and_only_in_mixed_precision():
    layer = nn.Conv2d(3, 4, 3, padding=1)
    compute_small_maps_in_full(layer)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(2, 3, 3, 3)).dtype == torch.bfloat16
        assert layer(torch.randn(2, 3, 1, 3)).dtype == torch.float32
        with pytest.raises(RuntimeError):
            layer(torch.randn(2, 5, 1, 1))
        assert torch.is_autocast_enabled("cpu")  # also after an error
        assert layer(torch.randn(2, 3, 3, 3)).dtype == torch.bfloat16
    assert layer(torch.randn(2, 3, 3, 3)).dtype == torch.float32
    assert set(layer.state_dict()) == {"weight", "bias"}


@pytest.mark.parametrize(("precision", "guarded"), [("bf16-mixed", True), ("32-true", False)])
def test_methods_in_bfloat16_have_it(precision, guarded):
    method = build_method(SMALL.replaced(precision=precision), load_images("shapes:4", size=16), None)
    layers = [layer for layer in method.modules() if isinstance(layer, nn.Conv2d) and layer.kernel_size != (1, 1)]
    assert layers
    assert all(bool(layer._forward_pre_hooks) == guarded for layer in layers)
