"""A view source by what a user writes: a name, a line of factors, or a file."""

from typing import Unpack

from coviews.errors import CoviewsError, unknown
from coviews.policies.factors import FAMILIES, is_family, named_family
from coviews.policies.fixed import FIXED, ViewSourceKeywords, view_source
from coviews.policies.learned import COOPERATIVE, load_policy
from coviews.policies.subpolicy import ViewSource

IN_TRAINING = ("hardviews", "viewmaker", "infomin-flow", *COOPERATIVE)  # they need the encoder that is being trained


def named_source(text: str, **options: Unpack[ViewSourceKeywords]) -> ViewSource:
    """A view source by name (with its options), as a family of views, or from the file of a policy or a family."""
    if is_family(text):
        return named_family(text).source()
    if text.endswith(".safetensors"):
        return load_policy(text)
    if text in IN_TRAINING:
        raise CoviewsError(
            f"{text!r} makes views with the encoder in training: only coviews pretrain --views {text} does"
        )
    if text not in FIXED:
        raise unknown("view source", text, [*FAMILIES, *FIXED])
    return view_source(text, **options)
