"""Where the options of `pretrain` and `compare` start from: a run, a preset, a file, a method and a search."""

import argparse
import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import tyro

from coviews.cli.help import ASKS
from coviews.console.options import flag
from coviews.errors import CoviewsError
from coviews.methods.known import METHODS
from coviews.runs.old_settings import MOVED
from coviews.runs.presets import preset as preset_settings
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import changed_settings, read_settings
from coviews.runs.view_names import DEFAULT_VIEWS
from coviews.searching.known import SEARCHES


def _listed(names: Iterable[str]) -> Callable[[str], str]:
    """The hint behind an option's help: all names there are when the help is shown."""
    return lambda _: f"({', '.join(names)})"


# the options that say which other options there are
MethodName = Annotated[
    str | None,
    tyro.conf.arg(
        metavar="NAME",
        help="What learns from the views; by default simclr. Its own options: coviews pretrain --method NAME --help.",
        help_behavior_hint=_listed(METHODS),
    ),
]
SearchName = Annotated[
    str | None,
    tyro.conf.arg(
        metavar="NAME",
        help="How views are learned; by default table where the method's losses tell how hard a pair is, else ppo. Its "
        "own options: coviews pretrain --search NAME --help.",
        help_behavior_hint=_listed(SEARCHES),
    ),
]


def starting_settings(arguments: list[str]) -> PretrainSettings:
    """What the options change: a run's settings, those of a preset or a file, or the defaults."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    for name in ("preset", "config", "resume", "method", "search"):
        parser.add_argument(f"--{name}")
    try:
        named, rest = parser.parse_known_args(arguments)
    except argparse.ArgumentError:
        return PretrainSettings()  # an option without its value: the true parser says so
    settings = _base(named, rest)
    changes = {name: getattr(named, name) for name in ("method", "search") if getattr(named, name) is not None}
    options = {word.partition("=")[0] for word in rest if word.startswith("--")}
    if "--views" not in options and settings.views == DEFAULT_VIEWS and any(o.startswith("--search.") for o in options):
        changes["views"] = "coviews"  # options of a search are for views that are learned
    settings = changed_settings(settings, changes)
    _check_owners(settings, rest)
    return settings


def _base(named: argparse.Namespace, rest: list[str]) -> PretrainSettings:
    if named.resume is not None:
        if not (Path(named.resume) / "config.yaml").is_file():
            raise CoviewsError(f"{named.resume} is not a run: it has no config.yaml")
        return read_settings(Path(named.resume) / "config.yaml")
    base = preset_settings(named.preset) if named.preset is not None else PretrainSettings()
    if named.config is not None:
        return read_settings(Path(named.config), base)
    for_help = any(word in ASKS for word in rest)
    return preset_settings("demo") if named.preset is None and not has_data(rest) and not for_help else base


def _check_owners(settings: PretrainSettings, arguments: list[str]) -> None:
    """An error for an option of a method or search that was not chosen: it says which one it belongs to."""
    mine = _flags(settings)
    for word in arguments:
        option = word.partition("=")[0].replace("_", "-")
        if not option.startswith("--") or option in mine or option.replace("--no-", "--", 1) in mine:
            continue
        for kind, table, prefix in (("method", METHODS, ""), ("search", SEARCHES, "search.")):
            owners = [n for n, c in table.items() if option in _flags(c.settings_type(), prefix)]
            if owners:
                now = getattr(settings, kind).name
                raise CoviewsError(
                    f"{option} is an option of --{kind} {' and '.join(owners)}, and the {kind} is {now}: "
                    f"add --{kind} {owners[0]}, or leave it out"
                )
        if option in _MOVED:
            raise CoviewsError(f"{option} is now called {_MOVED[option]}")
        for name in SEARCHES:  # version 0.1.0 had the name of the search in its options
            old = f"--search.{name}."
            if option.startswith(old):
                raise CoviewsError(f"{option} is now called --search.{option.removeprefix(old)}, with --search {name}")


# options that version 0.1.0 called something else
_MOVED = {flag(old): flag(new) for old, new in MOVED.items() if "." not in old} | {
    "--search.by": "--search", "--no-flip": "--flip 0", "--no-crop": "--crop none"
}  # fmt: skip


def has_data(arguments: list[str]) -> bool:
    """Whether there is a word that is neither an option nor an option's value."""
    values = 0
    for word in (a.replace("_", "-") if a.startswith("-") else a for a in arguments):  # both are accepted
        if values:
            values -= 1
        elif not word.startswith("-"):
            return True
        elif "=" not in word and word not in _switches():
            values = 2 if word in ("--crop-area", "--local-area") else 1
    return False


def _flags(settings: Any, prefix: str = "") -> dict[str, Any]:
    """All options of settings with their values, as the command line writes them."""
    flags: dict[str, Any] = {}
    for f in dataclasses.fields(settings):
        value = getattr(settings, f.name)
        if dataclasses.is_dataclass(value):  # those of the method stand beside the others
            flags |= _flags(value, prefix if f.name == "method" else f"{prefix}{f.name}.")
        else:
            flags[flag(f"{prefix}{f.name}")] = value
    return flags


def _switches() -> set[str]:
    """Options without a value, of all methods and searches."""
    flags = _flags(PretrainSettings())
    for method in METHODS.values():
        flags |= _flags(method.settings_type())
    for search in SEARCHES.values():
        flags |= _flags(search.settings_type(), "search.")
    names = [name.removeprefix("--") for name, value in flags.items() if isinstance(value, bool)]
    switches = set()
    for name in (*names, "overwrite", "progress", "dry-run", "paper", "auto-resume"):
        group, dot, last = name.rpartition(".")
        switches |= {f"--{name}", f"--{group}{dot}no-{last}"}
    return switches
