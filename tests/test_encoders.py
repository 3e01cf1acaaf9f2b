"""Encoders have the size, the stem and the channels that they say."""

import pytest
import torch
from torch import nn

from coviews import CoviewsError, make_encoder
from coviews.learners.encoders import make_projector


def multiply_adds(model, size):
    total = 0

    def count(module, inputs, output):
        nonlocal total
        total += output[0].numel() * module.weight[0].numel()

    hooks = [m.register_forward_hook(count) for m in model.modules() if isinstance(m, nn.Conv2d)]
    with torch.inference_mode():
        model(torch.zeros(1, model.stem[0][0].in_channels, size, size))
    for hook in hooks:
        hook.remove()
    return total


def test_resnet8_is_small():
    model = make_encoder("resnet8").eval()
    assert 10e6 < multiply_adds(model, 32) < 15e6
    assert sum(p.numel() for p in model.parameters()) < 1.5e6


@pytest.mark.parametrize(("name", "size", "channels"), [("resnet8", 32, 3), ("resnet8", 40, 1), ("resnet18", 32, 1)])
def test_a_vector_for_each_image(name, size, channels):
    model = make_encoder(name, size, channels).eval()
    with torch.inference_mode():
        assert model(torch.zeros(2, channels, size, size)).shape == (2, model.features)


def test_small_images_get_the_small_stem():
    small, large, grey = make_encoder("resnet18", 32), make_encoder("resnet18", 64), make_encoder("resnet18", 96, 1)
    assert small.conv1.kernel_size == (3, 3)
    assert small.conv1.stride == (1, 1)
    assert isinstance(small.maxpool, nn.Identity)
    assert large.conv1.kernel_size == (7, 7)
    assert isinstance(large.maxpool, nn.MaxPool2d)
    assert grey.conv1.in_channels == 1


def test_the_projector_is_the_papers():
    layers = list(make_projector(256))
    assert [type(m) for m in layers] == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear, nn.BatchNorm1d]
    assert (layers[0].out_features, layers[3].out_features) == (2048, 2048)
    assert not layers[4].affine


def test_an_unknown_encoder_is_named():
    with pytest.raises(CoviewsError, match="did you mean 'resnet18'"):
        make_encoder("resnet-18")
