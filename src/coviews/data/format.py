"""What a data format is."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from coviews.data.request import ImageRequest
from coviews.data.source import Source


class Format(ABC):
    """One kind of data: which data are of this kind, and how they are opened."""

    about: str  # what it is, in a few words: part of the help text and a row in the docs
    examples: Sequence[str] = ()  # how it is written on the command line; none for objects of Python
    names: Sequence[str] = ()  # data sets that are opened by NAME or NAME:..., wherever the current folder is

    def fits(self, data: Any) -> bool:
        """Whether the data are of this format; by default, whether they are one of its names."""
        return name_of(data) in self.names

    @abstractmethod
    def open(self, data: Any, request: ImageRequest) -> Source:
        """The images of the data, none of which has to be decoded yet."""


def name_of(data: Any) -> str | None:
    """NAME of NAME:REST, if the data are a text."""
    return data.partition(":")[0] if isinstance(data, str) else None
