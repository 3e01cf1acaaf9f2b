"""MoCo: each view finds its partner, encoded by a slow copy of the encoder, in a bank of earlier views.

He et al., Momentum Contrast for Unsupervised Visual Representation Learning, CVPR 2020; here with the symmetric loss.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from coviews.errors import CoviewsError
from coviews.methods.gather import gathered, ranks
from coviews.methods.losses import bank_nce
from coviews.methods.method import Losses, Method, MethodSettings, pair, pair_means, swapped
from coviews.methods.momentum import move_towards, slow_copy

_LARGEST_BANK = 1_000_000_000  # keys


@dataclass(frozen=True, kw_only=True)
class MoCoSettings(MethodSettings):
    """The options of MoCo."""

    name: ClassVar[str] = "moco"
    reveals_hardness: ClassVar[bool] = True

    temperature: float = 0.1
    """Of the contrastive loss."""
    bank: int = 4096
    """MoCo's queue of keys."""
    momentum: float = 0.99
    """Of the slow encoder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_momentum(self.momentum)
        if type(self.bank) is not int or not 2 <= self.bank <= _LARGEST_BANK:
            raise CoviewsError(f"--bank must be a whole number from 2 to {_LARGEST_BANK:,}, not {self.bank!r}")

    def check_batch(self, pairs: int) -> None:
        """An error if the bank cannot hold the keys of one batch."""
        if 2 * pairs > self.bank:
            raise CoviewsError(f"--bank {self.bank} must hold both views of --batch-size {pairs} pairs")


class MoCo(Method):
    """InfoNCE against a bank of keys, symmetric: each view is once the query and once the key."""

    settings_type = MoCoSettings
    settings: MoCoSettings
    bank: Tensor  # (size, D) unit vectors
    pointer: Tensor  # (), where the next key goes

    def __init__(
        self, encoder: nn.Module, features: int, settings: MoCoSettings | None = None, *, seed: int = 0
    ) -> None:
        super().__init__(encoder, features, settings)
        self.key_encoder, self.key_projector = slow_copy(self.encoder), slow_copy(self.projector)
        random = torch.randn(self.settings.bank, self.width, generator=torch.Generator().manual_seed(seed))
        self.register_buffer("bank", F.normalize(random, dim=1))
        self.register_buffer("pointer", torch.zeros((), dtype=torch.long))
        # they are the same on all processes by themselves; DDP would send the whole bank before every step
        self._ddp_params_and_buffers_to_ignore = ["bank", "pointer"]

    def losses(self, views: Sequence[Tensor]) -> Losses:
        """The loss of each pair of views, (n, C, H, W) twice."""
        x1, x2 = pair(views)
        self._check_fit(2 * len(x1) * ranks())
        both = torch.cat([x1, x2])
        keys = self._keys(both)  # (2n, D), first views first
        features = self.encoder(both)  # (2n, F)
        queries = F.normalize(self.projector(features).float(), dim=1)  # (2n, D)
        local = pair_means(bank_nce(queries, swapped(keys), self.bank.float(), self.temperature))  # (n,)
        side_by_side = gathered(torch.cat(keys.chunk(2), dim=1))  # (N, 2D)
        return Losses(gathered(local), queries.detach(), torch.cat(side_by_side.chunk(2, dim=1)), features)

    def embed(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries and keys of views (N, C, H, W): unit vectors (N, D) in float32."""
        keys = self._keys(x)
        return F.normalize(self.project(x), dim=1), keys

    def compare(self, a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> Tensor:
        """The loss of each pair of embedded views against the bank, the mean of both directions (N,)."""
        (queries_a, keys_a), (queries_b, keys_b) = a, b
        queries, keys = torch.cat([queries_a, queries_b]), torch.cat([keys_b, keys_a])
        return pair_means(bank_nce(queries, keys, self.bank.float(), self.temperature))

    def chance(self, pairs: int) -> float:
        """What `compare` gives for unrelated views: their key is one among the bank's."""
        return math.log(1 + len(self.bank))

    @torch.no_grad()
    def after_step(self, losses: Losses) -> None:
        """Move the key encoder towards the trained one, and replace the oldest keys by the new ones."""
        if losses.keys is None:
            raise CoviewsError("MoCo's after_step needs the keys that its own losses gave")
        move_towards(self.key_encoder, self.encoder, self.settings.momentum)
        move_towards(self.key_projector, self.projector, self.settings.momentum)
        count, size = len(losses.keys), len(self.bank)
        rows = (self.pointer + torch.arange(count, device=self.bank.device)) % size
        self.bank[rows] = losses.keys.to(self.bank.dtype)
        self.pointer.copy_((self.pointer + count) % size)

    @torch.no_grad()
    def _keys(self, x: Tensor) -> Tensor:
        return F.normalize(self.key_projector(self.key_encoder(x)).float(), dim=1)

    def _check_fit(self, keys: int) -> None:
        if keys > len(self.bank):
            raise CoviewsError(
                f"a batch of {keys // 2} pairs has {keys} keys, but MoCo's bank holds {len(self.bank)}: "
                "take a larger bank or smaller batches"
            )
