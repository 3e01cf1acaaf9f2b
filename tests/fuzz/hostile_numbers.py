"""Extreme values for every numeric option of every command; the options are found in the dataclasses and functions."""

import dataclasses
import inspect
import random
import types
import typing
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

EXTREMES = (
    "0", "1", "2", "-1", "-0.0", "0.5", "1e-320", "1e300", "1e308", "1e999", "nan", "inf", "-inf", "64", "4097",
    "100000", "20000000",
    "2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1" + "0" * 30, "9" * 5000,
    "0x10", "1_000", "",
    "-9223372036854775809", "٣", "1e5", "3.0",
)  # fmt: skip
# these may be large: it is what was asked for, and takes as long as it takes
_LONG_WORK = {"epochs", "seeds", "rows", "per_class", "pilots", "images"}


RUN = "RUN"  # stands for the folder of a finished run


def _is_number(hint: Any) -> bool:
    if typing.get_origin(hint) is Annotated:
        return _is_number(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (types.UnionType, typing.Union, tuple):
        return any(_is_number(h) for h in typing.get_args(hint))
    return hint in (int, float)


def _width(hint: Any) -> int:
    """How many values the option takes."""
    if typing.get_origin(hint) is Annotated:
        return _width(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return max(_width(h) for h in typing.get_args(hint))
    return len([h for h in typing.get_args(hint) if h is not Ellipsis]) if typing.get_origin(hint) is tuple else 1


def _numbers(owner: Any, prefix: str = "") -> dict[str, int]:
    """The numeric fields of a dataclass, nested ones too, as options; each with its number of values."""
    options = {}
    hints = typing.get_type_hints(type(owner) if not isinstance(owner, type) else owner, include_extras=True)
    for field in dataclasses.fields(owner):
        value = getattr(owner, field.name, None)
        if dataclasses.is_dataclass(value):
            if field.name not in ("method", "search"):
                options |= _numbers(value, f"{prefix}{field.name}.")
        elif _is_number(hints[field.name]):
            options[flag(prefix + field.name)] = _width(hints[field.name])
    return options


def _of_function(function: Any) -> dict[str, int]:
    hints = typing.get_type_hints(function, include_extras=True)
    names = inspect.signature(function).parameters
    return {flag(n): _width(hints[n]) for n in names if n in hints and _is_number(hints[n])}


TRAINING = (
    "shapes:32", "--size", "16", "--encoder", "resnet8", "--epochs", "2", "--batch-size", "16", "--no-tensorboard",
    "--no-report", "--accelerator", "cpu", "--threads", "1", "--no-progress",
)  # fmt: skip


def commands() -> list[tuple[tuple[str, ...], dict[str, int]]]:
    """Commands that end soon, and the numeric options that each has."""
    shared = _numbers(PretrainSettings())
    rows = [(("pretrain", *TRAINING), shared)]
    for name, method in METHODS.items():
        rows.append((("pretrain", *TRAINING, "--method", name, "--views", "random"), _numbers(method.settings_type())))
    for name, search in SEARCHES.items():
        words = ("--views", "coviews", "--search", name, "--warmup-epochs", "1", "--space", "autoaugment")
        rows.append((("pretrain", *TRAINING, *words), _numbers(search.settings_type(), "search.")))
    rows.append(
        (
            ("pretrain", *TRAINING, "--views", "simclr", "--views-local", "2"),
            {n: w for n, w in shared.items() if "loc" in n},
        )
    )
    rows.append((("preview", "shapes:8", "--rows", "1"), _of_function(preview_command)))
    rows.append((("compare", *TRAINING, "--views", "random", "--dry-run"), _numbers(CompareOptions())))
    rows.append((("reproduce", "table-less-data", "--data", "shapes:64", "--dry-run"), _numbers(ReproduceOptions())))
    rows.append((("choose", "shapes:64", "--dry-run"), _numbers(ChooseOptions())))
    for name, options in (("evaluate", EvaluateOptions), ("embed", EmbedOptions), ("neighbours", NeighboursOptions)):
        rows.append(((name, RUN, "--data", "shapes:32"), _numbers(options())))
    return [(words, options) for words, options in rows if options]


def number_case(seed: int, place: Path, run: Path) -> list[str]:
    """A command with an extreme value for one of its options, or for two; it writes into the folder `place`."""
    chance = random.Random(f"numbers {seed}")
    every = commands()
    words, options = chance.choices(every, [len(options) for _, options in every])[0]
    chosen = chance.sample(sorted(options), min(len(options), chance.choice((1, 1, 1, 2))))
    more: list[str] = []
    for name in chosen:
        allowed = [
            v for v in EXTREMES if name.lstrip("-").replace("-", "_") not in _LONG_WORK or len(v) < 3 or len(v) > 20
        ]
        more += [name, *(chance.choice(allowed) for _ in range(options[name]))]
    if words[0] in ("pretrain", "compare", "reproduce", "choose"):
        more += ["--out", str(place / "out")]
    elif words[0] in ("preview", "neighbours"):
        more += ["--out", str(place / "sheet.png")]
    elif words[0] == "embed":
        more += ["--out", str(place / "features.npz")]
    return [str(run) if word == RUN else word for word in words] + more
