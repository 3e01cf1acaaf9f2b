"""The small encoder of series, by convolutions in one dimension."""

import torch
from torch import Tensor, nn


class SmallSeriesNet(nn.Module):
    """A ResNet of eight layers for series, which are images of one row.

    It sees a quarter of the length from its first block on, and 189 values of the series from each of its last places.
    """

    def __init__(self, channels: int = 1, width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv1d(channels, width // 2, 2), _conv1d(width // 2, width, 2))
        self.blocks = nn.Sequential(
            _SeriesBlock(width, width), _SeriesBlock(width, 2 * width, 2), _SeriesBlock(2 * width, 4 * width, 2)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, 1, length) -> (N, 4 * width)."""
        return self.blocks(self.stem(x.squeeze(2))).mean(2)


class _SeriesBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.first = _conv1d(inputs, outputs, stride)
        self.second = nn.Sequential(nn.Conv1d(outputs, outputs, 5, padding=2, bias=False), nn.BatchNorm1d(outputs))
        self.shortcut = (
            nn.Identity()
            if stride == 1 and inputs == outputs
            else nn.Sequential(nn.Conv1d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm1d(outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(self.first(x)) + self.shortcut(x))


def _conv1d(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv1d(inputs, outputs, 5, stride, padding=2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm1d(outputs), nn.ReLU(inplace=True))
