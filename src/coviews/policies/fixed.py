"""The fixed view sources: their draws do not depend on any encoder."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Annotated, Any, TypedDict, Unpack

import msgspec
import numpy as np

from coviews.boundary.schema import Name, Probability, Schema
from coviews.errors import CoviewsError, unknown
from coviews.ops.operations import PixelType
from coviews.ops.space import FINE, STANDARD, Space, has_bins, space
from coviews.policies.factors import FamilySource, family
from coviews.policies.files import Steps, Views
from coviews.policies.infomin import InfoMin
from coviews.policies.listed import FastAutoAugment
from coviews.policies.published import AutoAugment
from coviews.policies.subpolicy import Subpolicies, ViewSource


@dataclass(frozen=True)
class Uniform:
    """Every operation and every level of a space equally often."""

    space: Space
    steps: int = 2
    p: float = 1.0
    views: int = 2

    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        """Draw subpolicies for n images."""
        shape = (n, self.views, self.steps)
        ops = generator.integers(0, len(self.space.ops), shape, np.int16)
        return Subpolicies(self.space, ops, generator.integers(0, self.space.levels, shape, np.int16), self.p)


@dataclass(frozen=True)
class Binned:
    """RandAugment and TrivialAugment: any operation, at one bin or at any of 0..30, of either sign."""

    space: Space
    steps: int
    magnitude: int | None
    views: int = 2

    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        """Draw subpolicies for n images."""
        shape = (n, self.views, self.steps)
        ops = generator.integers(0, len(self.space.ops), shape, np.int16)
        any_bin = generator.integers(0, 31, shape, np.int16)
        bins = any_bin if self.magnitude is None else np.full(shape, self.magnitude, np.int16)
        sign = generator.choice(np.array([-1, 1], np.int16), shape)
        signed = self.space.values[:, 0] != self.space.values[:, -1]
        return Subpolicies(self.space, ops, 30 + np.where(signed[ops], sign, 1) * bins)


def _recipe_space() -> Space:
    return space("simclr", levels=FINE)


@dataclass(frozen=True)
class SimCLRRecipe:
    """The hand-tuned recipe: with p = 0.8 four colour changes in any order, then grey with p = 0.2.

    What the space does not have is left out.
    """

    views: int = 2
    jitter: float = 0.8
    grey: float = 0.2
    space: Space = field(default_factory=_recipe_space)  # what it does not have is left out

    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        """Draw subpolicies for n images."""
        changes = [i for i, op in enumerate(self.space.ops) if op in ("Brightness", "Contrast", "Saturation", "Hue")]
        order = generator.permuted(np.tile(np.array(changes, np.int16), (n, self.views, 1)), axis=2)
        jittered = generator.random((n, self.views, 1)) < self.jitter
        parts = [np.where(jittered, order, self.space.identity)]
        if "Grayscale" in self.space.ops:
            greyed = generator.random((n, self.views, 1)) < self.grey
            parts.append(np.where(greyed, self.space.index("Grayscale"), self.space.identity))
        ops = np.concatenate(parts, axis=2)
        return Subpolicies(self.space, ops, generator.integers(0, self.space.levels, ops.shape, np.int16))


# Their docstrings are the docs' table of view sources.
def _random(views: int = 2, steps: int = 2, space_name: str = STANDARD) -> ViewSource:
    """The paper's baseline: two operations, uniform, of any strength (steps of a thousandth), always applied."""
    return Uniform(space(space_name, levels=None if has_bins(space_name) else FINE), steps, 1.0, views)


def _uniform(views: int = 2, steps: int = 2, p: float = 0.8, space_name: str = STANDARD) -> ViewSource:
    """The untrained policy: two operations, uniform over operations and 11 levels, each applied with probability 0.8.

    The control for what learning adds.
    """
    return Uniform(space(space_name), steps, p, views)


def _randaugment(views: int = 2, steps: int = 2, magnitude: int = 9) -> ViewSource:
    """Two operations at one magnitude of 31 bins, of either sign.

    The same bytes as torchvision's `RandAugment` on Pillow images.
    """
    if type(magnitude) is not int or not 0 <= magnitude <= 30:
        raise CoviewsError(f"RandAugment's magnitude must be 0..30, not {magnitude}")
    return Binned(space("randaugment"), steps, magnitude, views)


