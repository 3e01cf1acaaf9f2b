"""What can be told of images and an encoder without labels."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from coviews.choosing.probes import standardised
from coviews.evaluation.quality import rankme
from coviews.ops.images import Images

Encode = Callable[[Images], NDArray[np.float32]]  # images (n, H, W, C) -> features (n, D)

SOME = 600  # images that signals are computed on
COMPARED = 1250  # images that are compared with each other


def signals(encode: Encode, images: Images, generator: np.random.Generator) -> dict[str, float]:
    """Each signal by its name: an accuracy in percent, and the effective rank of the features.

    Args:
        encode: gives the features of images.
        images: (n, H, W, C); at most 600 of them are used.
        generator: chooses the images.
    """
    some = images[np.sort(generator.permutation(len(images))[:SOME])]
    features = encode(some)
    return {"mirrored": mirrored(features, encode(np.ascontiguousarray(some[:, :, ::-1]))), "rankme": rankme(features)}


def alike_in_colour(images: Images) -> float:
    """How far images that look alike without colour have the same colour: 1 if they do, 0 if like any two images.

    Each image is compared with the one whose brightness, standardised, is the most similar. Where colour belongs to
    things, as on fruit, they have the same mean colour; where it does not, as on cars, they need not.

    Args:
        images: (n, H, W, 3); at most 1,250 of them are used, evenly spread.
    """
    count = min(len(images), COMPARED)
    some = images[np.arange(count) * len(images) // count].astype(np.float32)
    red, green, blue = np.moveaxis(some.mean((1, 2), dtype=np.float64), 1, 0)
    colour = np.stack([red - green, (red + green) / 2 - blue], 1)
    looks = some.mean(3).reshape(count, -1)
    looks -= looks.mean(1, keepdims=True)
    looks /= np.maximum(np.linalg.norm(looks, axis=1, keepdims=True), 1e-9)
    similar = looks @ looks.T
    np.fill_diagonal(similar, -np.inf)
    apart = np.square(colour - colour[similar.argmax(1)]).sum(1).mean()
    return 1 - float(apart / max(2 * colour.var(0).sum(), 1e-12))


def mirrored(features: NDArray[np.floating], of_mirrored: NDArray[np.floating]) -> float:
    """How well a ridge regression tells mirror images from images that it has not seen, in percent; 50 is chance.

    Where it can, mirror images are no images of this kind, such as those of letters, or of sounds over time. It learns
    from one half of the images and is judged on the other, and the other way round. The halves are those in which
    images differ most, so that pictures of the same thing, which could be remembered, are on one side.
    """
    n = len(features)
    x = standardised(np.concatenate([features, of_mirrored]))
    both = x[:n] + x[n:]
    place = np.linalg.svd(both - both.mean(0), full_matrices=False)[0][:, 0]
    first = np.zeros(n, bool)
    first[np.argsort(place)[: n // 2]] = True
    half, targets = np.tile(first, 2), np.repeat([-1.0, 1.0], n)
    return (_told_apart(x, targets, half) + _told_apart(x, targets, ~half)) / 2


def _told_apart(x: NDArray[np.floating], targets: NDArray[np.float64], known: NDArray[np.bool_]) -> float:
    """How many of the others a ridge regression on the known rows tells, in percent."""
    train = x[known]
    penalty = 0.03 * (train**2).sum() / train.shape[1]
    weights = np.linalg.solve(train.T @ train + penalty * np.eye(train.shape[1]), train.T @ targets[known])
    return 100 * float((np.sign(x[~known] @ weights) == targets[~known]).mean())
