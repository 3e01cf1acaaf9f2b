"""A view source by what a user writes: a name, a line of factors, or a file."""

from collections.abc import Callable
from pathlib import Path
from typing import Unpack

from coviews.boundary.json_text import read_json
from coviews.boundary.schema import Name, OpenSchema
from coviews.errors import CoviewsError, unknown
from coviews.policies import listed, schedule
from coviews.policies.factors import FAMILIES, is_family, named_family
from coviews.policies.fixed import FIXED, ViewSourceKeywords, view_source
from coviews.policies.learned import COOPERATIVE, load_policy
from coviews.policies.subpolicy import ViewSource

IN_TRAINING = ("hardviews", "viewmaker", "infomin-flow", *COOPERATIVE)  # they need the encoder that is being trained
PLAIN = ".json"  # how the files of policies end whose views are drawn each by itself
_READERS: dict[str, Callable[[str | Path, int], ViewSource]] = {
    listed.KIND: listed.read_listed,
    schedule.KIND: schedule.read_schedule,
}


def is_policy_file(text: str) -> bool:
    """Whether a text names the file of a policy."""
    return text.endswith((".safetensors", PLAIN))


def policy_source(path: str | Path, views: int = 2) -> ViewSource:
    """The policy in a file of any kind; a learned one has a number of views of its own."""
    if not str(path).endswith(PLAIN):
        return load_policy(path)
    kind = read_json(path, _Kind, "policy file").policy
    if kind not in _READERS:
        raise unknown(f"kind of policy in {path}:", kind, _READERS)
    return _READERS[kind](path, views)


class _Kind(OpenSchema):
    """What tells one kind of policy from another."""

    policy: Name


def named_source(text: str, **options: Unpack[ViewSourceKeywords]) -> ViewSource:
    """A view source by name (with its options), as a family of views, or from the file of a policy or a family."""
    if is_policy_file(text):
        return policy_source(text)
    if is_family(text):
        return named_family(text).source()
    if text in IN_TRAINING:
        raise CoviewsError(
            f"{text!r} makes views with the encoder in training: only coviews pretrain --views {text} does"
        )
    if text not in FIXED:
        raise unknown("view source", text, [*FAMILIES, *FIXED])
    return view_source(text, **options)
