"""Toy: both views of an image are alike, and features of a batch do not say the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from coviews.errors import CoviewsError
from coviews.methods.gather import gathered
from coviews.methods.losses import cosine
from coviews.methods.method import Losses, Method, MethodSettings, pair


@dataclass(frozen=True, kw_only=True)
class ToySettings(MethodSettings):
    """The options of the toy."""

    name: ClassVar[str] = "toy"

    redundancy: float = 1.0
    """The weight of the correlations between features."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.redundancy < 0:
            raise CoviewsError(f"--redundancy must be 0 or more, not {self.redundancy}")


class Toy(Method):
    """One minus the cosine of both views, and the mean square of the correlations between features."""

    settings_type = ToySettings
    settings: ToySettings

    def losses(self, views: Sequence[Tensor]) -> Losses:
        both = self.project(torch.cat(pair(views)))  # (2n, D)
        z1, z2 = both.chunk(2)
        normed = (both - both.mean(0)) / (both.std(0) + 1e-4)
        correlations = normed.T @ normed / len(both)  # (D, D)
        apart = (correlations - torch.diag(correlations.diagonal())).square().mean()
        unit = F.normalize(both.detach(), dim=1)
        each = 1 - cosine(F.normalize(z1, dim=1), F.normalize(z2, dim=1)) + self.settings.redundancy * apart
        return Losses(gathered(each), unit)
