"""Labels that views keep: the flow's gradient lowers the classifiers' loss, and the encoder gets none of it."""

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric

from coviews import CoviewsError, ImageSet, PretrainSettings, ViewSettings
from coviews.training.batches import Batches
from coviews.training.kept_classes import UNKNOWN, KeptClasses
from coviews.training.viewmaking import Viewmaking

N, SIZE = 24, 8
IMAGES = np.random.default_rng(0).integers(0, 256, (N, SIZE, SIZE, 3), np.uint8)
LABELS = np.arange(N) % 3


def made(labels, **changes):
    """What changes the views of steps of eight images."""
    torch.manual_seed(0)
    settings = PretrainSettings(views="infomin-flow", infomin_labels=labels, batch_size=8, **changes)
    views = ViewSettings.of(IMAGES)
    batches = Batches(IMAGES, 8, 0, views)
    images = ImageSet(IMAGES, LABELS, ("a", "b", "c"))
    classes = KeptClasses(settings, images, batches) if labels else None
    return Viewmaking(settings, 3, views, Fabric(accelerator="cpu"), classes)


def gradients(viewmaking, weight, step=1):
    """Of the flow and the classifiers, after a step whose loss is the sum of all views times a weight."""
    x = torch.randn(8, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))
    sum(weight * view.sum() for view in viewmaking.views([x, x], 2, step)).backward()
    return [p.grad.clone() for p in (*viewmaking.bare.parameters(), *viewmaking.classes.bare.parameters())], x


def expected(viewmaking, x, step=1):
    """The mean cross entropy of the labelled images of the step over both views, computed image by image."""
    labels = viewmaking.classes.labels[viewmaking.classes.batches.order(2)[step * 8 : (step + 1) * 8]]
    pixels = x * viewmaking.std + viewmaking.mean
    losses = []
    for part in (0, 1):
        for image, label in zip(pixels, labels, strict=True):
            if label != UNKNOWN:
                view = viewmaking.bare(image[None], index=torch.tensor([part]))
                scores = viewmaking.classes.bare.each[part](view)[0]
                losses.append(-torch.log_softmax(scores, 0)[label])
    return torch.stack(losses).mean(), len(losses) // 2


@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_gradient_is_that_of_the_mean_loss_of_the_labelled_images(accumulate):
    viewmaking = made(12, accumulate=accumulate)
    found, x = gradients(viewmaking, 0.0)
    viewmaking.optimizer.zero_grad()
    loss, count = expected(viewmaking, x)
    assert 0 < count < 8  # some images of the step have a label, others none
    (loss / accumulate).backward()
    own = [*viewmaking.bare.parameters(), *viewmaking.classes.bare.parameters()]
    for gradient, parameter in zip(found, own, strict=True):
        torch.testing.assert_close(gradient, parameter.grad, atol=1e-6, rtol=1e-4)
    assert max(g.abs().max() for g in found) > 1e-3


def test_the_loss_of_the_encoder_is_added_with_the_other_sign():
    viewmaking = made(12)
    without, _ = gradients(viewmaking, 0.0)
    viewmaking.optimizer.zero_grad()
    both, x = gradients(viewmaking, 0.01)
    viewmaking.optimizer.zero_grad()
    viewmaking.classes = None
    sum(0.01 * view.sum() for view in viewmaking.views([x, x], 2, 1)).backward()
    for a, b, parameter in zip(both, without, viewmaking.bare.parameters(), strict=False):
        torch.testing.assert_close(a - b, parameter.grad, atol=1e-5, rtol=1e-3)


def test_the_labelled_images_are_as_many_of_each_class():
    labels = made(12).classes.labels
    assert np.bincount(labels[labels != UNKNOWN]).tolist() == [4, 4, 4]
    known = labels != UNKNOWN
    assert (labels[known] == LABELS[known]).all()
    assert (made(1000).classes.labels == LABELS).all()  # no more than there are


def test_what_is_wrong_is_named():
    with pytest.raises(CoviewsError, match="an option of --views infomin-flow, not of recipe"):
        PretrainSettings(views="recipe", infomin_labels=5)
    settings = PretrainSettings(views="infomin-flow", infomin_labels=5)
    with pytest.raises(CoviewsError, match="needs images with labels"):
        KeptClasses(settings, ImageSet(IMAGES), Batches(IMAGES, 8, 0, ViewSettings.of(IMAGES)))
