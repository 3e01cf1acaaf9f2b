"""Families of views: which changes an encoder is taught to ignore, as answers to questions about the images.

A *factor* is one invariance (colour, mirror image, ...), or something that lets an encoder keep what views change: a
head that asks for it, or pairs without operations. A *family* is a setting of all factors: it says how views are cut
out and turned (`Family.placement`), which operations are applied to them (`Family.source`), and how much the encoder
keeps of what they change (`Family.keep`).
"""

import functools
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from coviews.boundary.schema import Name, Schema
from coviews.boundary.yaml_text import read_yaml
from coviews.errors import CoviewsError, unknown
from coviews.files.atomic import write_whole
from coviews.ops.placement import Placement
from coviews.ops.space import FINE, Space, space
from coviews.policies.subpolicy import Subpolicies

CROP_AREAS = {"whole": 1.0, "large": 0.5, "small": 0.2, "tiny": 0.08}  # the least area of a crop
KEEPS = ("off", "some", "much")  # how much of what views change an encoder is asked to keep
PLAIN = 0.25  # the share of plain pairs: of more, views change too little where changes are useful (docs/results.md)
OPERATIONS = "factors"  # the space of the operations of all families
FORMAT = 1  # of the file


@dataclass(frozen=True)
class Factor:
    """One thing that views may change."""

    title: str
    """What is changed, as a noun phrase."""
    question: str
    """What the user knows about the images: if the answer is yes, the factor may be on."""
    on: str
    """What to do, as an imperative, to turn it on."""
    off: str
    """What to do to turn it off."""
    ops: tuple[str, ...] = ()
    """The operations that make the change, one of which is drawn; none for a change of the placement."""
    p: float = 0.5
    """The probability that a view gets one of them."""
    colour: bool = False
    """Whether it needs images with colours."""
    also: tuple[str, ...] = ()
    """Operations of other view sources that make the change; families do not draw them."""
    of_views: bool = True
    """Whether it is a change that views make; others let the encoder keep what views change."""
    changes: Mapping[str, str] = field(default_factory=dict)
    """What to do, as an imperative, for each value of a factor that is more than on or off."""

    @property
    def all_ops(self) -> tuple[str, ...]:
        """Every operation that makes the change."""
        return self.ops + self.also


# In the order in which the operations are applied; brightness and colour are applied together, in a random order.
FACTORS: dict[str, Factor] = {
    "crop": Factor(
        "the part that is shown", "Does a part of the image still show what it is?",
        "show parts of the image", "show the whole image",
        also=("TranslateX", "TranslateY", "ShiftX", "ShiftY", "MoveX", "MoveY"),
        changes={"large": "show larger parts", "tiny": "show smaller parts too"},
    ),
    "mirror": Factor("left and right", "Is the mirror image the same thing?", "mirror", "do not mirror"),
    "turns": Factor(
        "up and down", "Is it the same thing upside down, or turned by a quarter?",
        "turn by quarters and upside down", "keep up and down",
    ),
    "tilt": Factor(
        "small rotations and shears", "Is a slightly rotated image the same thing?",
        "rotate and shear a little", "do not rotate or shear", ("Rotate", "ShearX", "ShearY"), 0.8,
    ),
    "light": Factor(
        "brightness and contrast", "Is a darker or paler image the same thing?",
        "change brightness and contrast", "keep brightness and contrast as they are", ("Brightness", "Contrast"), 0.8,
        also=("AutoContrast",),
    ),
    "colour": Factor(
        "colour", "Is it the same thing in another colour?",
        "change colours", "keep colour as it is", ("Saturation", "Hue"), 0.8, colour=True,
        also=("Color", "ChannelDrop", "ChannelGain"),
    ),
    "tone": Factor(
        "tones", "Can it be recognised in a negative, or in very few tones?",
        "change tones (solarize, equalize, posterize, invert)", "keep tones",
        ("Solarize", "Equalize", "Posterize", "Invert"), 0.3, also=("AutoContrast",),
    ),
    "grey": Factor(
        "colour to grey", "Can it be recognised without colours?",
        "turn some views grey", "do not turn views grey", ("Grayscale",), 0.2, colour=True,
    ),
    "blur": Factor(
        "sharpness", "Can it be recognised without fine detail?", "blur and sharpen", "do not blur",
        ("Blur", "Sharpness"), also=("Noise",),
    ),
    "cutout": Factor(
        "a hidden patch", "Can it be recognised if a patch is hidden?", "hide a patch", "hide no patch", ("Cutout",),
    ),
    "keep": Factor(
        "the keeping head", "May what the views change tell images apart after all?",
        "let the encoder keep what views change", "let the encoder forget what views change", of_views=False,
        changes={
            "some": "let the encoder keep some of what views change",
            "much": "let the encoder keep much of what views change",
        },
    ),
    "plain": Factor(
        "plain pairs", "Are you unsure whether views may change all of this?",
        "apply no operations to a quarter of the pairs", "apply operations to all pairs", p=PLAIN, of_views=False,
    ),
}  # fmt: skip
VIEW_FACTORS = {name: factor for name, factor in FACTORS.items() if factor.of_views}
_JITTER = ("light", "colour")

