"""What makes views during a training: a network that turns images into views, and learns against the encoder."""

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import safetensors.torch
import torch
from torch import Tensor, nn

from coviews.files.atomic import write_whole

FORMAT = 1  # of the file


class ViewNetwork(nn.Module, ABC):
    """Images (N, C, H, W) with values in 0..1 in, views of the same size out."""

    name: ClassVar[str]  # what `--views` calls it
    options: ClassVar[tuple[str, ...]]  # the arguments by which it is made, which are attributes too

    @abstractmethod
    def forward(self, images: Tensor, generator: torch.Generator | None = None, index: Tensor | None = None) -> Tensor:
        """Views (N, C, H, W) of images (N, C, H, W).

        Args:
            images: with values in 0..1.
            generator: draws what is random, if anything is; torch's own by default.
            index: which view of its image each is (N,); the first of all if None.
        """

    def save(self, path: Path) -> None:
        """Write the network as one file, complete or not at all."""
        description = {"format": FORMAT, **{n: getattr(self, n) for n in self.options}}
        weights = {k: v.detach().cpu().contiguous() for k, v in self.state_dict().items()}
        write_whole(path, safetensors.torch.save(weights, {"coviews": json.dumps(description, sort_keys=True)}))


def against(views: Tensor) -> Tensor:
    """The same values; what made them gets the gradient with the other sign, so it learns to raise the loss."""
    reversed_views: Tensor = _Reversed.apply(views)
    return reversed_views


class _Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -gradient
