"""The single choices of settings, however deep they stand."""

import dataclasses
from typing import Any


def leaves(settings: Any, prefix: str = "") -> dict[str, Any]:
    """Every single choice by its full name, such as search.reward.threshold; a method or search by its name too."""
    values: dict[str, Any] = {}
    if hasattr(settings, "name"):
        values[prefix.rstrip(".")] = settings.name
    for f in dataclasses.fields(settings):
        value, name = getattr(settings, f.name), prefix + f.name
        values |= leaves(value, f"{name}.") if dataclasses.is_dataclass(value) else {name: value}
    return values
