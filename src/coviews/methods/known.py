"""The methods by name: a new one is one file with its class and settings, and one entry here."""

import dataclasses

from torch import nn

from coviews.errors import unknown
from coviews.methods.byol import BYOL
from coviews.methods.dino import DINO
from coviews.methods.method import Method, MethodSettings
from coviews.methods.moco import MoCo
from coviews.methods.rotation import Rotation
from coviews.methods.simclr import SimCLR
from coviews.methods.simsiam import SimSiam
from coviews.methods.vicreg import VICReg

METHODS: dict[str, type[Method]] = {
    method.settings_type.name: method for method in (SimCLR, MoCo, BYOL, SimSiam, DINO, VICReg, Rotation)
}


def method_settings(name: str) -> MethodSettings:
    """The default settings of a method by name."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name].settings_type()


def make_method(settings: MethodSettings, encoder: nn.Module, features: int, *, seed: int = 0) -> Method:
    """The method that these settings are of, on an encoder that gives `features` numbers for each image."""
    return METHODS[settings.name](encoder, features, settings, seed=seed)


def methods_table() -> tuple[list[str], list[list[str]]]:
    """The methods as rows of text: name, what it is, its own options."""
    rows = []
    for called, method in METHODS.items():
        module = __import__(method.__module__, fromlist=["__doc__"])
        about = (module.__doc__ or method.__doc__ or "").strip().splitlines()[0]
        names = [field.name for field in dataclasses.fields(method.settings_type)]
        options = ", ".join(f"`--{name.replace('_', '-')}`" for name in names)
        rows.append([f"`{called}`", about.partition(": ")[2] or about, options])
    return ["method", "what it does", "its options"], rows
