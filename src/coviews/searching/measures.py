"""What a search records of itself, described so that the report can draw it without knowing the search."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchMeasure:
    """One value of a search's records in metrics.jsonl.

    The value is a number, which is drawn over the epochs, or a list of numbers, which is drawn over the iterations of
    the search.
    """

    key: str
    """Its name in the record."""
    title: str
    about: str
    """A sentence on how to read it."""
    axis: str = ""
    """What the vertical axis is called."""
    percent: bool = False
    """Whether it is a share, to be shown in percent."""
