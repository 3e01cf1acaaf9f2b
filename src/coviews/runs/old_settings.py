"""Settings as version 0.1.0 wrote them: runs, presets and results of that version still open."""

from collections.abc import Mapping
from typing import Any

# options that stood beside all others, and now belong to a method
_OF_METHOD = {
    "simclr": ("temperature", "projector"),
    "moco": ("temperature", "projector", "bank", "momentum"),
    "byol": ("temperature", "projector", "momentum"),
    "simsiam": ("temperature", "projector"),
}
_METHOD_OPTIONS = ("temperature", "projector", "bank", "momentum")
# options that stood beside all others, or beside both searches, and now belong to one search: what each is called now
_TOP = {"ppo": {"search_every": "every", "warm_start": "warm_start"}, "table": {"prior": "prior"}}
_BESIDE = {
    "ppo": ("reward", "steps", "p", "network", "reference", "batch", "images_each", "reference_batches"),
    "table": ("reward", "steps", "p"),
}


def is_old(content: Mapping[str, Any]) -> bool:
    """Whether a config.yaml is of version 0.1.0: there, a search was a mapping with settings of every kind."""
    search = content.get("search")
    return isinstance(content.get("method", ""), str) and isinstance(search, Mapping) and "name" not in search


def translated(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same choices as this version calls them."""
    now = dict(content)
    method = str(now.get("method", "simclr"))
    options = {name: now.pop(name) for name in _METHOD_OPTIONS if name in now}
    now["method"] = {
        "name": method,
        **{k: v for k, v in options.items() if k in _OF_METHOD.get(method, ()) and v is not None},
    }
    search = dict(now.get("search") or {})
    by = search.get("by") or ("table" if method in ("simclr", "moco") else "ppo")
    top = {name: now.pop(name) for names in _TOP.values() for name in names if name in now}
    own = search.get(by)
    now["search"] = {
        "name": by,
        **(own if isinstance(own, Mapping) else {}),
        **{name: search[name] for name in _BESIDE.get(by, ()) if name in search},
        **{_TOP[by][name]: value for name, value in top.items() if name in _TOP.get(by, {})},
    }
    return now
