"""Images reach the encoder channels last, which convolutions on a CPU need to be fast."""

import numpy as np
import pytest
import torch
from torch import nn

from coviews.encoders.features import features
from coviews.encoders.pixels import to_tensors
from coviews.methods.method import encode_views


@pytest.mark.parametrize("channels", [1, 3])
def test_encoders_see_channels_last_images(channels):
    seen = []

    class Layout(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(channels, 4, 3)

        def forward(self, x):
            out = self.convolution(x)
            seen.append(out.is_contiguous(memory_format=torch.channels_last))
            return out.mean((2, 3))

    views = np.random.default_rng(0).integers(0, 256, (4, 2, 16, 16, channels), dtype=np.uint8)
    mean, std = (0.5,) * channels, (0.25,) * channels
    encode_views(Layout(), to_tensors(views, mean, std))
    features(Layout(), views[:, 0], mean, std)
    assert seen == [True, True]
