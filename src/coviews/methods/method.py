"""What every method has: a backbone with a projector, a loss for each pair, and a way to compare views."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor, nn

from coviews.errors import CoviewsError
from coviews.methods.heads import make_projector
from coviews.methods.losses import chance_loss, info_nce


class Losses(NamedTuple):
    """What one pass over a batch of pairs gives; n pairs are this process's, N those of all."""

    each: Tensor  # (N,) with gradient: the loss of every pair of the whole batch, the same on every process
    embedding: Tensor  # (2n, D) unit vectors without gradient, first views first: shows a collapse
    keys: Tensor | None = None  # (2N, D) what after_step will remember


class Method(nn.Module, ABC):
    """A way to learn from pairs of views.

    `losses`, `embed` and `compare` change nothing, but for BatchNorm's statistics in train mode; what a step moves
    besides the trained weights is moved by `after_step`.
    """

    def __init__(
        self,
        encoder: nn.Module,
        features: int,
        temperature: float,
        projector_hidden: int | None,
        projector_outputs: int | None,
    ) -> None:
        super().__init__()
        if not temperature > 0:
            raise CoviewsError(f"the temperature must be above 0, not {temperature}")
        self.temperature = temperature
        self.hidden, self.outputs = projector_hidden or features, projector_outputs or features
        self.encoder = encoder
        self.projector = make_projector(features, self.hidden, self.outputs)

    @abstractmethod
    def losses(self, x1: Tensor, x2: Tensor) -> Losses:
        """The loss of each pair of views, (n, C, H, W) twice."""

    def forward(self, x1: Tensor, x2: Tensor) -> Losses:
        """The same as `losses`: DDP knows only this name."""
        return self.losses(x1, x2)

    def embed(self, x: Tensor) -> tuple[Tensor, ...]:
        """What `compare` needs of views (N, C, H, W): tensors (N, ...) in float32."""
        return (self.project(x),)

    def compare(self, a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> Tensor:
        """InfoNCE of each pair of embedded views, the mean of both directions (N,): how hard the pair is."""
        return info_nce(a[0], b[0], self.temperature)

    def chance(self, pairs: int) -> float:
        """What `compare` gives for that many pairs whose views lost their image."""
        return chance_loss(pairs)

    def after_step(self, losses: Losses) -> None:
        """Move what the optimiser does not: slow encoders, a bank of keys."""

    def project(self, x: Tensor) -> Tensor:
        """Projections (N, D) of views (N, C, H, W), in float32 whatever the precision of the layers."""
        return self.projector(self.encoder(x)).float()


def swapped(both: Tensor) -> Tensor:
    """Second views first: each row becomes its partner's (2n, ...)."""
    return both.roll(len(both) // 2, 0)


def pair_means(both: Tensor) -> Tensor:
    """The mean of both directions: (2n,) -> (n,)."""
    return both.unflatten(0, (2, -1)).mean(0)
