"""What of a search's metrics the report draws."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchMeasure:
    """One value of a search's records: a number, or a list of numbers with one for each iteration."""

    key: str
    title: str
    about: str
    axis: str = ""
    percent: bool = False
