"""The features that an evaluation is computed from: taken once of an encoder, or the pixels as a baseline."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from coviews.encoders.features import Features, features
from coviews.evaluation.crop_model import CropModel
from coviews.evaluation.task import Labelled, Task
from coviews.evaluation.turns import turns
from coviews.ops.engine import random_crops
from coviews.ops.images import Images

PAIRS = 500  # images of which two views are compared, and of which two crops teach what crops do to features
PIXELS = 16  # the side that images have as a baseline: 32 is no better on CIFAR-10, and ten times as slow


@dataclass(frozen=True, eq=False)
class ImageSets:
    """The images that pass an encoder."""

    train: Images  # (N, H, W, C)
    test: Images | None
    views: Images  # (M, 2, H, W, C), two views of some training images, as in the encoder's training
    cropped: NDArray[np.int64]  # indices into the training images
    crops: Images | None  # (len(cropped), 2, H, W, C), two random crops of each; without labels none
    turned: NDArray[np.int64] | None  # indices of training images to be turned by quarters; none if not square


@dataclass(frozen=True, eq=False)
class FeatureSets:
    """Their features."""

    train: Features  # (N, D)
    test: Features | None
    views: tuple[Features, Features] | None  # of raw pixels none
    crops: CropModel | None  # what random crops do to the features; without labels none
    turned: tuple[Features, ...] | None  # of some images by 0 to 3 quarter turns; of raw pixels none


def draw_images(
    train: Labelled,
    test: Labelled | None,
    task: Task | str,
    *,
    seed: int,
    crop: tuple[float, float] | None,
    flip: float,
) -> ImageSets:
    """Draw the views and crops.

    Args:
        train: the training images.
        test: the test images, if there are some.
        task: without one (see `make_task`), no probe needs crops.
        seed: for what is drawn.
        crop: of the two views.
        flip: the same for their probability of a flip.
    """
    generator = np.random.default_rng([seed, 1])
    few = np.sort(generator.choice(len(train.images), min(PAIRS, len(train.images)), replace=False))
    views = random_crops(train.images[few], generator, area=crop, flip=flip, views=2)
    test_images = None if test is None else test.images
    turned = few if train.images.shape[1] == train.images.shape[2] else None
    if isinstance(task, str):
        return ImageSets(train.images, test_images, views, few[:0], None, turned)
    cropped = few if test is not None else few[np.isin(few, task.train)]  # no image that is held out
    crops = random_crops(train.images[cropped], generator, views=2)
    return ImageSets(train.images, test_images, views, cropped, crops, turned)


def encoder_features(
    encoder: nn.Module,
    name: str,
    images: ImageSets,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    progress: bool,
    **how: Any,
) -> FeatureSets:
    """The features of all images; `name` and what is passed are shown as progress, `how` goes to `features`."""

    def take(part: Images, title: str) -> Features:
        return features(encoder, part, mean, std, title=f"{name}: {title}", progress=progress, **how)

    train = take(images.train, "features of the training images")
    test = None if images.test is None else take(images.test, "features of the test images")
    first, second = (take(images.views[:, view], "features of two views") for view in (0, 1))
    crops = _crop_model(images, train, partial(take, title="features of random crops"))
    turned = None
    if images.turned is not None:
        others = turns(images.train[images.turned])[1:]
        turned = (train[images.turned], *(take(part, "features of turned images") for part in others))
    return FeatureSets(train, test, (first, second), crops, turned)


def standardised_pixels(images: ImageSets) -> FeatureSets:
    """Pixels, standardised by the training set: otherwise a cosine would see little but brightness."""
    train = pixel_features(images.train)
    mean, scale = train.mean(0), 1 / np.maximum(train.std(0), 1e-3)

    def take(part: Images) -> Features:
        return (pixel_features(part) - mean) * scale

    train = (train - mean) * scale
    test = None if images.test is None else take(images.test)
    return FeatureSets(train, test, None, _crop_model(images, train, take), None)


def pixel_features(images: Images) -> Features:
    """The pixels of images, averaged down to 16 x 16 where they are larger (N, D): a baseline without an encoder."""
    size = (min(PIXELS, images.shape[1]), min(PIXELS, images.shape[2]))
    parts = []
    for start in range(0, len(images), 1024):
        part = np.array(images[start : start + 1024])
        tensor = torch.from_numpy(part.reshape(*part.shape[:3], -1)).permute(0, 3, 1, 2).float()
        parts.append(F.adaptive_avg_pool2d(tensor, size).flatten(1).numpy())
    return np.concatenate(parts)


def _crop_model(images: ImageSets, train: Features, take: Callable[[Images], Features]) -> CropModel | None:
    if images.crops is None:
        return None
    whole = np.tile(train[images.cropped], (2, 1))
    return CropModel.fit(whole, np.concatenate([take(images.crops[:, i]) for i in (0, 1)]))
