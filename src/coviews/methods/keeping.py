"""The keeping head: from the features of two views it predicts what was done differently to them.

So the encoder keeps what its views would make it ignore. After Lee et al., Improving Transferability of
Representations via Augmentation-Aware Self-Supervision (AugSelf), NeurIPS 2021.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from coviews.errors import CoviewsError, unknown

GROUPS = ("colour", "crop", "flip", "other")  # of differences; other: rotations, blur, cutout, ...
HIDDEN = 128  # the width of the networks
KEEP_WEIGHTS = {"off": 0.0, "some": 5.0, "much": 15.0}  # of the head's loss, where a family of views says how much


@dataclass(frozen=True, kw_only=True)
class KeepSettings:
    """How much an encoder is asked to keep, and what."""

    weight: float = 0.0
    """Of the head's loss beside that of the method; 0 for no head."""
    what: str = "all"
    """The groups of differences that are predicted, with commas between, or all."""

    def __post_init__(self) -> None:
        if not 0 <= self.weight < math.inf:
            raise CoviewsError(f"--keep must be 0 or more, not {self.weight}")
        for word in self._words:
            if word not in (*GROUPS, "all"):
                raise unknown("group for --keep-what", word, (*GROUPS, "all"))

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of differences that are predicted."""
        return tuple(group for group in GROUPS if {group, "all"} & set(self._words))

    @property
    def _words(self) -> list[str]:
        return [word.strip() for word in self.what.split(",")]


class KeepingHead(nn.Module):
    """A small network for each group of differences, on the features of both views.

    Its layers do not depend on the batch, and it computes in float32.

    Args:
        features: how many numbers the encoder gives for each view.
        groups: the group of each number to predict; those of a group stand together.
        weight: of its gradient in the features. The head itself learns at the weight 1, so that a larger weight does
            not need a smaller learning rate.
    """

    def __init__(self, features: int, groups: Sequence[str], weight: float = 1.0) -> None:
        super().__init__()
        self.weight = weight
        self.networks = nn.ModuleDict({
            name: nn.Sequential(
                nn.Linear(2 * features, HIDDEN, bias=False), nn.LayerNorm(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, count)
            )
            for name, count in Counter(groups).items()
        })  # fmt: skip

    def forward(self, features: Tensor) -> Tensor:
        """The predicted differences (n, D) of n pairs of views with these features (2n, F), first views first."""
        pairs = torch.cat(features.float().chunk(2), dim=1)
        if pairs.requires_grad:
            pairs.register_hook(lambda gradient: gradient * self.weight)
        with torch.autocast(pairs.device.type, enabled=False):
            return torch.cat([network(pairs) for network in self.networks.values()], dim=1)


def squared_errors(predictions: Tensor, differences: Tensor) -> Tensor:
    """The mean squared error of each difference: (n, D), (n, D) -> (D,)."""
    return (predictions - differences).square().mean(0)
