"""Choosing a subset of the images: equally many of each class, determined by a seed."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError


def choose_subset(
    n: int, labels: NDArray[np.int64] | None, subset: str | int | float | None, seed: int = 0
) -> NDArray[np.int64]:
    """The indices of the images of a subset, in order.

    With labels, every class gets equally many; the remainder goes to classes at random. A class with too few images
    gives all of them, and the other classes fill up.

    Args:
        n: the number of images.
        labels: (n,) their classes, if known.
        subset: a number, 5000 or "5000"; a share, "10%", "0.1" or 0.1; None for all.
        seed: the same seed gives the same subset.
    """
    if subset is None:
        return np.arange(n)
    count = _count(n, subset)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise CoviewsError(f"the seed of the subset must be a whole number of at least 0, not {seed!r}")
    generator = np.random.default_rng(int(seed))
    order = generator.permutation(n)
    if labels is None:
        return np.sort(order[:count])
    sizes = np.unique(labels, return_counts=True)[1]
    quotas = _quotas(sizes, count, generator)
    by_class = order[np.argsort(labels[order], kind="stable")]
    starts = np.cumsum(sizes) - sizes
    return np.sort(np.concatenate([by_class[i : i + q] for i, q in zip(starts, quotas, strict=True)]))


def _quotas(sizes: NDArray[np.int64], count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """The number of images of each class, for classes of these sizes: equal, as far as possible."""
    quotas = np.zeros_like(sizes)
    while left := count - int(quotas.sum()):
        unfilled = np.flatnonzero(quotas < sizes)
        if left < len(unfilled):
            quotas[generator.permutation(unfilled)[:left]] += 1
        else:
            quotas[unfilled] = np.minimum(quotas[unfilled] + left // len(unfilled), sizes[unfilled])
    return quotas


def _count(n: int, subset: Any) -> int:
    """The number of images of a subset, or an error that says what is wrong with it."""
    number, is_share = _parsed(subset)
    count = round(number * n) if is_share else int(number)
    if count < 1:
        raise CoviewsError(f"a subset of {subset!r} has no image: there are {n} in all")
    if count > n or (is_share and number > 1):
        raise CoviewsError(f"a subset of {subset!r} is more than there are: {n} in all")
    return count


def _parsed(subset: Any) -> tuple[float, bool]:
    """The number that a subset is written as, and whether it is a share."""
    wrong = CoviewsError(
        f"write the subset as a share such as '10%', or a number of images such as 5000, not {subset!r}"
    )
    if isinstance(subset, bool):
        raise wrong
    if isinstance(subset, int | np.integer):
        return int(subset), False
    text = repr(subset) if isinstance(subset, float) else subset.strip() if isinstance(subset, str) else ""
    match = re.fullmatch(r"(?P<number>\d{1,15}(\.\d*)?(e-\d{1,3})?)\s*(?P<percent>%?)", text, re.ASCII)
    if not match:
        raise wrong
    number = float(match["number"])
    if match["percent"]:
        return number / 100, True
    if match["number"].isdecimal():
        return int(number), False
    if number > 1:  # neither a share nor a whole number
        raise wrong
    return number, True
