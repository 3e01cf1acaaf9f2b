"""InfoMin's flow: an invertible map of colours whose channels are shared out among the views of an image.

Tian et al., What Makes for Good Views for Contrastive Learning?, NeurIPS 2020: good views share little besides what
matters. The flow maps each pixel's channels to as many others without losing anything; the first view keeps the first
part of them, the second view the rest. It learns against the encoder, so that the parts have as little in common as
possible. With labels of some images (`--infomin-labels`), each part has to tell the class: the paper's semi-supervised
form.

In the paper each part has an encoder of its own. Here one encoder reads both, and plain images later: the channels that
a view does not keep are set to zero, and the inverse of the flow maps the result back to colours. Since the flow can be
inverted, this changes nothing in how much the two views have in common.
"""

import math

import torch
from torch import Tensor, nn

from coviews.errors import CoviewsError
from coviews.methods.view_network import ViewNetwork

WIDTH, BLOCKS = 8, 4  # the paper does not say how large its flow is; the time of a step grows with both
CLASSIFIER = 32  # channels of the first layer of a classifier
LARGEST = 0.5  # the logarithm of a factor, and a shift, of one block: bounded, so that the inverse is exact enough
MIDDLE = 0.5  # the value of a pixel that the flow has as zero


class InfoMinFlow(ViewNetwork):
    """A stack of rotations of the channels and affine couplings between them, each pixel by itself.

    It starts as a change of basis: the first channel is the mean of all, the others are differences between them. So
    the first view starts as a grey image, and the second has the colours alone.

    Args:
        channels: of the images, two or more.
        width: of the hidden layer in each coupling; by default 8, or twice the channels if that is more.
        blocks: rotations with a coupling.
    """

    name = "infomin-flow"
    options = ("name", "channels", "width", "blocks")

    def __init__(self, channels: int, *, width: int | None = None, blocks: int = BLOCKS) -> None:
        super().__init__()
        if channels < 2:
            raise CoviewsError("--views infomin-flow needs images of two channels or more: use other --views")
        self.channels, self.blocks = channels, blocks
        self.width = max(WIDTH, 2 * channels) if width is None else width
        self.kept = max(1, channels // 2)  # by first views: of three channels one, as in the paper
        self.turns = nn.Parameter(torch.zeros(blocks, channels, channels))  # by which channels turn into each other
        sizes = (self.kept, channels - self.kept)
        self.couplings = nn.ModuleList(
            _Coupling(*(sizes if block % 2 == 0 else sizes[::-1]), self.width) for block in range(blocks)
        )

    def forward(self, images: Tensor, generator: torch.Generator | None = None, index: Tensor | None = None) -> Tensor:
        """Views (N, C, H, W) of images (N, C, H, W); nothing is drawn.

        index: which view of its image each is (N,): even ones keep the first channels, odd ones the others.
        """
        with torch.autocast(images.device.type, enabled=False):  # half precision cannot be inverted
            latent, _ = self.transform(images.to(self.turns.dtype))
            odd = torch.zeros(len(images), device=images.device) if index is None else index.to(images.device) % 2
            second = torch.arange(self.channels, device=images.device) >= self.kept
            keeps = (odd[:, None] == second).to(latent.dtype)  # (N, C)
            return self.inverse(latent * keeps[:, :, None, None])

    def transform(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The channels that views share out (N, C, H, W), and the logarithm of the determinant of each image (N,)."""
        x, log_determinant = _pixels(images - MIDDLE) @ _basis(self.turns).T, images.new_zeros(len(images))
        for block, rotation in enumerate(self._rotations()):
            x, log_scale = self._coupled(block, x @ rotation.T, inverse=False)
            log_determinant = log_determinant + log_scale.reshape(len(images), -1).sum(1)
        return _images(x, images), log_determinant

    def inverse(self, latent: Tensor) -> Tensor:
        """The images whose channels are these."""
        x = _pixels(latent)
        for block, rotation in reversed(list(enumerate(self._rotations()))):
            x = self._coupled(block, x, inverse=True)[0] @ rotation
        return _images(x @ _basis(self.turns), latent) + MIDDLE

    def _rotations(self) -> Tensor:
        """An orthogonal matrix for each block (blocks, C, C)."""
        rotations: Tensor = torch.linalg.matrix_exp(self.turns - self.turns.mT)
        return rotations

    def _coupled(self, block: int, x: Tensor, *, inverse: bool) -> tuple[Tensor, Tensor]:
        """One part of the channels (P, C) scaled and shifted as the other part says, and the logarithms of the factors.

        Even blocks change the channels of second views, odd ones those of first views.
        """
        first, second = x.split([self.kept, self.channels - self.kept], 1)
        given, changed = (first, second) if block % 2 == 0 else (second, first)
        log_scale, shift = self.couplings[block](given)
        changed = (changed - shift) * torch.exp(-log_scale) if inverse else changed * torch.exp(log_scale) + shift
        return torch.cat([given, changed] if block % 2 == 0 else [changed, given], 1), log_scale


class ViewClassifiers(nn.Module):
    """Two small networks that tell the class of an image: one from first views, one from second views."""

    def __init__(self, channels: int, classes: int, *, width: int = CLASSIFIER) -> None:
        super().__init__()
        self.each = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(channels, width, 3, 2, 1), nn.GroupNorm(1, width), nn.ReLU(),
                nn.Conv2d(width, 2 * width, 3, 2, 1), nn.GroupNorm(1, 2 * width), nn.ReLU(),
                nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, classes),
            )
            for _ in range(2)
        )  # fmt: skip

    def forward(self, views: Tensor, index: Tensor) -> Tensor:
        """The scores of the classes (N, classes) of views (N, C, H, W); index: which view of its image each is."""
        first, second = (network(views) for network in self.each)
        return torch.where((index % 2 == 0)[:, None], first, second)


class _Coupling(nn.Module):
    """From some channels, the factors and shifts of the others; each pixel by itself."""

    def __init__(self, given: int, changed: int, width: int) -> None:
        super().__init__()
        self.hidden, self.last = nn.Linear(given, width), nn.Linear(width, 2 * changed)
        nn.init.zeros_(self.last.weight)  # at the start nothing is changed
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The logarithms of the factors, and the shifts (P, changed) each."""
        log_scale, shift = (LARGEST * torch.tanh(self.last(torch.relu(self.hidden(x))))).chunk(2, 1)
        return log_scale, shift


def _pixels(images: Tensor) -> Tensor:
    """The pixels of all images, one after the other: (N, C, H, W) -> (P, C)."""
    return images.movedim(1, -1).reshape(-1, images.shape[1])


def _images(pixels: Tensor, like: Tensor) -> Tensor:
    """The inverse of `_pixels`: images of this shape."""
    n, channels, height, width = like.shape
    return pixels.reshape(n, height, width, channels).movedim(-1, 1)


def _basis(like: Tensor) -> Tensor:
    """An orthogonal matrix (C, C), that of the discrete cosine transform: its first row is constant."""
    n = like.shape[-1]
    i = torch.arange(n, device=like.device, dtype=like.dtype)
    rows = torch.cos(math.pi * i[:, None] * (2 * i + 1) / (2 * n)) * math.sqrt(2 / n)
    return torch.cat([rows[:1] / math.sqrt(2), rows[1:]])
