"""How an encoder takes to a policy's views of images that it was not trained on: SelfAugment's two losses."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from coviews.encoders.features import features
from coviews.encoders.frozen import device_of, evaluating
from coviews.encoders.pixels import to_tensors
from coviews.evaluation.linear import PLAIN, fast_probe
from coviews.evaluation.turns import TURNS, turns
from coviews.methods.method import Method
from coviews.ops.images import Images
from coviews.ops.view_settings import ViewSettings
from coviews.policies.subpolicy import ViewSource

MOST_FITTED = 2000  # images that the rotation probe is fitted to, in four turns each
PROBE, BATCHES = 11, 12  # streams of random numbers


@dataclass(frozen=True)
class PolicyLosses:
    """Of views that a policy makes."""

    rotation: float  # the cross-entropy of a linear probe that names their quarter turn
    contrast: float  # InfoNCE of pairs of them


class HeldOutLosses:
    """The losses of a policy by one encoder; the same policy always has the same, and all policies the same crops.

    Args:
        method: the encoder with its projector, and how pairs are compared.
        seen: images (N, H, W, C) that it was trained on: the rotation probe is fitted to plain views of them.
        held_out: images (M, H, W, C) that it was not trained on.
        views: how views are cropped, flipped and normalised.
        plain: the source of plain views.
        batch: pairs that are compared with each other.
        seed: of all draws.
    """

    def __init__(
        self, method: Method, seen: Images, held_out: Images, views: ViewSettings, plain: ViewSource, batch: int,
        seed: int,
    ) -> None:  # fmt: skip
        self.method, self.held_out, self.views, self.seed = method, held_out, views, seed
        self.batch, self.device = min(batch, len(held_out)), device_of(method.encoder)
        generator = np.random.default_rng([seed, PROBE])
        some = seen[np.sort(generator.choice(len(seen), min(len(seen), MOST_FITTED), replace=False))]
        plan = views.plan(plain, len(some), (some.shape[1], some.shape[2]), generator)
        turned = turns(np.ascontiguousarray(views.make(some, plan)[:, 0]))
        rows = np.concatenate([features(method.encoder, t, views.mean, views.std, device=self.device) for t in turned])
        labels = np.repeat(np.arange(TURNS), len(some))
        probe = fast_probe(rows, labels, rows[:1], classes=TURNS, strengths=[PLAIN])
        self.weight = torch.from_numpy(probe.weight).to(self.device)
        self.bias = torch.from_numpy(probe.bias).to(self.device)

    def __call__(self, source: ViewSource) -> PolicyLosses:
        """The mean losses over whole batches of the images that are held out."""
        totals, starts = np.zeros(2), range(0, len(self.held_out) - self.batch + 1, self.batch)
        with evaluating(self.method):
            for number, start in enumerate(starts):
                images = self.held_out[start : start + self.batch]
                generator = np.random.default_rng([self.seed, BATCHES, number])
                plan = self.views.plan(source, len(images), (images.shape[1], images.shape[2]), generator)
                made = self.views.make(images, plan)  # (n, 2, H, W, C)
                first, second = to_tensors(made, self.views.mean, self.views.std, self.device)
                contrast = self.method.compare(self.method.embed(first), self.method.embed(second)).mean()
                totals += self._rotation(first), float(contrast)
        rotation, contrast_mean = (totals / len(starts)).tolist()
        return PolicyLosses(rotation, contrast_mean)

    def _rotation(self, views: Tensor) -> float:
        """The mean cross-entropy of the probe over all turns of views (n, C, H, H)."""
        losses = []
        for turn in range(TURNS):
            rows = self.method.encoder(torch.rot90(views, turn, (2, 3))).flatten(1).float()
            labels = torch.full((len(rows),), turn, device=rows.device)
            losses.append(F.cross_entropy(rows @ self.weight.T + self.bias, labels))
        return float(torch.stack(losses).mean())