def _trivialaugment(views: int = 2) -> ViewSource:
    """One operation of any strength: the same bytes as torchvision's `TrivialAugmentWide` on Pillow images."""
    return Binned(space("trivialaugment"), 1, None, views)


def _autoaugment_cifar10(views: int = 2) -> ViewSource:
    """The policy that AutoAugment's authors published for CIFAR-10: one of 25 pairs of operations.

    The same bytes as torchvision's `AutoAugment` on Pillow images.
    """
    return AutoAugment("cifar10", views)


def _autoaugment_svhn(views: int = 2) -> ViewSource:
    """The same for SVHN, house numbers."""
    return AutoAugment("svhn", views)


def _autoaugment_imagenet(views: int = 2) -> ViewSource:
    """The same for ImageNet."""
    return AutoAugment("imagenet", views)


def _fast_autoaugment_cifar10(views: int = 2) -> ViewSource:
    """The policy that Fast AutoAugment's authors published for CIFAR-10: one of 493 pairs of operations."""
    return FastAutoAugment("cifar10", views)


def _fast_autoaugment_svhn(views: int = 2) -> ViewSource:
    """The same for SVHN: 497 pairs."""
    return FastAutoAugment("svhn", views)


def _fast_autoaugment_imagenet(views: int = 2) -> ViewSource:
    """The same for ImageNet: 498 pairs."""
    return FastAutoAugment("imagenet", views)


def _simclr(views: int = 2, jitter: float = 0.8, grey: float = 0.2) -> ViewSource:
    """The hand-tuned recipe: with probability 0.8 colour jitter (four changes in any order), with 0.2 grey."""
    return SimCLRRecipe(views, jitter, grey)


def _infomin(views: int = 2) -> ViewSource:
    """InfoMin's hand-made augmentation: strong colour jitter, blur, two strong operations of RandAugment, grey.

    Their probabilities are 0.8, 0.5, 0.5 each and 0.2.
    """
    return InfoMin(views)


FIXED: dict[str, Callable[..., ViewSource]] = {
    "random": _random,
    "uniform": _uniform,
    "randaugment": _randaugment,
    "trivialaugment": _trivialaugment,
    "autoaugment:cifar10": _autoaugment_cifar10,
    "autoaugment:svhn": _autoaugment_svhn,
    "autoaugment:imagenet": _autoaugment_imagenet,
    "fast-autoaugment:cifar10": _fast_autoaugment_cifar10,
    "fast-autoaugment:svhn": _fast_autoaugment_svhn,
    "fast-autoaugment:imagenet": _fast_autoaugment_imagenet,
    "simclr": _simclr,
    "infomin": _infomin,
}


def view_sources_table() -> tuple[list[str], list[list[str]]]:
    """Every fixed view source, for the docs: the heads of the columns, and a row of text for each."""
    rows = [[f"`{name}`", " ".join((inspect.getdoc(make) or "").split())] for name, make in FIXED.items()]
    return ["name", "what it draws"], rows


class ViewSourceKeywords(TypedDict, total=False):
    """The options of the fixed view sources; each has some of them."""

    views: int
    steps: int
    p: float
    space_name: str
    magnitude: int
    jitter: float
    grey: float


def view_source(name: str, **options: Unpack[ViewSourceKeywords]) -> ViewSource:
    """A fixed view source by name, such as `view_source("randaugment", magnitude=15)`."""
    if name not in FIXED:
        raise unknown("view source", name, FIXED)
    allowed = inspect.signature(FIXED[name]).parameters
    for option, value in options.items():
        if option not in allowed:
            raise unknown(f"option of {name!r}", option, allowed)
        _check_option(option, value)
    return FIXED[name](**options)


def takes_option(name: str, option: str) -> bool:
    """Whether a view source has this option; families have none."""
    return name in FIXED and option in inspect.signature(FIXED[name]).parameters


def source_space(name: str) -> str:
    """The name of the space that a fixed view source draws from where no other is chosen."""
    return view_source(name).sample(1, np.random.default_rng(0)).space.name


