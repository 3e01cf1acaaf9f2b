"""The viewmaker: a network that adds a bounded perturbation to an image, and learns to make the encoder's task hard.

Tamkin et al., Viewmaker Networks: Learning Views for Unsupervised Representation Learning, ICLR 2021. It gets the image
and random noise, so that every view of an image is another one. How far a view may be from its image is given: the
perturbation lies in an L1 ball, whose radius is the budget times the number of values.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from coviews.errors import CoviewsError
from coviews.methods.view_network import ViewNetwork

LEAST_SIDE = 8  # pixels: the network works at a quarter of the resolution
BUDGET, WIDTH, BLOCKS = 0.05, 32, 3  # of the paper


class Viewmaker(ViewNetwork):
    """Images in, views out; both in 0..1.

    Args:
        channels: of the images, any number.
        budget: the mean change of a value, at most; the range of a value is 1.
        width: channels of the first layer.
        blocks: residual blocks.
    """

    name = "viewmaker"
    options = ("channels", "budget", "width", "blocks")

    def __init__(self, channels: int, budget: float = BUDGET, *, width: int = WIDTH, blocks: int = BLOCKS) -> None:
        super().__init__()
        self.channels, self.budget, self.width, self.blocks = channels, budget, width, blocks
        self.down = nn.ModuleList(
            [_layer(channels + 1, width, 9), _layer(width, 2 * width, 3, 2), _layer(2 * width, 4 * width, 3, 2)]
        )
        self.middle = nn.ModuleList(
            nn.Sequential(_layer(4 * width + 1, 4 * width, 3), nn.Conv2d(4 * width, 4 * width, 3, padding=1))
            for _ in range(blocks)
        )
        self.up = nn.ModuleList([_layer(4 * width, 2 * width, 3), _layer(2 * width, width, 3)])
        self.last = nn.Conv2d(width, channels, 9, padding=4)

    def forward(self, images: Tensor, generator: torch.Generator | None = None, index: Tensor | None = None) -> Tensor:
        """Views (N, C, H, W) of images (N, C, H, W), whichever of its image each is.

        generator: draws the noise; torch's own by default.
        """
        if min(images.shape[2:]) < LEAST_SIDE:
            height, width = images.shape[2:]
            raise CoviewsError(f"a viewmaker needs images of {LEAST_SIDE} pixels a side, not {height} x {width}")
        return (images + bounded(self.perturbation(images, generator), self.budget)).clamp(0, 1)

    def perturbation(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """What the network would add, without the bound (N, C, H, W)."""
        x, sizes = images, []
        for i, layer in enumerate(self.down):
            sizes.append(x.shape[2:])
            x = layer(_with_noise(x, generator) if i == 0 else x)
        for block in self.middle:
            x = x + block(_with_noise(x, generator))
        for layer, size in zip(self.up, sizes[:0:-1], strict=True):
            x = layer(F.interpolate(x, size))
        return torch.tanh(self.last(x))


def bounded(perturbation: Tensor, budget: float) -> Tensor:
    """The same direction, as far as the budget allows: the mean absolute value of each (C, H, W) is the budget."""
    mean = perturbation.abs().mean((1, 2, 3), keepdim=True)
    return perturbation * (budget / mean.clamp_min(1e-12))


def _layer(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2),
        nn.InstanceNorm2d(outputs, affine=True),
        nn.ReLU(),
    )


def _with_noise(x: Tensor, generator: torch.Generator | None) -> Tensor:
    """A channel of uniform noise is added (N, C + 1, H, W)."""
    n, _, h, w = x.shape
    return torch.cat([x, torch.rand(n, 1, h, w, generator=generator, device=x.device, dtype=x.dtype)], 1)
