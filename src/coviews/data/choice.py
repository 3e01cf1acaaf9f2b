"""Some images to show: at random, and of many kinds."""

import numpy as np
from numpy.typing import NDArray

from coviews.data.imageset import ImageSet


def varied(images: ImageSet, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Some images at random, of as many classes as there can be."""
    order = generator.permutation(len(images))
    if images.labels is None:
        return order[:count]
    seen = np.zeros(len(images.classes or ()), np.int64)
    turn = np.empty(len(order), np.int64)
    for i, label in enumerate(images.labels[order]):
        turn[i], seen[label] = seen[label], seen[label] + 1
    return order[np.argsort(turn, kind="stable")][:count]
