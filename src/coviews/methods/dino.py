"""DINO: every view predicts how a slow copy of the encoder assigns the image's other views to learned prototypes.

Caron et al., Emerging Properties in Self-Supervised Vision Transformers, ICCV 2021; Sinkhorn instead of centring as in
Oquab et al., DINOv2: Learning Robust Visual Features without Supervision, TMLR 2024.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from coviews.errors import CoviewsError, unknown
from coviews.methods.gather import gathered
from coviews.methods.heads import make_bottleneck
from coviews.methods.method import Losses, Method, MethodSettings, encode_views, several
from coviews.methods.momentum import move_towards, slow_copy

CENTERINGS = ("center", "sinkhorn")
CENTER_MOMENTUM = 0.9
WIDEST_BOTTLENECK = 256  # where none is given


@dataclass(frozen=True, kw_only=True)
class DINOSettings(MethodSettings):
    """The options of DINO."""

    name: ClassVar[str] = "dino"
    takes_many_views: ClassVar[bool] = True

    prototypes: int = 4096
    """Outputs of the head: enough for small data sets; the paper has 65536 for ImageNet."""
    bottleneck: int | None = None
    """The width of the projector's last layer; by default that of the others, at most 256."""
    student_temperature: float = 0.1
    """Of the trained network's assignment to the prototypes."""
    teacher_temperature: float = 0.04
    """Of the slow network's assignment, which must be sharper."""
    teacher_start: float = 0.04
    """The slow network's temperature at the beginning of the warm-up."""
    teacher_warmup: int = 0
    """Steps in which that temperature changes linearly to --teacher-temperature; 0 for none."""
    momentum: float = 0.996
    """Of the slow network; lower it in runs of few steps."""
    centering: str = "center"
    """What keeps all images from the same assignment: center (subtract a running mean), or sinkhorn (each prototype
    gets an equal share of the batch)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_momentum(self.momentum)
        self._check_width("prototypes")
        self._check_width("bottleneck")
        for name in ("student_temperature", "teacher_temperature", "teacher_start"):
            if not 0 < getattr(self, name) < math.inf:
                raise CoviewsError(f"--{name.replace('_', '-')} must be above 0, not {getattr(self, name)}")
        if type(self.teacher_warmup) is not int or not 0 <= self.teacher_warmup < 2**63:
            raise CoviewsError(f"--teacher-warmup must be a whole number from 0 to 2^63, not {self.teacher_warmup!r}")
        if self.centering not in CENTERINGS:
            raise unknown("centering", self.centering, CENTERINGS)


class DINO(Method):
    """Cross-entropy from the slow network's assignment of each large view to the trained one's of each other view.

    That loss has no level for unrelated views, so pairs are compared by InfoNCE of the trained projections.
    """

    settings_type = DINOSettings
    settings: DINOSettings
    center: Tensor  # (K,), the running mean of the slow network's outputs
    steps: Tensor  # (), how many were done

    def __init__(
        self, encoder: nn.Module, features: int, settings: DINOSettings | None = None, *, seed: int = 0
    ) -> None:
        super().__init__(encoder, features, settings)
        bottleneck = self.settings.bottleneck or min(self.width, WIDEST_BOTTLENECK)
        self.projector = make_bottleneck(features, self.width, bottleneck)
        self.prototypes = Prototypes(bottleneck, self.settings.prototypes)
        self.slow_encoder, self.slow_projector = slow_copy(self.encoder), slow_copy(self.projector)
        self.slow_prototypes = slow_copy(self.prototypes)
        self.register_buffer("center", torch.zeros(self.settings.prototypes))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def losses(self, views: Sequence[Tensor]) -> Losses:
        """The loss of each image's views, (n, C, H, W) each; the slow network sees those as large as the first."""
        count = several(views)
        large = [view for view in views if view.shape == views[0].shape]
        features = encode_views(self.encoder, views)  # (Vn, F)
        projections = self.projector(features).float()  # (Vn, B)
        student = self.prototypes(projections)  # (Vn, K)
        with torch.no_grad():
            slow = self.slow_projector(encode_views(self.slow_encoder, large)).float()
            teacher = self.slow_prototypes(slow)  # (Gn, K)
            targets = self._targets(teacher)
            mean = gathered(teacher.mean(0, keepdim=True)).mean(0)  # (K,) of the whole batch
        local = cross_entropies(
            targets.unflatten(0, (len(large), -1)), student.unflatten(0, (count, -1)), self.settings.student_temperature
        )
        return Losses(gathered(local), F.normalize(projections.detach(), dim=1), mean, features)

    @torch.no_grad()
    def after_step(self, losses: Losses) -> None:
        """Move the slow network towards the trained one, and the centre towards the batch's."""
        if losses.keys is None:
            raise CoviewsError("DINO's after_step needs the centre that its own losses gave")
        for name in ("encoder", "projector", "prototypes"):
            move_towards(getattr(self, f"slow_{name}"), getattr(self, name), self.settings.momentum)
        self.center.lerp_(losses.keys.to(self.center.dtype), 1 - CENTER_MOMENTUM)
        self.steps += 1

    def _targets(self, outputs: Tensor) -> Tensor:
        """Assignments (Gn, K) of the slow network's outputs, each of sum 1."""
        if self.settings.centering == "sinkhorn":
            return sinkhorn(outputs / self._teacher_temperature)
        return F.softmax((outputs - self.center.float()) / self._teacher_temperature, dim=1)

    @property
    def _teacher_temperature(self) -> float | Tensor:
        s = self.settings
        if not s.teacher_warmup:
            return s.teacher_temperature
        share = (self.steps / s.teacher_warmup).clamp(max=1)
        return s.teacher_start + (s.teacher_temperature - s.teacher_start) * share


class Prototypes(nn.Module):
    """The cosines of projections (N, B) and K learned prototypes: (N, K) in float32.

    The same as a layer with weight normalisation whose lengths stay 1.
    """

    def __init__(self, inputs: int, count: int) -> None:
        super().__init__()
        self.weight = nn.Linear(inputs, count, bias=False).weight

    def forward(self, projections: Tensor) -> Tensor:
        """Cosines in -1..1."""
        with torch.autocast(projections.device.type, enabled=False):
            return F.linear(F.normalize(projections, dim=1), F.normalize(self.weight.float(), dim=1))


def cross_entropies(targets: Tensor, outputs: Tensor, temperature: float) -> Tensor:
    """The mean cross-entropy of each image over all pairs of different views: (G, n, K), (V, n, K) -> (n,).

    Args:
        targets: assignments of the first G views.
        outputs: what all V views give, before the softmax.
        temperature: of that softmax.
    """
    logs = F.log_softmax(outputs / temperature, dim=2)
    pairs = [-(t * log).sum(1) for i, t in enumerate(targets) for j, log in enumerate(logs) if i != j]
    return torch.stack(pairs).mean(0)


def sinkhorn(logits: Tensor, iterations: int = 3) -> Tensor:
    """Assignments (n, K), each of sum 1, in which all prototypes have nearly equal shares of the whole batch.

    The rows of all processes count. Columns and rows are normalised in turn (Sinkhorn and Knopp), as logarithms.
    """
    for _ in range(iterations):
        logits = logits - gathered(logits.logsumexp(0, keepdim=True)).logsumexp(0)
        logits = logits.log_softmax(1)
    return logits.exp()
