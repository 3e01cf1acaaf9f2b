"""MoCo: each view finds its partner, seen by a slow encoder, among a bank of earlier views."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from coviews.errors import CoviewsError
from coviews.methods.gather import gathered, ranks
from coviews.methods.losses import bank_nce
from coviews.methods.method import Losses, Method, pair_means, swapped
from coviews.methods.momentum import check_momentum, move_towards, slow_copy


class MoCo(Method):
    """InfoNCE against a bank of keys, symmetric: each view is once the query and once the key."""

    bank: Tensor  # (queue, D) unit vectors
    pointer: Tensor  # (), where the next key goes

    def __init__(
        self,
        encoder: nn.Module,
        features: int,
        *,
        temperature: float = 0.1,
        momentum: float = 0.99,
        queue: int = 4096,
        seed: int = 0,
        projector_hidden: int | None = None,
        projector_outputs: int | None = None,
    ) -> None:
        super().__init__(encoder, features, temperature, projector_hidden, projector_outputs)
        if queue < 2:
            raise CoviewsError(f"MoCo's bank must hold both views of a pair at least, not {queue} keys")
        self.momentum = check_momentum(momentum)
        self.key_encoder, self.key_projector = slow_copy(self.encoder), slow_copy(self.projector)
        random = torch.randn(queue, self.outputs, generator=torch.Generator().manual_seed(seed))
        self.register_buffer("bank", F.normalize(random, dim=1))
        self.register_buffer("pointer", torch.zeros((), dtype=torch.long))
        # they are the same on all processes by themselves; DDP would send the whole bank before every step
        self._ddp_params_and_buffers_to_ignore = ["bank", "pointer"]

    def losses(self, x1: Tensor, x2: Tensor) -> Losses:
        """The loss of each pair of views, (n, C, H, W) twice."""
        self._check_fit(2 * len(x1) * ranks())
        queries, keys = self.embed(torch.cat([x1, x2]))  # (2n, D), first views first
        local = pair_means(bank_nce(queries, swapped(keys), self.bank.float(), self.temperature))  # (n,)
        side_by_side = gathered(torch.cat(keys.chunk(2), dim=1))  # (N, 2D)
        return Losses(gathered(local), queries.detach(), torch.cat(side_by_side.chunk(2, dim=1)))

    def embed(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries and keys of views (N, C, H, W): unit vectors (N, D) in float32."""
        with torch.no_grad():
            keys = self.key_projector(self.key_encoder(x)).float()
        return F.normalize(self.project(x), dim=1), F.normalize(keys, dim=1)

    def compare(self, a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> Tensor:
        """The loss of each pair of embedded views against the bank, the mean of both directions (N,)."""
        (queries_a, keys_a), (queries_b, keys_b) = a, b
        queries, keys = torch.cat([queries_a, queries_b]), torch.cat([keys_b, keys_a])
        return pair_means(bank_nce(queries, keys, self.bank.float(), self.temperature))

    def chance(self, pairs: int) -> float:
        """What `compare` gives for views that lost their image: their key is one among the bank's."""
        return math.log(1 + len(self.bank))

    @torch.no_grad()
    def after_step(self, losses: Losses) -> None:
        """Move the key encoder towards the trained one, and put the keys in the place of the oldest."""
        if losses.keys is None:
            raise CoviewsError("MoCo's after_step needs the keys that its own losses gave")
        move_towards(self.key_encoder, self.encoder, self.momentum)
        move_towards(self.key_projector, self.projector, self.momentum)
        count, size = len(losses.keys), len(self.bank)
        rows = (self.pointer + torch.arange(count, device=self.bank.device)) % size
        self.bank[rows] = losses.keys.to(self.bank.dtype)
        self.pointer.copy_((self.pointer + count) % size)

    def _check_fit(self, keys: int) -> None:
        if keys > len(self.bank):
            raise CoviewsError(
                f"a batch of {keys // 2} pairs has {keys} keys, but MoCo's bank holds {len(self.bank)}: "
                "take a larger bank or smaller batches"
            )
