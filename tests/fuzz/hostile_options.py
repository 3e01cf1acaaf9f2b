"""Extreme values for the options of every command: numbers, and texts; the options are found in the dataclasses."""

import dataclasses
import inspect
import os
import random
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from coviews.choosing.options import ChooseOptions
from coviews.cli.preview import preview_command
from coviews.comparison.options import CompareOptions, ReproduceOptions
from coviews.console.options import flag
from coviews.evaluation.options import EvaluateOptions
from coviews.features.feature_options import EmbedOptions, NeighboursOptions
from coviews.methods.known import METHODS
from coviews.runs.settings import PretrainSettings
from coviews.searching.known import SEARCHES

WHOLE = (
    "0", "1", "2", "-1", "64", "4097", "100000", "20000000", "2147483648", "9223372036854775807", "9223372036854775808",
    "18446744073709551616", "-9223372036854775809", "1" + "0" * 30, "9" * 5000, "1_000", "٣",
)  # fmt: skip
FRACTIONS = ("-0.0", "0.5", "1e-320", "1e300", "1e308", "1e999", "nan", "inf", "-inf", "0x10", "", "1e5", "3.0")
TEXTS = (
    "", " ", "x", "x" * 20_000, "\x1b[2J", "é" * 300, "\udcff", ".", "..", "/", "../../x", "/dev/zero", "/dev/null",
    "/dev/full", "/proc/self/mem", "/nowhere/x", "~", "~nobody/x", "a,b", "," * 999, "crop small, " * 300, "crop small",
    "recipe,,recipe", "crop", "Rotate", "Rotate=9e9", "Rotate:2,Rotate:3", "nan", "1e999", "-1", "0", "10%", "1e-400%",
    "9" * 5000, "None", "true", "{}", "[1]", "a=b", "a:b:c", "%s%n", "timm/", "timm/x", "timm/" + "x" * 5000, "resnet8",
    "resnet99", "shapes", "shapes:0", "shapes:" + "9" * 5000, "cifar10", "stl10:x", "tinyimagenet:", "p.safetensors",
    "x.yaml", "x.npy", "x.csv", "x.zip", "x.pt", "\u202e", "#", "1h", "1e99h", "-5m", "all", "choose", "coviews",
)  # fmt: skip
_ELSEWHERE = ("out", "data", "source", "run", "table")  # each command has them already
Taken = Callable[[Any], "Numbers | None"]  # what an option of a type takes; None if it is not of the kind that is tried
# these may be large: it is what was asked for, and takes as long as it takes
_LONG_WORK = {"epochs", "seeds", "rows", "per_class", "pilots", "images"}


RUN = "RUN"  # stands for the folder of a finished run


@dataclass(frozen=True)
class Numbers:
    """What a numeric option takes."""

    width: int  # values
    whole: bool  # no fractions


