"""Encoders have the size, the stem and the channels that they say, and say clearly what they cannot take."""

import pytest
import torch
from torch import nn

from coviews import CoviewsError, make_encoder
from coviews.encoders.architectures import check_encoder
from coviews.methods.heads import make_predictor, make_projector


def multiply_adds(model, size, channels=3):
    total = 0

    def count(module, inputs, output):
        nonlocal total
        total += output[0].numel() * module.weight[0].numel()

    hooks = [m.register_forward_hook(count) for m in model.modules() if isinstance(m, nn.Conv2d)]
    with torch.inference_mode():
        model.eval()(torch.zeros(1, channels, size, size))
    for hook in hooks:
        hook.remove()
    return total


@pytest.mark.parametrize(
    ("name", "least", "most", "parameters"), [("resnet8", 10e6, 15e6, 1.5e6), ("resnet8x2", 45e6, 60e6, 5e6)]
)
def test_our_own_are_small(name, least, most, parameters):
    model = make_encoder(name)
    assert least < multiply_adds(model, 32) < most
    assert sum(p.numel() for p in model.parameters()) < parameters


@pytest.mark.parametrize(
    ("name", "size", "channels", "features"),
    [
        ("resnet8", 32, 3, 256),
        ("resnet8", (40, 28), 1, 256),
        ("resnet8x2", 32, 1, 512),
        ("resnet18", 32, 1, 512),
        ("timm/resnet10t", (32, 48), 1, 512),
        ("timm/vit_tiny_patch16_224", 32, 3, 192),  # made for 224 pixels, unless told
        ("timm/vit_tiny_patch16_224", (32, 64), 3, 192),
        ("timm/efficientvit_m0", 64, 3, 192),  # takes a size, but no height and width
        ("timm/densenet121", 32, 3, 1024),  # has layers that are called features
        ("timm/mobilenetv3_small_050", 32, 3, 1024),  # gives more features than its num_features says
    ],
)
def test_a_vector_for_each_image(name, size, channels, features):
    model = make_encoder(name, size, channels)
    assert model.training
    height, width = size if isinstance(size, tuple) else (size, size)
    with torch.inference_mode():
        assert model.eval()(torch.rand(3, channels, height, width)).shape == (3, features)
    assert model.feature_count == features


def test_small_images_get_the_small_stem():
    small, large, grey = make_encoder("resnet18", 32), make_encoder("resnet18", 64), make_encoder("resnet18", 96, 1)
    assert small.conv1.kernel_size == (3, 3)
    assert small.conv1.stride == (1, 1)
    assert isinstance(small.maxpool, nn.Identity)
    assert large.conv1.kernel_size == (7, 7)
    assert isinstance(large.maxpool, nn.MaxPool2d)
    assert grey.conv1.in_channels == 1
    assert make_encoder("resnet18", (96, 40)).conv1.stride == (1, 1)  # the smaller side decides


def test_the_same_seed_gives_the_same_weights():
    def weights():
        torch.manual_seed(3)
        return [*make_encoder("resnet8").parameters(), torch.rand(1)]  # the check draws nothing

    assert all(torch.equal(a, b) for a, b in zip(weights(), weights(), strict=True))


def test_the_projector_is_the_papers():
    layers = list(make_projector(256))
    assert [type(m) for m in layers] == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear, nn.BatchNorm1d]
    assert (layers[0].out_features, layers[3].out_features) == (2048, 2048)
    assert not layers[4].affine
    assert make_predictor(8, 2)(torch.rand(5, 8)).shape == (5, 8)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("resnet-18", "'resnet18'"),
        ("ResNet8", "'resnet8'"),
        ("resnext50_32", "'resnext50_32x4d'"),
        ("timm/vit_tiny_patch16_22", "'timm/vit_tiny_patch16_224'"),
        ("timm/Resnet10t", "'timm/resnet10t'"),
        ("vit_tiny_patch16_224", "'timm/vit_tiny_patch16_224'"),
        ("timm/resnet18.a1_in1k", "'timm/resnet18"),  # a tag stands for weights
    ],
)
def test_an_unknown_encoder_gets_the_nearest_name(name, nearest):
    with pytest.raises(CoviewsError, match=f"unknown encoder .* did you mean {nearest}"):
        make_encoder(name)


@pytest.mark.parametrize("name", ["", "timm/", "%%%%%%%%%%%%", "timm/hf-hub:someone/something"])
def test_other_names_are_refused_in_a_short_message(name):
    with pytest.raises(CoviewsError, match="unknown encoder") as caught:
        make_encoder(name)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("name", "size"), [("timm/efficientformer_l1", 32), ("timm/vit_tiny_patch16_224", 8), ("resnet8", 0)]
)
def test_a_size_that_does_not_fit_is_said(name, size):
    with pytest.raises(CoviewsError, match=f"{name.removeprefix('timm/')}' .*{size}x{size}x3: .") as caught:
        make_encoder(name, size)
    assert "\n" not in str(caught.value)


class Maps(nn.Module):
    def __init__(self, ends):
        super().__init__()
        self.body, self.ends = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), ends

    def forward(self, x):
        return self.ends(self.body(x))


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (lambda maps: maps, r"'Maps' must give a vector for each image, \(2, D\) for two, but gives \(2, 4, 3, 3\)"),
        (lambda maps: maps.mean((2, 3))[:, :0], r"gives \(2, 0\)"),
        (lambda maps: maps.mean((0, 2, 3)), r"gives \(4,\)"),
        (lambda maps: [maps], "gives list"),
        (lambda maps: maps[..., :0].mean((2, 3)), "'Maps' cannot take images of 5x5x3: its features are not finite"),
        (lambda maps: maps.reshape(2, 7), "'Maps' cannot take images of 5x5x3: shape"),
    ],
)
def test_encoders_of_others_are_checked(ends, message):
    with pytest.raises(CoviewsError, match=message):
        check_encoder(Maps(ends), (5, 5), 3)


def test_the_check_leaves_no_trace():
    model = Maps(lambda maps: maps.mean((2, 3)))
    model.body[1].eval()  # frozen by its owner
    before = {k: v.clone() for k, v in model.state_dict().items()}
    assert check_encoder(model, (5, 7), 3) == 4
    assert [m.training for m in (model, model.body, model.body[0], model.body[1])] == [True, True, True, False]
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    with pytest.raises(CoviewsError, match=r"mine.*2x2x3"):
        check_encoder(model, (2, 2), 3, "mine")
    assert model.training
    assert not model.body[1].training
