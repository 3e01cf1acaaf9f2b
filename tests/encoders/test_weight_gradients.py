"""Weights' gradients as one product: those of torch, in the same precision, for the layer's own weights."""

import copy
import itertools

import pytest
import torch
from torch import nn

from coviews.encoders.weight_gradients import _Convolution, multiply_for_weight_gradients


def layers(inputs=5, outputs=128, kernel=3, stride=2, padding=1, **options):
    torch.manual_seed(0)
    plain = nn.Conv2d(inputs, outputs, kernel, stride, padding, **options)
    changed = copy.deepcopy(plain)
    multiply_for_weight_gradients(changed)
    return plain, changed


def gradients(layer, x, *, mixed):
    x = x.clone().requires_grad_()
    layer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        y = layer(x)
    y.backward(torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y.dtype))
    return y, [x.grad, *(p.grad for p in layer.parameters())]


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "sides"),
    [
        *itertools.product((3, 5), (1, 2, 3), (0, 1, 2), ((5, 5),)),
        (3, 2, 1, (8, 12)),
        ((3, 1), (2, 1), (1, 0), (6, 3)),
        ((1, 5), (1, 2), (0, 2), (2, 9)),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_equal_to_torch_in_64_bits_up_to_the_precision(kernel, stride, padding, sides, bias):
    plain, changed = layers(kernel=kernel, stride=stride, padding=padding, bias=bias)
    x = torch.randn(4, 5, *sides).to(memory_format=torch.channels_last)
    y, mine = gradients(changed, x, mixed=True)
    y_of_64, right = gradients(plain.double(), x.double(), mixed=False)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.double(), y_of_64, rtol=0.03, atol=0.03)
    for one, other in zip(mine, right, strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() <= 0.01 * other.norm()  # a bfloat16 has 8 bits


def test_a_copy_has_its_own_weights():
    """Teachers of momentum methods are copies."""
    _, changed = layers()
    other = copy.deepcopy(changed)
    with torch.no_grad():
        other.weight.zero_()
        other.bias.zero_()
    with torch.autocast("cpu", torch.bfloat16):
        assert not other(torch.randn(2, 5, 4, 4)).any()
    assert set(changed.state_dict()) == {"weight", "bias"}


@pytest.mark.parametrize(
    ("options", "multiplied"),
    [
        ({}, True),
        ({"outputs": 64}, False),
        ({"kernel": 1, "padding": 0}, False),
        ({"outputs": 130, "inputs": 10, "groups": 2}, False),
        ({"padding": "same", "stride": 1}, False),
        ({"padding_mode": "reflect"}, False),
        ({"dilation": 2}, False),
    ],
)
def test_which_layers(options, multiplied):
    assert isinstance(layers(**options)[1], _Convolution) == multiplied


def test_32_bits_and_frozen_weights_are_left_alone():
    plain, changed = layers()
    x = torch.randn(2, 5, 6, 6)
    for one, other in zip(gradients(plain, x, mixed=False), gradients(changed, x, mixed=False), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    plain.requires_grad_(False)
    changed.requires_grad_(False)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(plain(x), changed(x))
