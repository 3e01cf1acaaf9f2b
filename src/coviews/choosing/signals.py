"""What can be told of an encoder without labels: weak signs of how useful its views were."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from coviews.choosing.probes import standardised
from coviews.evaluation.quality import rankme
from coviews.ops.engine import make_views
from coviews.ops.images import Images
from coviews.ops.plan import Plan
from coviews.policies.factors import family
from coviews.policies.fixed import fitted_source

Encode = Callable[[Images], NDArray[np.float32]]  # images (n, H, W, C) -> features (n, D)

SOME = 400  # images that signals are computed on
# families whose views of an image should find each other among those of other images
RETRIEVAL = (
    "recipe", "cropflip", "crop small, mirror, light", "crop large, turns, tilt", "crop large, tone, blur, cutout"
)  # fmt: skip


def signals(encode: Encode, images: Images, generator: np.random.Generator) -> dict[str, float]:
    """Each signal by its name: accuracies in percent, and the effective rank of the features.

    Args:
        encode: gives the features of images.
        images: (n, H, W, C); at most 400 of them are used.
        generator: chooses the images and draws their views.
    """
    some = images[np.sort(generator.permutation(len(images))[:SOME])]
    features = encode(some)
    return {
        "rotation": _rotation(encode, some, features),
        "retrieval": _retrieval(encode, some, generator),
        "rankme": rankme(features),
    }


def _rotation(encode: Encode, images: Images, features: NDArray[np.float32]) -> float:
    """How well a ridge regression on the features tells by which quarter turn an image was turned.

    Images that are not square are cut to a square in the middle.
    """
    side = min(images.shape[1:3])
    top, left = (images.shape[1] - side) // 2, (images.shape[2] - side) // 2
    square = images[:, top : top + side, left : left + side]
    turned = [encode(np.ascontiguousarray(np.rot90(square, k, (1, 2)))) for k in range(4)]
    if side == images.shape[1] == images.shape[2]:
        turned[0] = features
    n = len(images)
    # image by image, so that all turns of an image are known or none: the probe is fitted on one half
    order = np.arange(n) < n // 2
    x = standardised(np.concatenate(turned))
    half, labels = np.tile(order, 4), np.repeat(np.arange(4), n)
    return 100 * float(_ridge_accuracy(x[half], labels[half], x[~half], labels[~half]))


def _ridge_accuracy(
    train: NDArray[np.float64], labels: NDArray[np.int64], test: NDArray[np.float64], truth: NDArray[np.int64]
) -> float:
    targets = (labels[:, None] == np.arange(4)).astype(np.float64) - 0.25
    penalty = 0.01 * (train**2).sum() / train.shape[1]
    weights = np.linalg.solve(train.T @ train + penalty * np.eye(train.shape[1]), train.T @ targets)
    return float(((test @ weights).argmax(1) == truth).mean())


def _retrieval(encode: Encode, images: Images, generator: np.random.Generator) -> float:
    """How often a view's nearest among the second views of all images is that of its own image, over all families."""
    hits = []
    for name in RETRIEVAL:
        views_of = family(name)
        source = fitted_source(views_of.source(), images.shape[3], images.dtype)
        plan = Plan.draw(source, len(images), images.shape[1:3], generator, views_of.placement)
        views = make_views(images, plan)
        a, b = (_unit(encode(np.ascontiguousarray(views[:, v]))) for v in range(2))
        hits.append(((a @ b.T).argmax(1) == np.arange(len(images))).mean())
    return 100 * float(np.mean(hits))


def _unit(features: NDArray[np.float32]) -> NDArray[np.float32]:
    centred = features - features.mean(0)
    return centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