def fitted_source(source: ViewSource, channels: int, dtype: PixelType) -> ViewSource:
    """A view source for images of this many channels and this type: a fixed one without operations that do not fit.

    A policy that was learned with such operations is an error.
    """
    own, pixels = getattr(source, "space", None), np.dtype(dtype)
    unfit = own.unfit(channels, pixels) if isinstance(own, Space) else ()
    if not unfit:
        return source
    if hasattr(source, "kind") or not is_dataclass(source):  # it was learned, or is of a kind of its own
        raise CoviewsError(
            f"the policy has operations that {channels} channels of {pixels.itemsize * 8} bits do not allow "
            f"({', '.join(unfit)}): use one that was learned on such images"
        )
    assert isinstance(own, Space)
    fitted: ViewSource = replace(source, space=own.fitting(channels, pixels))
    return fitted


def operations_left_out(source: ViewSource, fitted: ViewSource) -> list[str]:
    """The operations that `fitted_source` left out, of those that the source draws."""
    drawn = source.sample(_DRAWN, np.random.default_rng(0))
    after = fitted.sample(1, np.random.default_rng(0)).space.ops
    return [drawn.space.ops[i] for i in np.unique(drawn.ops) if drawn.space.ops[i] not in after]


def _check_option(name: str, value: object) -> None:
    if name in ("views", "steps") and (type(value) is not int or value < 1):
        raise CoviewsError(f"{name} must be a whole number from 1, not {value!r}")
    if name in ("p", "jitter", "grey") and not (isinstance(value, (int, float)) and 0 <= value <= 1):
        raise CoviewsError(f"{name} is a probability in 0..1, not {value!r}")


# ------------------------------------------------------------------------- as plain JSON, without their space

_KINDS: dict[str, type] = {
    "uniform": Uniform, "binned": Binned, "autoaugment": AutoAugment, "fast-autoaugment": FastAutoAugment,
    "simclr": SimCLRRecipe, "infomin": InfoMin,
}  # fmt: skip
_LEVELS = {"binned": 61, "autoaugment": 19, "fast-autoaugment": FINE}  # of the space that a kind needs
_FAMILY = "family"
_DRAWN = 256  # subpolicies that show which operations a source draws


class SourceDescription(Schema):
    """A fixed source in a file: its name, and those of the options that it has."""

    source: Name
    views: Views | msgspec.UnsetType = msgspec.UNSET
    steps: Steps | msgspec.UnsetType = msgspec.UNSET
    p: Probability | msgspec.UnsetType = msgspec.UNSET
    magnitude: Annotated[int, msgspec.Meta(ge=0, le=30)] | msgspec.UnsetType | None = msgspec.UNSET
    jitter: Probability | msgspec.UnsetType = msgspec.UNSET
    grey: Probability | msgspec.UnsetType = msgspec.UNSET
    dataset: Name | msgspec.UnsetType = msgspec.UNSET
    family: Name | msgspec.UnsetType = msgspec.UNSET


def describe_source(source: ViewSource) -> dict[str, Any]:
    """A source that is not learned as plain JSON."""
    if isinstance(source, FamilySource):
        return {"source": _FAMILY, "family": source.family.text, "views": source.views}
    for name, kind in _KINDS.items():
        if type(source) is kind:
            options = (f.name for f in fields(kind) if f.name != "space")  # type: ignore[arg-type]
            return {"source": name, **{option: getattr(source, option) for option in options}}
    raise CoviewsError(
        f"only what is drawn from a source of coviews can be kept in a file, not {type(source).__name__}"
    )


def read_source(description: SourceDescription, space: Space) -> ViewSource:
    """The inverse of `describe_source`."""
    name = description.source
    if name not in (*_KINDS, _FAMILY):
        raise unknown("kind of view source", name, [*_KINDS, _FAMILY])
    if space.levels != _LEVELS.get(name, space.levels):
        raise CoviewsError(f"a magnitude is one of {_LEVELS[name]} levels, not of {space.levels}")
    given = {k: v for k, v in msgspec.structs.asdict(description).items() if k != "source" and v is not msgspec.UNSET}
    own = {"family", "views"} if name == _FAMILY else {f.name for f in fields(_KINDS[name])} - {"space"}
    if wrong := own ^ given.keys():
        raise CoviewsError(f"its description is wrong: {min(wrong)} of the source {name} is missing, or not its own")
    if name == _FAMILY:
        return FamilySource(family(given["family"]), given["views"], space)
    source: ViewSource = _KINDS[name](space=space, **given)
    return source
