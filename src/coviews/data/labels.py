"""Labels: numbers of classes, and what the classes are called."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Labels(NamedTuple):
    """The class of each image, and the names of the classes."""

    values: NDArray[np.int64]  # (N,), indices into classes
    classes: tuple[str, ...]

    def of(self, chosen: NDArray[np.int64]) -> "Labels":
        """The labels of some of the images; all classes stay."""
        return Labels(self.values[chosen], self.classes)


def labels_of_texts(texts: Sequence[str]) -> Labels:
    """Classes are the different texts, sorted; by their value if all are numbers."""
    numbers = {text: _number(text) for text in set(texts)}
    known = [n for n in numbers.values() if n is not None]
    if len(known) == len(numbers):
        classes = [text for _, text in sorted(zip(known, numbers, strict=True))]
    else:
        classes = sorted(numbers)
    place = {text: i for i, text in enumerate(classes)}
    return Labels(np.array([place[text] for text in texts], np.int64), tuple(classes))


def labels_of_numbers(values: NDArray[Any], names: Sequence[str] | None = None) -> Labels | None:
    """Labels of whole numbers, with these names of classes if they are enough, else the numbers themselves.

    None where a label is negative, for this is how data sets write that they do not know it.
    """
    if values.min(initial=0) < 0:
        return None
    if names is not None and values.max(initial=0) < len(names):
        return Labels(values.astype(np.int64), tuple(names))
    different, places = np.unique(values, return_inverse=True)
    return Labels(places.reshape(-1).astype(np.int64), tuple(str(number) for number in different.tolist()))


def joined(parts: Sequence[Labels | None]) -> Labels | None:
    """The labels of several parts of a data set in a row; none if one part has none."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return Labels(np.concatenate([part.values for part in known]), known[0].classes)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
