"""The contract of a method: an encoder with a projector, a loss for each image's views, and a way to compare views."""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from coviews.errors import CoviewsError
from coviews.methods.heads import make_projector
from coviews.methods.losses import chance_loss, info_nce

WIDEST = 65_536  # numbers in a layer: as many as the prototypes of the largest DINO; two such layers take gigabytes


@dataclass(frozen=True, kw_only=True)
class MethodSettings:
    """The options of a method. Each method has a subclass of its own, beside its class."""

    name: ClassVar[str]
    """What the method is called on the command line."""
    reveals_hardness: ClassVar[bool] = False
    """Whether the training loss of a pair tells how hard the pair is: it has a known level for unrelated views."""
    takes_many_views: ClassVar[bool] = False
    """Whether the method learns from any number of views of each image, of several sizes; if not, from two."""
    needs_upright_views: ClassVar[bool] = False
    """Whether views must not be turned by quarters or upside down."""

    temperature: float = 0.5
    """Of the contrastive loss, or, where the method has another loss, of the loss that compares views."""
    projector: int | None = None
    """The projector's width; by default as many as the encoder has features."""

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise CoviewsError(f"--temperature must be above 0, not {self.temperature}")
        self._check_width("projector")

    def check_batch(self, pairs: int) -> None:
        """An error if the method cannot learn from batches of that many pairs."""

    def _check_width(self, name: str) -> None:
        width = getattr(self, name)
        if width is not None and (type(width) is not int or not 1 <= width <= WIDEST):
            raise CoviewsError(f"--{name} must be a whole number from 1 to {WIDEST:,}, not {width!r}")

    def _check_momentum(self, momentum: float) -> None:
        if not 0 <= momentum <= 1:
            raise CoviewsError(f"--momentum must be from 0 to 1, not {momentum}")


class Losses(NamedTuple):
    """The results of one pass over a batch; n images are this process's, N those of all; each has V views."""

    each: Tensor  # (N,) with gradient: the loss of every image of the whole batch, the same on every process
    embedding: Tensor  # (Vn, D) unit vectors without gradient, first views first: shows a collapse
    keys: Tensor | None = None  # what after_step will remember: keys (2N, D), or a mean (D,)
    features: Tensor | None = None  # (Vn, F) with gradient, before the projector, first views first


class Method(nn.Module, ABC):
    """A way to learn from two or more views of each image.

    `losses`, `embed` and `compare` change nothing but BatchNorm's statistics in train mode. What a step changes
    besides the trained weights is changed by `after_step`.

    Args:
        encoder: the backbone; it is trained in place.
        features: how many numbers the encoder gives for each image, see `check_encoder`.
        settings: the method's options; its defaults if none.
        seed: for buffers that start at random.
    """

    settings_type: ClassVar[type[MethodSettings]]

    def __init__(
        self, encoder: nn.Module, features: int, settings: MethodSettings | None = None, *, seed: int = 0
    ) -> None:
        super().__init__()
        self.settings = settings or self.settings_type()
        self.temperature = self.settings.temperature
        self.feature_count = features
        self.width = self.settings.projector or features
        self.encoder = encoder
        self.projector = make_projector(features, self.width, self.width)

    @abstractmethod
    def losses(self, views: Sequence[Tensor]) -> Losses:
        """The loss of each image's views, a list of (n, C, H, W); smaller ones are local views and come last."""

    def forward(self, views: Sequence[Tensor]) -> Losses:
        """The same as `losses`: Fabric and DDP know only this name."""
        return self.losses(views)

    def embed(self, x: Tensor) -> tuple[Tensor, ...]:
        """What `compare` needs of views (N, C, H, W): tensors (N, ...) in float32."""
        return (self.project(x),)

    def compare(self, a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> Tensor:
        """InfoNCE of each pair of embedded views, the mean of both directions (N,): how hard the pair is."""
        return info_nce(a[0], b[0], self.temperature)

    def chance(self, pairs: int) -> float:
        """What `compare` gives for that many pairs of unrelated views."""
        return chance_loss(pairs)

    def after_step(self, losses: Losses) -> None:
        """Update what the optimiser does not: slow encoders, a bank of keys."""

    def project(self, x: Tensor) -> Tensor:
        """Projections (N, D) of views (N, C, H, W), in float32 whatever the precision of the layers."""
        return self.projector(self.encoder(x)).float()


def encode_views(encoder: nn.Module, views: Sequence[Tensor]) -> Tensor:
    """Features (Vn, F) of V views (n, C, H, W), first views first, by one pass for each size."""
    groups = [list(group) for _, group in itertools.groupby(views, lambda view: view.shape[1:])]
    features = [encoder(torch.cat(group)) for group in groups]
    return torch.cat(features) if len(features) > 1 else features[0]


def pair(views: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The two views of each image, for methods that learn from pairs."""
    if len(views) != 2:
        raise CoviewsError(f"this method learns from two views of each image, not from {len(views)}")
    return views[0], views[1]


def several(views: Sequence[Tensor]) -> int:
    """The number of views of each image, for methods that learn from two or more."""
    if len(views) < 2:
        raise CoviewsError(f"this method learns from two views of each image or more, not from {len(views)}")
    return len(views)


def swapped(both: Tensor) -> Tensor:
    """Second views first: each row becomes its partner's (2n, ...)."""
    return both.roll(len(both) // 2, 0)


def pair_means(both: Tensor) -> Tensor:
    """The mean of both directions: (2n,) -> (n,)."""
    return both.unflatten(0, (2, -1)).mean(0)
