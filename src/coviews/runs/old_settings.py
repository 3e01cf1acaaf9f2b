"""Settings as earlier versions wrote them: their runs, presets and results still open."""

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
# some of what the file of a run has named in every version; a user's own file has fewer
_OF_EVERY_RUN = {
    "batch_size",
    "data",
    "encoder",
    "epochs",
    "hard_views",
    "magnitude",
    "queue_p",
    "seed",
    "weight_decay",
}
# what they are called now, as an error says it to who still uses them
MOVED = {
    "search_every": "search.every", "warm_start": "search.warm_start", "prior": "search.prior",
    "search.by": "search.name", "search.ppo": "search", "search.table": "search",
}  # fmt: skip


def translated(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same choices as this version calls them; those of this version are left as they are."""
    now = dict(content)
    if type(now.get("crop")) is bool:
        now["crop"] = "random" if now["crop"] else "none"
    if type(now.get("flip")) is bool:
        now["flip"] = 0.5 if now["flip"] else 0.0
    if now.keys() >= _OF_EVERY_RUN:  # maybe from before views were chosen by their crops
        now.setdefault("hard_crops", 0)
    return _nested(now) if _is_flat(now) else now


def _is_flat(content: Mapping[str, Any]) -> bool:
    """Whether settings have the layout of version 0.1.0: they name something that only that version had."""
    search = content.get("search")
    within = [f"search.{name}" for name in search] if isinstance(search, Mapping) else []
    return any(name in MOVED for name in (*content, *within))


def _nested(content: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the layout of 0.1.0 with the options of the method and of the search in mappings of their own."""
    now = {"views": "coviews", "precision": "32-true", **content}  # the defaults of that version
    options = {name: now.pop(name) for name in _METHOD_OPTIONS if name in now}
    options = {name: value for name, value in options.items() if value is not None}  # None was the method's default
    if "method" in now:
        own_options = _OF_METHOD.get(str(now["method"]), ())
        now["method"] = {"name": now["method"], **{k: v for k, v in options.items() if k in own_options}}
    else:
        now |= options
    search = now.get("search")
    search = dict(search) if isinstance(search, Mapping) else {}
    top = {name: now.pop(name) for names in _TOP.values() for name in names if name in now}
    by = str(search.get("by") or _search_of(content, search, top))
    own = search.get(by)
    now["search"] = {
        "name": by,
        **(own if isinstance(own, Mapping) else {}),
        **{name: search[name] for name in _BESIDE.get(by, ()) if name in search},
        **{_TOP[by][name]: value for name, value in top.items() if name in _TOP.get(by, {})},
    }
    return now


def _search_of(content: Mapping[str, Any], search: Mapping[str, Any], top: Mapping[str, Any]) -> str:
    """The search that settings mean which do not name it: the one whose options they have, or the method's default."""
    named = [by for by in _TOP if by in search or any(name in top for name in _TOP[by])]
    return named[0] if len(named) == 1 else "table" if content.get("method") in ("simclr", "moco", None) else "ppo"
