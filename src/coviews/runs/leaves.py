"""The single choices of settings, however deep they stand."""

import dataclasses
from typing import Any

# what may change when a run is continued: it says how and where the work is done, not what comes out
OF_THE_MACHINE = frozenset(
    ("out", "data_root", "download", "cache", "accelerator", "devices", "num_nodes", "threads", "save_every",
     "keep_every", "report", "tensorboard", "wandb", "trackio", "show_channels")
)  # fmt: skip


def leaves(settings: Any, prefix: str = "") -> dict[str, Any]:
    """Every single choice by its full name, such as search.reward.threshold; a method or search by its name too."""
    values: dict[str, Any] = {}
    if hasattr(settings, "name"):
        values[prefix.rstrip(".")] = settings.name
    for f in dataclasses.fields(settings):
        value, name = getattr(settings, f.name), prefix + f.name
        values |= leaves(value, f"{name}.") if dataclasses.is_dataclass(value) else {name: value}
    return values


def differing_leaves(one: Any, other: Any) -> dict[str, tuple[Any, Any]]:
    """The choices in which two settings differ, by name: those of the one and of the other."""
    mine, theirs = leaves(one), leaves(other)
    return {n: (mine.get(n), theirs.get(n)) for n in {**mine, **theirs} if mine.get(n) != theirs.get(n)}


def changed_leaves(settings: Any, default: Any) -> list[str]:
    """The choices that are not the default, such as `epochs=3`."""
    return [f"{n}={v!r}" for n, (v, _) in differing_leaves(settings, default).items() if n in leaves(settings)]
