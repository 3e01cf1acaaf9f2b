"""Parts of a set that hold its classes in the proportions of the whole."""

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError
from coviews.evaluation.labels import Labels, check_label_array


def balanced_share(
    labels: Labels, share: float, generator: np.random.Generator, *, every_class: bool = False
) -> NDArray[np.int64]:
    """Indices, in order, of a share of the images that holds the classes in the proportions of the whole.

    Args:
        labels: (N,).
        share: in 0..1; at least one image is chosen.
        generator: draws which ones.
        every_class: at least one image of each class, even if that makes more than the share.
    """
    labels = check_label_array(labels, None, None, "image")
    if not 0 < share <= 1:
        raise CoviewsError(f"the share of the images must be above 0 and at most 1, not {share}")
    n = len(labels)
    count = max(1, round(n * share))
    order = np.lexsort((generator.random(n), labels))  # class by class, at random within each
    chosen = order[((np.arange(count) + 0.5) * n / count).astype(np.int64)]  # evenly apart, so fair to all classes
    if every_class:
        _, firsts = np.unique(labels[order], return_index=True)
        missed = order[firsts][~np.isin(labels[order[firsts]], labels[chosen])]
        chosen = np.concatenate([chosen, missed])
    return np.sort(chosen)


def balanced_parts(labels: Labels, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Which of `count` parts of almost equal size each image belongs to (N,), fair to all classes."""
    part = np.empty(len(labels), np.int64)
    part[np.lexsort((generator.random(len(labels)), labels))] = np.arange(len(labels)) % count
    return part
