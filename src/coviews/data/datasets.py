"""Data sets of Python: anything with a length whose items are images, or images with labels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from coviews.data.imageset import Broken
from coviews.data.labels import Labels, labels_of_numbers
from coviews.data.parallel import mapped
from coviews.data.pictures import Header, converted, fitted, is_grey, reason
from coviews.errors import CoviewsError

_LOOKED_AT = 16  # items that decide the size and the colours
_TARGETS = ("targets", "labels")


class DatasetImages:
    """The items of a data set, read one after the other: nobody promises that it bears threads."""

    names: Sequence[str] | None = None
    unreadable: Sequence[Broken] = ()
    in_threads = False

    def __init__(self, dataset: Any, *, grey_is_wanted: bool, title: str) -> None:
        self.where = f"the {type(dataset).__name__}"
        self._dataset, self._grey_is_wanted, self._title = dataset, grey_is_wanted, title
        self._labels: dict[int, int] = {}  # of what has been read; an item without a label is not in it

    def __len__(self) -> int:
        return len(self._dataset)

    def known_labels(self) -> Labels | None:
        """The labels that the data set lists; if it lists none, those of its items, all of which are read for it."""
        for name in _TARGETS:
            targets: Any = getattr(self._dataset, name, None)
            if hasattr(targets, "__len__") and len(targets) == len(self):
                numbers = [_label(target) for target in targets]
                if all(number is not None for number in numbers):
                    return labels_of_numbers(np.array(numbers, np.int64))
        headers = mapped(self._header, range(len(self)), self._title, in_threads=False)
        whole = [index for index, header in enumerate(headers) if isinstance(header, Header)]
        labels = self.labels_of(np.array(whole, np.int64))
        if labels is None or not whole:
            return None
        values = np.full(len(self), labels.values[0])  # what is broken counts for some class
        values[whole] = labels.values
        return Labels(values, labels.classes)

    def labels_of(self, chosen: NDArray[np.int64]) -> Labels | None:
        """The labels of items that have been read, if all have one."""
        numbers = [self._labels.get(i, -1) for i in chosen.tolist()]
        classes = getattr(self._dataset, "classes", None)
        named = isinstance(classes, list | tuple) and all(isinstance(name, str) for name in classes)
        return labels_of_numbers(np.array(numbers, np.int64), classes if named else None)

    def identity(self, chosen: NDArray[np.int64]) -> None:
        """Nobody can tell whether a data set still has the same images."""
        return None

    def headers(self, chosen: NDArray[np.int64], title: str) -> list[Header | str | None]:
        """Of some items only, spread over all: to look at one is to read it."""
        places = set(np.linspace(0, len(chosen) - 1, min(len(chosen), _LOOKED_AT)).astype(int).tolist())
        headers: list[Header | str | None] = []
        one_is_whole = False
        for place, index in enumerate(chosen.tolist()):
            header = self._header(index) if place in places or not one_is_whole else None
            one_is_whole = one_is_whole or isinstance(header, Header)
            headers.append(header)
        return headers

    def read(self, index: int, height: int, width: int, channels: int) -> tuple[NDArray[np.uint8], bool]:
        """One item."""
        picture = self._picture(index)
        if channels == 1 and not self._grey_is_wanted and not is_grey(picture):
            raise CoviewsError(
                f"item {index} of {self.where} has colours, though the first ones have none: give channels=3, or 1"
            )
        picture = converted(picture, channels)
        return fitted(picture, height, width), picture.size != (width, height)

    def _header(self, index: int) -> Header | str:
        try:
            picture = self._picture(index)
        except CoviewsError:
            raise
        except Exception as error:  # what a data set raises is its own affair
            return reason(error)
        return Header(picture.height, picture.width, is_grey(picture))

    def _picture(self, index: int) -> Image.Image:
        """The image of an item; its label is noted."""
        item = self._dataset[index]
        if isinstance(item, tuple | list) and item:
            if len(item) > 1 and (label := _label(item[1])) is not None:
                self._labels[index] = label
            item = item[0]
        if isinstance(item, Image.Image):
            return item
        try:
            return Image.fromarray(_pixels(item))
        except (TypeError, ValueError) as error:
            raise CoviewsError(f"item {index} of {self.where} is {error}") from error


def is_dataset(data: Any) -> bool:
    """Whether something has a length and items by number."""
    return (
        hasattr(data, "__len__")
        and hasattr(data, "__getitem__")
        and not isinstance(data, str | bytes | bytearray | Mapping)
    )


def _pixels(item: Any) -> NDArray[np.uint8]:
    """An array (H, W) or (H, W, 3) of an array or a tensor."""
    is_tensor = hasattr(item, "detach") and hasattr(item, "numpy")
    array = item.detach().cpu().numpy() if is_tensor else item
    if not isinstance(array, np.ndarray):
        raise TypeError(f"a {type(item).__name__}: it must be an image, or (image, label)")
    if array.dtype.kind == "f":
        raise TypeError(
            f"an image of {array.dtype}: leave ToTensor and the normalisation out of its transform, so that it gives "
            "Pillow images or uint8"
        )
    if array.dtype != np.uint8:
        raise TypeError(f"an image of {array.dtype}: it must be uint8")
    first, last = (array.shape[0] in (1, 3), array.shape[-1] in (1, 3)) if array.ndim == 3 else (False, False)
    if first and (is_tensor or not last):  # a tensor has its channels first, an array last, if both may be
        array = array.transpose(1, 2, 0)
    if array.ndim not in (2, 3) or (array.ndim == 3 and not (first or last)) or 0 in array.shape:
        raise ValueError(f"of shape {array.shape}: an image is (H, W), (H, W, C) or (C, H, W), with 1 or 3 channels")
    return np.ascontiguousarray(array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array)


def _label(value: Any) -> int | None:
    """A label that is a whole number, also as NumPy and torch have them."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None
