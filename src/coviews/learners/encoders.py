"""Backbones that give a vector for each image, and the projectors on top of them."""

import torch
from torch import Tensor, nn

from coviews.compat import import_torchvision
from coviews.errors import unknown

SMALL = 64  # below this many pixels a torchvision ResNet gets the small-image stem, as in the paper


class ResNet8(nn.Module):
    """A small ResNet for CPUs: about 13 M multiply-adds at 32 pixels, 1.2 M parameters."""

    features = 256

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv(channels, 32, stride=2), _conv(32, 64, stride=2))
        self.blocks = nn.Sequential(_Block(64, 64), _Block(64, 128, stride=2), _Block(128, 256, stride=2))

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, 256)."""
        return self.blocks(self.stem(x)).mean((2, 3))


class _Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.first = _conv(inputs, outputs, stride)
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = (
            nn.Identity()
            if stride == 1 and inputs == outputs
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(self.first(x)) + self.shortcut(x))


def _conv(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


def make_encoder(name: str, image_size: int = 32, channels: int = 3) -> nn.Module:
    """A backbone by name, with its number of features as `features`: `resnet8` or a torchvision ResNet."""
    if name == "resnet8":
        return ResNet8(channels)
    models = import_torchvision().models
    names = [n for n in models.list_models() if n.startswith(("resnet", "wide_resnet", "resnext"))]
    if name not in names:
        raise unknown("encoder", name, ["resnet8", *names])
    model = models.get_model(name, weights=None)
    first = model.conv1
    if image_size < SMALL:
        model.conv1 = nn.Conv2d(channels, first.out_channels, 3, 1, 1, bias=False)
        model.maxpool = nn.Identity()
    elif channels != first.in_channels:
        model.conv1 = nn.Conv2d(channels, first.out_channels, 7, 2, 3, bias=False)
    model.features = model.fc.in_features
    model.fc = nn.Identity()
    return model


def make_projector(inputs: int, hidden: int = 2048, outputs: int = 2048) -> nn.Module:
    """Two layers, each with batch normalisation; the last one without scale and shift."""
    return nn.Sequential(
        nn.Linear(inputs, hidden, bias=False),
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, outputs, bias=False),
        nn.BatchNorm1d(outputs, affine=False),
    )
