"""The keyword arguments of the public functions are those of their options; `python tests/test_option_types.py` writes
their types anew."""

import dataclasses
import inspect
import subprocess
import sys
import types
import typing
from pathlib import Path

import pytest

import coviews
from coviews.comparison.options import CompareOptions, ReproduceOptions
from coviews.methods.known import METHODS
from coviews.ops.view_settings import ViewKeywords
from coviews.policies.fixed import FIXED, ViewSourceKeywords
from coviews.runs.settings import PretrainSettings

FILE = Path(coviews.__file__).parent / "console" / "option_types.py"

HEAD = '''"""The keyword arguments of the public functions, for type checkers and editors.

Written by tests/test_option_types.py from the options of the commands: do not edit it by hand.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from coviews.methods.method import MethodSettings
    from coviews.searching.settings import SearchSettings
'''

# what Python may give besides what the command line can
WIDER = {
    "method": '"str | Mapping[str, Any] | MethodSettings"',
    "search": '"str | Mapping[str, Any] | SearchSettings"',
    "CompareKeywords.views": "str | Sequence[str] | None",
    "CompareKeywords.variants": "str | Path | Mapping[str, Any] | None",
    "EvaluateKeywords.finetune": "Sequence[str | float]",
    "NeighboursKeywords.query": "str | Path | Sequence[str | Path]",
}


def spelled(hint) -> str:
    """A type as it is written; a path may be given as a text."""
    if typing.get_origin(hint) is typing.Annotated:
        return spelled(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return " | ".join(spelled(h) for h in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return f"tuple[{', '.join(map(spelled, typing.get_args(hint)))}]"
    return {Path: "str | Path", type(None): "None", ...: "..."}.get(hint) or hint.__name__


def fields(options: type) -> dict[str, str]:
    hints = typing.get_type_hints(options, include_extras=True)
    return {f.name: spelled(hints[f.name]) for f in dataclasses.fields(options)}


def keywords() -> dict[str, dict[str, str]]:
    """The name of each type, with its keys and their types."""
    of_methods = {name: t for method in METHODS.values() for name, t in fields(method.settings_type).items()}
    settings = {**of_methods, **fields(PretrainSettings)}
    named = {name: t for name, t in settings.items() if name not in ("data", "encoder")}  # arguments of their own
    return {
        "PretrainKeywords": named,
        "SettingsKeywords(PretrainKeywords)": {name: settings[name] for name in ("data", "encoder")},
        "CompareKeywords": {**named, "encoder": settings["encoder"], **fields(CompareOptions)},
        "ReproduceKeywords": fields(ReproduceOptions),
        "ChooseKeywords": {name: t for name, t in fields(coviews.ChooseOptions).items() if name != "labels"},
        "EvaluateKeywords": fields(coviews.EvaluateOptions),
        "EmbedKeywords": fields(coviews.EmbedOptions),
        "NeighboursKeywords": fields(coviews.NeighboursOptions),
        "ExportKeywords": {name: t for name, t in fields(coviews.ExportOptions).items() if name != "format"},
    }


def content() -> str:
    text = HEAD
    for title, items in keywords().items():
        name, base = [*title.rstrip(")").split("("), "TypedDict"][:2]
        function = "PretrainSettings.replaced" if name.startswith("Settings") else name.removesuffix("Keywords").lower()
        text += f'\n\nclass {name}({base}, total=False):\n    """Of `{function}`."""\n\n'
        text += "".join(f"    {k}: {WIDER.get(f'{name}.{k}', WIDER.get(k, t))}\n" for k, t in items.items())
    return text


def test_the_types_are_those_of_the_options():
    assert FILE.read_text() == content(), "run python tests/test_option_types.py"


def test_the_keywords_of_view_sources_are_those_of_all_of_them():
    options = {name: p.annotation for make in FIXED.values() for name, p in inspect.signature(make).parameters.items()}
    assert typing.get_type_hints(ViewSourceKeywords) == options


def test_the_keywords_of_view_settings_are_its_fields():
    assert typing.get_type_hints(ViewKeywords) == typing.get_type_hints(coviews.ViewSettings)


def test_no_public_function_takes_just_anything():
    for name in coviews.__all__:
        value = getattr(coviews, name)
        functions = [value] if inspect.isfunction(value) else []
        if inspect.isclass(value) and value.__module__.startswith("coviews"):
            members = inspect.getmembers(value, lambda member: inspect.isfunction(member) or inspect.ismethod(member))
            functions = [function for member, function in members if not member.startswith("_")]
        for function in functions:
            for p in inspect.signature(function).parameters.values():
                if p.kind is p.VAR_KEYWORD:
                    assert typing.get_origin(p.annotation) is typing.Unpack, f"{name}: {function}"


@pytest.mark.slow
def test_a_type_checker_sees_a_wrong_keyword(tmp_path):
    (tmp_path / "user.py").write_text(
        "import coviews\n"
        'coviews.pretrain("images", epochs=3, method="moco", bank=64, out="runs/a")\n'
        'coviews.pretrain("images", epohcs=3)\n'
        'coviews.embed("run", batch_size="many")\n'
    )
    command = [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--follow-imports=silent", "user.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert [line.split(":")[1] for line in done.stdout.splitlines() if "error" in line.split(":")[2]] == ["3", "4"]


if __name__ == "__main__":
    FILE.write_text(content())
