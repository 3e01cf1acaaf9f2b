"""Settings as plain mappings and YAML: read, checked against their types, and written."""

import dataclasses
import os
import re
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import yaml

from coviews.boundary.yaml_text import parse_yaml, read_yaml
from coviews.errors import CoviewsError, unknown
from coviews.methods.known import METHODS, method_settings
from coviews.runs.old_settings import MOVED, translated
from coviews.runs.settings import PretrainSettings
from coviews.runs.view_names import DEFAULT_VIEWS
from coviews.searching.known import SEARCHES, default_search, search_settings


def settings_yaml(settings: PretrainSettings) -> str:
    """Enough to repeat the run."""
    return yaml.safe_dump(plain_settings(settings), sort_keys=False, allow_unicode=True)


def plain_settings(settings: PretrainSettings) -> dict[str, Any]:
    """All choices as plain JSON."""
    return _plain(settings.settled())


def read_settings(path: Path, default: PretrainSettings | None = None) -> PretrainSettings:
    """Settings from a YAML file; what it does not name is as in `default`."""
    return settings_of(read_yaml(path, dict[str, Any] | None), str(path), default)  # type: ignore[arg-type]


def parse_settings(text: str, where: str) -> PretrainSettings:
    """Settings from what `settings_yaml` gave."""
    return settings_of(parse_yaml(text, dict[str, Any], where), where)


def settings_of(
    content: Mapping[str, Any] | None, where: str, default: PretrainSettings | None = None
) -> PretrainSettings:
    """Settings from a plain mapping, of this version or an earlier one; errors name `where` it is from."""
    try:
        return changed_settings(default or PretrainSettings(), translated(content or {}))
    except CoviewsError as error:
        raise CoviewsError(f"{where}: {error}") from error


def changed_settings(settings: PretrainSettings, changes: Any) -> PretrainSettings:
    """The same with other choices; those of a method or search as mappings: {"search": {"name": "ppo", "clip": 0.1}}.

    A method or search may be given by its name alone, and the options of the method beside the other choices. If
    the method changes and the search is the default one, it becomes the default one of the new method. A search
    without views to go with it means learned views.
    """
    if not isinstance(changes, Mapping):
        raise CoviewsError(f"settings must be a mapping of names to values, not {changes!r}")
    changes = dict(changes)
    if changes.get("search") and not settings.learns_views and settings.views == DEFAULT_VIEWS:
        changes.setdefault("views", "coviews")  # a search is for views that are learned
    method = _switched(settings.method, changes, "method", method_settings)
    is_default = settings.search == default_search(settings.method.reveals_hardness)
    before = default_search(method.reveals_hardness) if is_default else settings.search
    search = _switched(before, changes, "search", search_settings)
    own = {f.name for f in dataclasses.fields(method)} - {f.name for f in dataclasses.fields(settings)}
    of_method = {name: changes.pop(name) for name in list(changes) if name in own}
    parts = {"method": _read(method, of_method, ""), "search": search}
    return dataclasses.replace(settings, **{**parts, **_values(settings, changes, "", parts)})


def _switched(part: Any, changes: dict[str, Any], key: str, default: Callable[[str], Any]) -> Any:
    """The settings that the changes to a method or search start from; what names its kind is taken out of them.

    Of another kind, the options that both kinds have stay, where they were changed from their default.
    """
    value = changes.get(key)
    if dataclasses.is_dataclass(value):
        changes[key] = {}
        return value
    if isinstance(value, Mapping) and "name" in value:
        value = dict(value)
        name = _checked(value.pop("name"), str, f"{key}.name")
        changes[key] = value
    elif isinstance(value, str):
        name, changes[key] = value, {}
    else:
        return part
    other = default(name)
    if type(other) is type(part):
        return part
    before = type(part)()
    shared = {f.name for f in dataclasses.fields(part)} & {f.name for f in dataclasses.fields(other)}
    kept = {n: getattr(part, n) for n in shared if getattr(part, n) != getattr(before, n)}
    return dataclasses.replace(other, **kept)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        name = {"name": value.name} if hasattr(value, "name") else {}
        return {**name, **{f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, Path) else value


def _read(default: Any, content: Any, where: str) -> Any:
    """A dataclass like `default` with the fields that the mapping has, each checked against its type."""
    if dataclasses.is_dataclass(content):
        return content
    if not isinstance(content, Mapping):
        raise CoviewsError(f"{where.rstrip('.') or 'it'} must be a mapping of names to values, not {content!r}")
    return dataclasses.replace(default, **_values(default, content, where, {}))


def _values(default: Any, content: Mapping[str, Any], where: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the mapping, by field; those of a nested dataclass start from `parts`, or from the default's."""
    hints = typing.get_type_hints(type(default), include_extras=True)
    fields = [f.name for f in dataclasses.fields(default)]
    values = {}
    for name, value in content.items():
        if name not in fields:
            _check_owner(name, where, {"method": default, "search": default, **parts})
            raise unknown("setting", f"{where}{name}", [f"{where}{n}" for n in fields])
        old = parts.get(name, getattr(default, name))
        if dataclasses.is_dataclass(old):
            values[name] = _read(old, value, f"{where}{name}.")
        else:
            values[name] = _checked(value, hints[name], f"{where}{name}")
    return values


def _check_owner(name: str, where: str, parts: Mapping[str, Any]) -> None:
    """An error for an option that belongs to a method or search that was not chosen, or has another name now."""
    for kind, table, places in (("method", METHODS, ("", "method.")), ("search", SEARCHES, ("search.",))):
        owners = [n for n, c in table.items() if name in (f.name for f in dataclasses.fields(c.settings_type))]
        if owners and where in places:
            raise CoviewsError(
                f"{where}{name} is an option of the {kind} {' and '.join(owners)}, and the {kind} is {parts[kind].name}"
            )
    if f"{where}{name}" in MOVED:
        raise CoviewsError(f"{where}{name} is now called {MOVED[f'{where}{name}']}")


def _checked(value: Any, hint: Any, name: str) -> Any:
    """The value as its type says, or an error."""
    if isinstance(value, np.generic):
        value = value.item()
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        if value is None and type(None) in typing.get_args(hint):
            return None
        hint = next(h for h in typing.get_args(hint) if h is not type(None))
    if typing.get_origin(hint) is tuple:
        hints = typing.get_args(hint)
        if isinstance(value, list | tuple) and len(value) == len(hints):
            return tuple(_checked(v, h, name) for v, h in zip(value, hints, strict=True))
    elif hint is float and type(value) in (int, float):
        return float(value)
    elif hint is float and isinstance(value, str) and re.fullmatch(r"\d+(\.\d*)?e[+-]?\d+", value):
        return float(value)  # 1e-3 is text in YAML
    elif isinstance(value, str) and "\0" in value:
        raise CoviewsError(f"{name} must not have a null character in it")
    elif hint is Path and isinstance(value, str | os.PathLike):
        return Path(value)
    elif hint is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    elif hint is str and name == "subset" and type(value) is int:
        return str(value)
    elif hint in (bool, int, str) and type(value) is hint:
        return value
    kind = getattr(hint, "__name__", str(hint))
    raise CoviewsError(f"{name} must be of the type {kind}, not {value!r}")
