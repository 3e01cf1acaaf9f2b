"""The methods by name: a new one is one class and one entry here."""

import inspect
from typing import Any

from torch import nn

from coviews.errors import unknown
from coviews.methods.byol import BYOL
from coviews.methods.method import Method
from coviews.methods.moco import MoCo
from coviews.methods.simclr import SimCLR
from coviews.methods.simsiam import SimSiam

METHODS: dict[str, type[Method]] = {"simclr": SimCLR, "moco": MoCo, "byol": BYOL, "simsiam": SimSiam}


def make_method(name: str, encoder: nn.Module, features: int, **options: Any) -> Method:
    """A method by name on an encoder that gives `features` numbers for each image.

    Args:
        name: one of METHODS.
        encoder: the backbone that is wanted in the end; it is trained in place.
        features: how many numbers it gives, see `check_encoder`.
        options: of the method's class, such as `temperature`; the names of others are an error.
    """
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    parameters = inspect.signature(METHODS[name]).parameters.values()
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise unknown(f"option of {name}", option, known)
    return METHODS[name](encoder, features, **options)