def _kinds(hint: Any) -> list[Any]:
    """The plain types in a type, with those of a tuple one after the other."""
    if typing.get_origin(hint) is Annotated:
        return _kinds(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (types.UnionType, typing.Union, tuple):
        return [kind for h in typing.get_args(hint) if h is not Ellipsis for kind in _kinds(h)]
    return [hint]


def _number(hint: Any) -> Numbers | None:
    """What an option of this type takes; None if it is no number."""
    kinds = [kind for kind in _kinds(hint) if kind in (int, float)]
    return Numbers(len(kinds), float not in kinds) if kinds else None


def _text(hint: Any) -> Numbers | None:
    """The same for texts and paths."""
    kinds = [kind for kind in _kinds(hint) if kind in (str, Path)]
    return Numbers(1, whole=False) if kinds else None


def _options(owner: Any, prefix: str, taken_by: Taken) -> dict[str, Numbers]:
    """The fields of a dataclass that are numbers, or texts, nested ones too, as options."""
    options = {}
    hints = typing.get_type_hints(type(owner) if not isinstance(owner, type) else owner, include_extras=True)
    for field in dataclasses.fields(owner):
        value = getattr(owner, field.name, None)
        if dataclasses.is_dataclass(value):
            if field.name not in ("method", "search"):
                options |= _options(value, f"{prefix}{field.name}.", taken_by)
        elif field.name not in _ELSEWHERE and (taken := taken_by(hints[field.name])) is not None:
            options[flag(prefix + field.name)] = taken
    return options


def _of_function(function: Any, taken_by: Taken) -> dict[str, Numbers]:
    hints = typing.get_type_hints(function, include_extras=True)
    names = [name for name in inspect.signature(function).parameters if name not in _ELSEWHERE]
    return {flag(n): taken for n in names if (taken := taken_by(hints.get(n))) is not None}


TRAINING = (
    "shapes:32", "--size", "16", "--encoder", "resnet8", "--epochs", "2", "--batch-size", "16", "--no-tensorboard",
    "--no-report", "--accelerator", "cpu", "--threads", "1", "--no-progress",
)  # fmt: skip


_SMALL_SEARCH = (
    "--search.batch", "16", "--search.samples", "8", "--search.minibatch", "8", "--search.reference-batches", "1",
)  # fmt: skip


def commands(taken_by: Taken = _number) -> list[tuple[tuple[str, ...], dict[str, Numbers]]]:
    """Commands that end soon, and the options that each has: numbers, or texts."""

    def _numbers(owner: Any, prefix: str = "") -> dict[str, Numbers]:
        return _options(owner, prefix, taken_by)

    shared = _numbers(PretrainSettings())
    rows = [(("pretrain", *TRAINING), shared)]
    for name, method in METHODS.items():
        rows.append((("pretrain", *TRAINING, "--method", name, "--views", "random"), _numbers(method.settings_type())))
    for name, search in SEARCHES.items():
        words = ("--views", "coviews", "--search", name, "--warmup-epochs", "1", "--space", "autoaugment")
        words += _SMALL_SEARCH if name == "ppo" else ()
        rows.append((("pretrain", *TRAINING, *words), _numbers(search.settings_type(), "search.")))
    rows.append(
        (
            ("pretrain", *TRAINING, "--views", "simclr", "--views-local", "2"),
            {n: w for n, w in shared.items() if "loc" in n},
        )
    )
    rows.append((("preview", "shapes:8", "--rows", "1"), _of_function(preview_command, taken_by)))
    rows.append((("compare", *TRAINING, "--views", "random", "--dry-run"), _numbers(CompareOptions())))
    rows.append((("reproduce", "table-less-data", "--data", "shapes:160", "--dry-run"), _numbers(ReproduceOptions())))
    rows.append((("choose", "shapes:64", "--dry-run"), _numbers(ChooseOptions())))
    for name, options in (("evaluate", EvaluateOptions), ("embed", EmbedOptions), ("neighbours", NeighboursOptions)):
        rows.append(((name, RUN, "--data", "shapes:32"), _numbers(options())))
    return [(words, options) for words, options in rows if options]


def number_case(seed: str, place: Path, run: Path) -> list[str]:
    """A command with an extreme value for one of its options, or for two; it writes into the folder `place`.

    seed: a number, or "command-N" for the Nth command without any.
    """
    return _case(seed, place, run, random.Random(f"numbers {seed}"), commands(), _extreme)


def text_case(seed: str, place: Path, run: Path) -> list[str]:
    """The same with a hostile text for an option that takes a text or a path."""
    os.chdir(place)  # what it makes under a relative name stays there
    return _case(
        seed, place, run, random.Random(f"texts {seed}"), commands(_text), lambda _, __, chance: chance.choice(TEXTS)
    )


def _case(
    seed: str,
    place: Path,
    run: Path,
    chance: random.Random,
    every: list[tuple[tuple[str, ...], dict[str, Numbers]]],
    value: Callable[[str, Numbers, random.Random], str],
) -> list[str]:
    more = list[str]()
    if seed.startswith("command-"):
        words = every[int(seed.removeprefix("command-"))][0]
    else:
        words, options = chance.choices(every, [len(options) for _, options in every])[0]
        for name in chance.sample(sorted(options), min(len(options), chance.choice((1, 1, 1, 2)))):
            more += [name, *(value(name, options[name], chance) for _ in range(options[name].width))]
    outs = {"preview": "sheet.png", "neighbours": "sheet.png", "embed": "features.npz", "evaluate": "results.jsonl"}
    return [str(run) if word == RUN else word for word in words] + [
        *more,
        "--out",
        str(place / outs.get(words[0], "out")),
    ]


def _extreme(name: str, numbers: Numbers, chance: random.Random) -> str:
    value = chance.choice(WHOLE if chance.random() < (0.9 if numbers.whole else 0.4) else FRACTIONS)
    if name.lstrip("-").replace("-", "_") in _LONG_WORK and 2 < len(value) < 20:
        return "1"
    if name in ("--devices", "--num-nodes") and value == "2":
        return "1"  # it would start this program of tests once more
    return value