# What a user may say of the images in one word: the factors that it turns off (matters) or on (ignores)
TOPICS: dict[str, tuple[str, ...]] = {
    "colour": ("colour", "grey", "tone"),
    "orientation": ("mirror", "turns", "tilt"),
    "brightness": ("light", "tone"),
    "detail": ("blur",),
    "position": ("crop",),
}
_STRONG = ("tone",)  # factors that are turned on by their own name only


_CHOICES: dict[str, tuple[str, ...]] = {"crop": tuple(CROP_AREAS), "keep": KEEPS}  # the others are on or off


@dataclass(frozen=True)
class Family:
    """A setting of all factors."""

    crop: str = "small"
    mirror: bool = True
    turns: bool = False
    tilt: bool = False
    light: bool = True
    colour: bool = True
    tone: bool = False
    grey: bool = True
    blur: bool = False
    cutout: bool = False
    keep: str = "off"
    plain: bool = False

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in _CHOICES and (not isinstance(value, str) or value not in _CHOICES[f.name]):
                raise unknown(f.name, reprlib.repr(value).strip("'"), _CHOICES[f.name])
            if f.name not in _CHOICES and type(value) is not bool:
                raise CoviewsError(f"the factor {f.name} is on (true) or off (false), not {reprlib.repr(value)}")

    def is_on(self, factor: str) -> bool:
        """Whether views change in this respect; whether there is a keeping head, or plain pairs."""
        return getattr(self, factor) not in ("whole", "off", False)

    @property
    def placement(self) -> Placement:
        """How views are cut out of their image and turned."""
        area = CROP_AREAS[self.crop]
        return Placement(
            "none" if self.crop == "whole" else "random", (area, 1.0) if area < 1 else (0.2, 1.0),
            flip=0.5 if self.mirror else 0.0, flip_vertical=0.5 if self.turns else 0.0,
            quarter_turns=0.75 if self.turns else 0.0,
        )  # fmt: skip

    def source(self, views: int = 2) -> "FamilySource":
        """The operations of the views."""
        return FamilySource(self, views)

    def without_colour(self) -> "Family":
        """The same for grey images: factors of colour are off."""
        off: dict[str, Any] = {name: False for name, factor in FACTORS.items() if factor.colour}
        return replace(self, **off)

    @property
    def text(self) -> str:
        """A line that `family` reads, such as `crop small, mirror, light`."""
        names = {"crop": f"crop {self.crop}", "keep": "keep much" if self.keep == "much" else "keep"}
        return ", ".join(names.get(n, n) for n in FACTORS if n == "crop" or self.is_on(n))

    @property
    def sentence(self) -> str:
        """What the views change, for a reader."""
        shown = {
            "whole": "Views show the whole image",
            "large": "Views show at least half of the image",
            "small": "Views show at least a fifth of the image",
            "tiny": "Views show at least a twelfth of the image",
        }[self.crop]
        on = [f.title for n, f in VIEW_FACTORS.items() if n != "crop" and self.is_on(n)]
        plain = " A quarter of the pairs get no operations." if self.plain else ""
        kept = f" The encoder keeps {self.keep} of what they change." if self.is_on("keep") else ""
        return f"{shown} and differ in {listed(on) if on else 'nothing else'}.{plain}{kept}"

    def write(self, path: str | Path, note: str = "") -> None:
        """Write the family as YAML that `read_family` reads and a person can edit."""
        content = {"format": FORMAT, "views": {f.name: getattr(self, f.name) for f in fields(self)}}
        lines = ["".join(filter(str.isprintable, line)) for line in [*note.splitlines(), self.sentence]]
        comments = "".join(f"# {line}\n" for line in lines if line)
        text = comments + yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
        write_whole(Path(path), text.encode())


