"""Classes of a few labelled images that views have to keep: InfoMin's semi-supervised form.

Small classifiers learn the class from each view, and the flow that makes the views learns with them: what two views
share falls, but not what tells the class. Tian et al., What Makes for Good Views for Contrastive Learning?, NeurIPS
2020. Only the flow gets this gradient, never the encoder.
"""

import functools
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch.nn import functional as F

from coviews.data.imageset import ImageSet
from coviews.data.subset import choose_subset
from coviews.errors import CoviewsError
from coviews.methods.infomin_flow import ViewClassifiers
from coviews.runs.settings import PretrainSettings
from coviews.training.batches import Batches

UNKNOWN = -1  # the label of an image whose class is not used


class KeptClasses:
    """The classifiers, and which images of each step have a label.

    The labelled images are as many as the settings say, equally many of each class, by the seed of the subset.
    """

    def __init__(self, settings: PretrainSettings, images: ImageSet, batches: Batches) -> None:
        if images.labels is None or settings.stream:
            raise CoviewsError("--infomin-labels needs images with labels, without --stream: leave it out")
        count = min(settings.infomin_labels, len(images))
        known = choose_subset(len(images), images.labels, count, settings.subset_seed)
        self.labels = np.full(len(images), UNKNOWN)
        self.labels[known] = images.labels[known]
        self.batches, self.share = batches, 1 / settings.accumulate
        self.classifiers: Any = ViewClassifiers(images.images.shape[3], int(images.labels.max()) + 1)
        self.order = functools.lru_cache(maxsize=1)(batches.order)

    def set_up(self, fabric: Fabric) -> None:
        """Move the classifiers to the run's device, and share their gradients among the processes."""
        self.bare, self.classifiers = self.classifiers, fabric.setup_module(self.classifiers)

    def kept(self, views: Tensor, index: Tensor, epoch: int, step: int) -> Tensor:
        """The same views (V n, C, H, W) of this process; what made them learns to keep the classes of a step in them.

        index: which view of its image each is (V n,).
        """
        b = self.batches
        labels = torch.from_numpy(self.labels[self.order(epoch)[step * b.size : (step + 1) * b.size]]).to(views.device)
        share = b.size // b.ranks
        mine = labels[b.rank * share : (b.rank + 1) * share].repeat(len(views) // share)
        scores = self.classifiers(views, index).float()  # also without a label: all processes do the same
        losses = F.cross_entropy(scores, mine, ignore_index=UNKNOWN, reduction="sum")
        count = (labels != UNKNOWN).sum().clamp(min=1) * (len(views) // share)
        kept: Tensor = _WithLoss.apply(views, losses * b.ranks * self.share / count)
        return kept


class _WithLoss(torch.autograd.Function):
    """The same values; a loss beside them is lowered by the pass that computes the gradients of the values."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, loss: Tensor) -> Tensor:
        ctx.save_for_backward(loss)
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        (loss,) = ctx.saved_tensors
        return gradient, torch.ones_like(loss)
