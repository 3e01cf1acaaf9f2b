"""Data sets of Python: objects with a length whose items are images, or images with labels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from coviews.data.class_labels import Labels, labels_of_numbers
from coviews.data.imageset import Broken
from coviews.data.levels import MOST_CHANNELS, Target, channels_come_first, fitted_array
from coviews.data.parallel import parallel_map
from coviews.data.picture_reader import Header, header_of, picture_array, reason
from coviews.errors import CoviewsError

_SAMPLED = 16  # items that decide the size and the colours
_TARGETS = ("targets", "labels")


class DatasetImages:
    """The items of a data set, read in one thread, since a data set need not be thread-safe."""

    names: Sequence[str] | None = None
    unreadable: Sequence[Broken] = ()
    in_threads = False

    def __init__(self, dataset: Any, *, grey: bool, title: str) -> None:
        self.where = f"the {type(dataset).__name__}"
        self._dataset, self._grey, self._title = dataset, grey, title
        self._labels: dict[int, int] = {}  # of items that have been read and have a label

    def __len__(self) -> int:
        return len(self._dataset)

    def known_labels(self) -> Labels | None:
        """The labels that the data set lists; without a list, those of its items, which are all read."""
        for name in _TARGETS:
            targets: Any = getattr(self._dataset, name, None)
            if hasattr(targets, "__len__") and len(targets) == len(self):
                numbers = [_label(target) for target in targets]
                if all(number is not None for number in numbers):
                    return labels_of_numbers(np.array(numbers, np.int64))
        headers = parallel_map(self._header, range(len(self)), self._title, in_threads=False)
        readable = [index for index, header in enumerate(headers) if isinstance(header, Header)]
        labels = self.labels_of(np.array(readable, np.int64))
        if labels is None or not readable:
            return None
        values = np.full(len(self), labels.values[0])  # a broken item counts for any class
        values[readable] = labels.values
        return Labels(values, labels.classes)

    def labels_of(self, indices: NDArray[np.int64]) -> Labels | None:
        """The labels of items that have been read; None if one has no label."""
        numbers = [self._labels.get(i, -1) for i in indices.tolist()]
        classes = getattr(self._dataset, "classes", None)
        named = isinstance(classes, list | tuple) and all(isinstance(name, str) for name in classes)
        return labels_of_numbers(np.array(numbers, np.int64), classes if named else None)

    def identity(self, indices: NDArray[np.int64]) -> None:
        """None: a data set does not tell whether its images have changed."""
        return None

    def headers(self, indices: NDArray[np.int64], title: str) -> list[Header | str | None]:
        """The headers of a few items, evenly spread: a header costs reading the item."""
        places = set(np.linspace(0, len(indices) - 1, min(len(indices), _SAMPLED)).astype(int).tolist())
        headers: list[Header | str | None] = []
        one_is_readable = False
        for place, index in enumerate(indices.tolist()):
            header = self._header(index) if place in places or not one_is_readable else None
            one_is_readable = one_is_readable or isinstance(header, Header)
            headers.append(header)
        return headers

    def read(self, index: int, target: Target) -> tuple[NDArray[Any], bool]:
        """One item."""
        image = self._image(index)
        header = _header_of(image)
        if target.channels == 1 and not self._grey and header.channels != 1:
            raise CoviewsError(
                f"item {index} of {self.where} has colours, though the first ones have none: give channels=3, or 1"
            )
        if np.dtype(target.dtype) == np.uint8 and target.values is None and header.depth is None:
            raise CoviewsError(f"item {index} of {self.where} has more than 8 bits, though the first ones have not")
        return picture_array(image, target) if isinstance(image, Image.Image) else fitted_array(image, target)

    def _header(self, index: int) -> Header | str:
        try:
            image = self._image(index)
        except CoviewsError:
            raise
        except Exception as error:  # a data set may raise anything
            return reason(error)
        return _header_of(image)

    def _image(self, index: int) -> Image.Image | NDArray[Any]:
        """The image of an item; its label is remembered."""
        item = self._dataset[index]
        if isinstance(item, tuple | list) and item:
            if len(item) > 1 and (label := _label(item[1])) is not None:
                self._labels[index] = label
            item = item[0]
        if isinstance(item, Image.Image):
            return item
        try:
            return _pixels(item)
        except (TypeError, ValueError) as error:
            raise CoviewsError(f"item {index} of {self.where} is {error}") from error


def is_dataset(data: Any) -> bool:
    """Whether an object has a length and items by index."""
    return (
        hasattr(data, "__len__")
        and hasattr(data, "__getitem__")
        and not isinstance(data, str | bytes | bytearray | Mapping)
    )


def _header_of(image: Image.Image | NDArray[Any]) -> Header:
    if isinstance(image, Image.Image):
        return header_of(image)
    height, width, channels = image.shape
    return Header(height, width, channels, 8 if image.dtype == np.uint8 else None)


def _pixels(item: Any) -> Image.Image | NDArray[Any]:
    """An array or a tensor as a picture, or as pixels (H, W, C) if it has other channels or more than 8 bits."""
    is_tensor = hasattr(item, "detach") and hasattr(item, "numpy")
    array = item.detach().cpu().numpy() if is_tensor else item
    if not isinstance(array, np.ndarray):
        raise TypeError(f"a {type(item).__name__}: it must be an image, or (image, label)")
    if array.dtype.kind == "f":
        raise TypeError(
            f"an image of {array.dtype}: leave ToTensor and the normalisation out of its transform, so that it gives "
            "Pillow images or uint8"
        )
    if array.dtype not in (np.uint8, np.uint16):
        raise TypeError(f"an image of {array.dtype}: it must be uint8 or uint16")
    shape = array.shape
    # if both fit, a tensor has its channels first and an array last
    if array.ndim == 3 and channels_come_first(shape[0], shape[-1], prefer_first=is_tensor):
        array = array.transpose(1, 2, 0)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] > MOST_CHANNELS) or 0 in shape:
        raise ValueError(
            f"of shape {shape}: an image is (H, W), (H, W, C) or (C, H, W), with 1 to {MOST_CHANNELS} channels"
        )
    array = np.ascontiguousarray(array if array.ndim == 3 else array[..., None])
    if array.dtype == np.uint8 and array.shape[2] in (1, 3):
        return Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)
    return array


def _label(value: Any) -> int | None:
    """A label as int if it is a whole number of Python, NumPy or torch; else None."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None