RECIPE = Family()
# families with a name
FAMILIES: dict[str, Family] = {
    "recipe": RECIPE,
    "recipe-keep": replace(RECIPE, keep="some"),
    "cropflip": Family(light=False, colour=False, grey=False),
}


def family(text: str) -> Family:
    """A family by its name, or from a line such as `crop small, mirror, light`."""
    if text.strip() in FAMILIES:
        return FAMILIES[text.strip()]
    values: dict[str, Any] = {name: False for name in FACTORS if name not in _CHOICES}
    for part in text.split(","):
        name, *rest = part.split() or [""]
        if name not in FACTORS:
            raise unknown("factor of views", name, FACTORS)
        if name in _CHOICES and len(rest) == 1:
            values[name] = rest[0]
        elif rest or name == "crop":
            raise CoviewsError(f"not a factor of views: {part.strip()!r} (write 'crop small' or 'mirror')")
        else:
            values[name] = "some" if name == "keep" else True
    return Family(**values)


def is_family(text: str) -> bool:
    """Whether the text names a family: by name, as a line of factors, or as a YAML file."""
    return text in FAMILIES or text.endswith((".yaml", ".yml")) or "," in text or text.split(" ")[0] == "crop"


def views_title(text: str) -> str:
    """What views are called in a text: by the name of a family, if the line is one's, or by the line itself."""
    known = {some.text: name for name, some in FAMILIES.items()}
    return f"'{text}' views" if "," in text and text not in known else f"{known.get(text, text)} views"


def named_family(text: str) -> Family:
    """A family by name, from a line of factors, or from a YAML file."""
    return read_family(text) if text.endswith((".yaml", ".yml")) else family(text)


class _FamilyFile(Schema):
    """A family in a file."""

    format: int
    views: dict[str, bool | Name]


def read_family(path: str | Path) -> Family:
    """A family from the file that `Family.write` made."""
    content = read_yaml(path, _FamilyFile, "file of views")
    if content.format != FORMAT:
        raise CoviewsError(f"{path} has the format {content.format}, and this version of coviews reads {FORMAT}")
    known = [f.name for f in fields(Family)]
    for name in content.views:
        if name not in known:
            raise unknown(f"factor in {path}:", name, known)
    values: dict[str, Any] = dict(content.views)
    if isinstance(values.get("keep"), bool):  # as earlier versions wrote it
        values["keep"] = "some" if values["keep"] else "off"
    try:
        return replace(family("crop small"), **values)
    except CoviewsError as error:
        raise CoviewsError(f"{path}: {error}") from error


@functools.cache
def _operations() -> Space:
    """The operations of all families."""
    return space(OPERATIONS, levels=FINE)


