"""Labels: the class of each image as a number, and the names of the classes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError

_LONGEST = 200  # characters of the name of a class


class Labels(NamedTuple):
    """The class of each image, and the names of the classes."""

    values: NDArray[np.int64]  # (N,), indices into classes
    classes: tuple[str, ...]

    def of(self, indices: NDArray[np.int64]) -> "Labels":
        """The labels of some of the images, with the same classes."""
        return Labels(self.values[indices], self.classes)


def labels_of_texts(texts: Sequence[str]) -> Labels:
    """Labels from texts; the classes are the distinct texts, sorted by value if all are numbers."""
    numbers = {text: _number(text) for text in set(texts)}
    longest = max(numbers, key=len, default="")
    if len(longest) > _LONGEST:
        raise CoviewsError(f"the label {longest!r} has {len(longest):,} characters: at most {_LONGEST} are shown")
    known = [n for n in numbers.values() if n is not None]
    if len(known) == len(numbers):
        classes = [text for _, text in sorted(zip(known, numbers, strict=True))]
    else:
        classes = sorted(numbers)
    position = {text: i for i, text in enumerate(classes)}
    return Labels(np.array([position[text] for text in texts], np.int64), tuple(classes))


def labels_of_numbers(values: NDArray[Any], names: Sequence[str] | None = None) -> Labels | None:
    """Labels from whole numbers; the classes are called by the names, if there are enough, or by the numbers.

    None if a label is negative: data sets write an unknown label so.
    """
    if values.min(initial=0) < 0:
        return None
    if names is not None and values.max(initial=0) < len(names):
        return Labels(values.astype(np.int64), tuple(names))
    distinct, positions = np.unique(values, return_inverse=True)
    return Labels(positions.reshape(-1).astype(np.int64), tuple(str(number) for number in distinct.tolist()))


def joined(parts: Sequence[Labels | None]) -> Labels | None:
    """The labels of several parts of a data set, one after the other; None if a part has no labels."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return Labels(np.concatenate([part.values for part in known]), known[0].classes)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
