"""The searches by name: a new one is one file with its class and settings, and one entry here."""

import dataclasses

from coviews.errors import unknown
from coviews.searching.contract import Search, SearchContext
from coviews.searching.ppo_search import PPOSearch
from coviews.searching.settings import SearchSettings
from coviews.searching.table_search import TableSearch

SEARCHES: dict[str, type[Search]] = {search.settings_type.name: search for search in (TableSearch, PPOSearch)}


def search_settings(name: str) -> SearchSettings:
    """The default settings of a search by name."""
    if name not in SEARCHES:
        raise unknown("search", name, SEARCHES)
    return SEARCHES[name].settings_type()


def default_search(reveals_hardness: bool) -> SearchSettings:
    """The first search that can learn from a training whose losses reveal the hardness of a pair, or do not."""
    return next(
        search.settings_type()
        for search in SEARCHES.values()
        if reveals_hardness or not search.settings_type.reads_training_losses
    )


def make_search(settings: SearchSettings, context: SearchContext) -> Search:
    """The search that these settings are of."""
    return SEARCHES[settings.name](settings, context)


def searches_table() -> tuple[list[str], list[list[str]]]:
    """The searches as rows of text: name, what it is, its own options."""
    common = {field.name for field in dataclasses.fields(SearchSettings)}
    rows = []
    for name, search in SEARCHES.items():
        about = (search.__doc__ or "").strip().splitlines()[0]
        options = [f.name for f in dataclasses.fields(search.settings_type) if f.name not in common]
        rows.append([f"`{name}`", about, ", ".join(f"`--search.{f.replace('_', '-')}`" for f in options)])
    return ["search", "what it does", "its options"], rows
