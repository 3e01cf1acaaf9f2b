"""The formats of data that is an object of Python."""

import os
from typing import Any

import numpy as np

from coviews.data.arrays import ArrayImages, as_batch
from coviews.data.class_labels import Labels
from coviews.data.datasets import DatasetImages, is_dataset
from coviews.data.format import Format
from coviews.data.hugging_face import HuggingFaceImages, hugging_face_kind, open_iterable
from coviews.data.imageset import ImageSet
from coviews.data.request import ImageRequest
from coviews.data.source import Source
from coviews.errors import CoviewsError


class ArrayFormat(Format):
    """An array in memory."""

    about = "an array (N, H, W) or (N, H, W, C)"

    def fits(self, data: Any) -> bool:
        """Whether the data are of this kind."""
        return isinstance(data, np.ndarray)

    def open(self, data: Any, request: ImageRequest) -> Source:
        """Its images."""
        return ArrayImages("the array", [as_batch(data, "the array", request.notes)])


class LoadedImagesFormat(Format):
    """An ImageSet, to be resized or reduced."""

    about = "an ImageSet"

    def fits(self, data: Any) -> bool:
        """Whether the data are of this kind."""
        return isinstance(data, ImageSet)

    def open(self, data: Any, request: ImageRequest) -> Source:
        """Its images."""
        labels = None
        if data.labels is not None:
            classes = data.classes or tuple(str(i) for i in range(int(data.labels.max(initial=0)) + 1))
            labels = Labels(data.labels, classes)
        rows = data.images.ndim == 4 and data.images.shape[1] == 1  # series: of height one, not of one channel
        batch = data.images if rows else as_batch(data.images, "the set", request.notes)
        return ArrayImages(
            "the set", [batch], labels, data.names, skipped=data.broken, are_levels=True, values=data.values
        )


class HuggingFaceFormat(Format):
    """A data set of the library `datasets`, on a disk or streamed."""

    about = "a data set of Hugging Face's library datasets, or one that it streams"

    def fits(self, data: Any) -> bool:
        """Whether the data are of this kind."""
        return hugging_face_kind(data) is not None

    def open(self, data: Any, request: ImageRequest) -> Source:
        """Its images."""
        kind = hugging_face_kind(data)
        if kind == "Dataset":
            return HuggingFaceImages(data, request.frames)
        if kind == "IterableDataset":
            return open_iterable(data, request.cache, request.title("counting images"), request.frames)
        raise CoviewsError(f"a {kind} has several splits: give one of them, such as data['train']")


class PythonDatasetFormat(Format):
    """A data set of torch, or anything like it."""

    about = "a data set of Python, such as a torch Dataset"

    def fits(self, data: Any) -> bool:
        """Whether the data are of this kind."""
        return is_dataset(data) and not isinstance(data, os.PathLike)

    def open(self, data: Any, request: ImageRequest) -> Source:
        """Its images."""
        return DatasetImages(data, grey=request.channels == 1, title=request.title("reading labels"))
