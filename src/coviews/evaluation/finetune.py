"""Fine-tuning: how far a copy of an encoder gets with few labels, when all its weights may learn."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from coviews.console.progress import shown
from coviews.encoders.features import feature_batches
from coviews.encoders.frozen import device_of, seeded
from coviews.encoders.pixels import to_tensors
from coviews.errors import CoviewsError
from coviews.evaluation.labels import Labels, accuracy, balanced_share, check_label_array
from coviews.evaluation.linear import Diverged
from coviews.ops.engine import AREA, random_crops
from coviews.ops.images import Images

EPOCHS, STEPS = 30, 120  # the least of each


@dataclass(frozen=True, eq=False)
class Finetuned:
    """The result of a fine-tuned copy of the encoder on the test set."""

    accuracy: float
    images: int  # training images whose labels were used
    predictions: Labels  # (M,)


def finetune(
    encoder: nn.Module,
    train_images: Images,
    train_labels: Labels,
    test_images: Images,
    test_labels: Labels,
    mean: Sequence[float],
    std: Sequence[float],
    *,
    classes: int,
    fraction: float,
    seed: int = 0,
    epochs: int | None = None,
    lr: float = 0.03,
    batch: int = 64,
    crop: tuple[float, float] | None = AREA,
    flip: float = 0.5,
    device: torch.device | str | None = None,
    progress: bool = False,
    title: str = "fine-tuning",
) -> Finetuned:
    """Train a copy of the encoder and a linear head on a fraction of the labels, by SGD with a cosine schedule.

    Batch normalisation learns as well: with its statistics fixed, a step of this size destroyed the encoder.

    Args:
        encoder: see `features` for it, the images, mean and std.
        train_labels: (N,), 0..classes - 1.
        test_labels: (M,), -1 for those that do not count.
        classes: how many there are.
        fraction: of the labels, such as 0.01; the same share of each class, and at least one image of each.
        seed: chooses the images, their order and crops.
        epochs: by default 30, or as many as give 120 steps.
        progress: show a progress bar if it takes more than two seconds.
        title: of the progress bar.
    """
    labels = check_label_array(train_labels, len(train_images), classes, "training")
    generator = np.random.default_rng(seed)
    indices = balanced_share(labels, fraction, generator, every_class=True)
    if len(indices) < 2 or batch < 2:
        raise CoviewsError("fine-tuning needs two labelled images at least, and batches of two")
    images, labels = train_images[indices], labels[indices]  # a copy
    parts = -(-len(images) // batch)  # batches in an epoch, all of almost the same size
    epochs = max(EPOCHS, -(-STEPS // parts)) if epochs is None else epochs
    if epochs < 1 or not 0 < lr < math.inf:
        raise CoviewsError(f"fine-tuning needs an epoch at least and a step above 0, not {epochs} and {lr}")
    where = device_of(encoder, device)
    tuned = copy.deepcopy(encoder).to(where).train().requires_grad_(True)
    first = next(feature_batches(tuned, images[:2], mean, std, device=where))
    with seeded(seed, where):
        head = nn.Linear(first.shape[1], classes, device=where)
    nn.init.zeros_(head.weight)  # so that the first step leaves the encoder as it is
    nn.init.zeros_(head.bias)
    optimizer = torch.optim.SGD([*tuned.parameters(), *head.parameters()], lr, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * parts)
    with seeded(seed, where), torch.enable_grad():
        for _ in shown(range(epochs), title if progress else "", epochs):
            for part in np.array_split(generator.permutation(len(images)), parts):
                views = random_crops(images[part], generator, area=crop, flip=flip)
                features = tuned(to_tensors(views, mean, std, where)[0]).flatten(1).float()
                loss = F.cross_entropy(head(features), torch.from_numpy(labels[part]).to(where))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
            if not torch.isfinite(loss):
                raise Diverged(f"fine-tuning diverged: its loss is {float(loss)}; try a smaller lr than {lr}")
    with torch.no_grad():
        batches = feature_batches(tuned, test_images, mean, std, batch=batch, device=where)
        predictions = torch.cat([head(features).argmax(1) for features in batches]).cpu().numpy()
    return Finetuned(accuracy(test_labels, predictions), len(images), predictions)