@dataclass(frozen=True)
class FamilySource:
    """The view source of a family."""

    family: Family
    views: int = 2
    space: Space = field(default_factory=_operations)  # what it has not is not drawn
    p: float = field(default=1.0, init=False)  # which steps are applied is drawn here

    @functools.cached_property
    def _groups(self) -> list[tuple[tuple[int, ...], float, bool]]:
        """Operations, their probability, and whether all of them are applied, in a random order, or one of them."""
        groups, jitter = [], [n for n in _JITTER if self.family.is_on(n)]
        for name, factor in FACTORS.items():
            if not factor.ops or not self.family.is_on(name) or name in jitter[1:]:
                continue
            factors = jitter if name in jitter else [name]
            names = [op for n in factors for op in FACTORS[n].ops if op in self.space.ops]
            if names:
                groups.append((tuple(map(self.space.index, names)), factor.p, name in jitter))
        return groups or [((self.space.identity,), 0.0, False)]

    @property
    def changes(self) -> bool:
        """Whether there is an operation that it draws."""
        return self._groups != [((self.space.identity,), 0.0, False)]

    @property
    def steps(self) -> int:
        """The number of operations in a row."""
        return sum(len(ops) if every else 1 for ops, _, every in self._groups)

    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        """Draw subpolicies for n images."""
        columns = []
        for ops, p, every in self._groups:
            choices = np.array(ops, np.int16)
            if every:
                drawn = generator.permuted(np.tile(choices, (n, self.views, 1)), axis=2)
            else:
                drawn = choices[generator.integers(0, len(choices), (n, self.views, 1))]
            applied = generator.random((n, self.views, 1)) < p
            columns.append(np.where(applied, drawn, np.int16(self.space.identity)))
        steps = np.concatenate(columns, axis=2)
        levels = generator.integers(0, self.space.levels, steps.shape, np.int16)
        if self.family.plain:
            steps[generator.random(n) < PLAIN] = self.space.identity
        return Subpolicies(self.space, steps, levels)


def locked(matters: Iterable[str], ignores: Iterable[str]) -> dict[str, bool]:
    """The factors that are decided: off where something matters, on where it does not."""
    off, on = _factors(matters, "--matters"), _factors(ignores, "--ignores")
    if both := sorted(off & on):
        raise CoviewsError(f"{both[0]} cannot both matter and be ignored: name it in one of --matters and --ignores")
    return {name: name in on for name in FACTORS if name in off | on}


def with_locks(start: Family, locks: Mapping[str, bool]) -> Family:
    """A family in which the locked factors are as they must be; the crop as in `start` where it may be a part."""
    values: dict[str, Any] = dict(locks)
    if "crop" in values:
        values["crop"] = (start.crop if start.crop != "whole" else "small") if values["crop"] else "whole"
    if "keep" in values:
        values["keep"] = "some" if values["keep"] else "off"
    return replace(start, **values)


def change_in_words(name: str, value: str) -> str:
    """What to do, as an imperative, to give a factor a value: "on", "off" or one of its own."""
    factor = FACTORS[name]
    return factor.changes.get(value, factor.on if value == "on" else factor.off)


def value_in_words(value: Any) -> str:
    """The value of a factor: "on" or "off", or its own word."""
    return value if isinstance(value, str) else "on" if value else "off"


def _factors(words: Iterable[str], flag: str) -> set[str]:
    names: set[str] = set()
    for word in words:
        if word not in VIEW_FACTORS and word not in TOPICS:
            raise unknown(f"factor for {flag}", word, {**VIEW_FACTORS, **TOPICS})
        topic = TOPICS.get(word, ())
        if flag == "--ignores":  # that colour does not matter is no reason to invert images
            topic = tuple(name for name in topic if name not in _STRONG)
        names |= {word, *topic} & FACTORS.keys()
    return names


_MADE_BY = {"keep": "keeping head", "plain": "none, for a quarter of the pairs"}


def factors_table() -> tuple[list[str], list[list[str]]]:
    """Every factor, for the docs: the heads of the columns, and a row of text for each."""
    heads = ["factor", "question", "operations", "in the recipe"]
    rows = [
        [
            f"`{n}`",
            f.question,
            ", ".join(f.ops) or f"({_MADE_BY.get(n, 'placement')})",
            "yes" if RECIPE.is_on(n) else "no",
        ]
        for n, f in FACTORS.items()
    ]
    return heads, rows


def listed(words: list[str]) -> str:
    """Words with commas and an 'and'."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
