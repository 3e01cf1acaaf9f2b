"""The commands: each is a function whose arguments are the command's options."""

import contextlib
import functools
import importlib
import importlib.metadata
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import tyro

import coviews
from coviews.cli.help import ASKS, show_commands, show_help
from coviews.console.options import check_integers
from coviews.errors import CoviewsError, one_line, unknown

_NO_MEMORY = "error: there is not enough memory: fewer images, smaller ones or smaller batches need less"
_OF_TORCH = ("can't allocate memory", "out of memory")  # in its errors
# the module of each command, imported when it is needed, as some wait for torch; or a function
COMMANDS: dict[str, str | Callable[..., None]] = {
    "preview": "coviews.cli.preview",
    "choose": "coviews.cli.choose",
    "pretrain": "coviews.cli.pretrain",
    "check": "coviews.cli.check",
    "evaluate": "coviews.cli.evaluate",
    "embed": "coviews.cli.embed",
    "export": "coviews.cli.export",
    "neighbours": "coviews.cli.neighbours",
    "compare": "coviews.cli.compare",
    "reproduce": "coviews.cli.compare",
    "report": "coviews.cli.report",
    "watch": "coviews.cli.report",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; an error in its input is one line, with exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in (["--version"], ["-V"]):
        print(f"coviews {importlib.metadata.version('coviews')}")
        return 0
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            try:
                _run(words or ["--help"])
            finally:
                sys.stdout.flush()  # now: at the end of the process nobody would catch a closed pipe
        except CoviewsError as error:
            if os.environ.get("LOCAL_RANK", "0") == "0":  # of several processes that see it, one says it
                print(f"error: {error}", file=sys.stderr)
            return 2
        except MemoryError:
            print(_NO_MEMORY, file=sys.stderr)
            return 2
        except RuntimeError as error:
            if not any(words in str(error) for words in _OF_TORCH):
                raise
            print(_NO_MEMORY, file=sys.stderr)
            return 2
        except BrokenPipeError:  # whoever read the output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except OSError as error:  # a full disk, a name that is too long
            where = f" ({error.filename})" if error.filename else ""
            print(f"error: {one_line(f'{error.strerror or error}{where}')}", file=sys.stderr)
            return 2
        except KeyboardInterrupt as stop:
            print(str(stop) or "stopped", file=sys.stderr)
            return 128 + getattr(stop, "signal", signal.SIGINT)
    return 0


def _run(arguments: list[str]) -> None:
    name = arguments[0]
    if not name.startswith("-") and name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    if name in ASKS:
        show_commands({command: _plain_function(command).__doc__ or "" for command in COMMANDS})
        sys.exit(0)
    if any(word in ASKS for word in arguments[1:]) and show_help(name, _function(name, arguments[1:]), arguments[1:]):
        sys.exit(0)
    app, parsing = tyro.extras.SubcommandApp(), contextlib.ExitStack()
    for command in COMMANDS if name.startswith("-") else [name]:
        app.command(name=command)(_after(parsing.close, _function(command, arguments[1:])))
    with parsing:  # tyro draws a box around what is wrong
        box = parsing.enter_context(contextlib.redirect_stderr(io.StringIO()))
        try:
            words = ["--help" if word in ASKS else word for word in arguments]
            app.cli(prog="coviews", description=coviews.__doc__, args=words)
        except SystemExit:
            parsing.close()
            if box.getvalue():
                print(f"error: {one_line(_unboxed(box.getvalue(), name))}", file=sys.stderr)
            raise


def _after(begin: Callable[[], None], function: Callable[..., None]) -> Callable[..., None]:
    """The same function, before which another is called; the command line sees its options all the same."""
    inner = function.func if isinstance(function, functools.partial) else function

    @functools.wraps(inner)
    def run(*arguments: Any, **options: Any) -> None:
        begin()
        check_integers(options)
        inner(*arguments, **options)

    return functools.partial(run, **function.keywords) if isinstance(function, functools.partial) else run


def _unboxed(box: str, command: str) -> str:
    """What the command line's parser says, in one line: what is wrong, and which option may be meant."""
    sections: list[list[str]] = [[]]
    for line in (line.strip("│| ") for line in box.splitlines() if not line.startswith(("╭", "╰", "+"))):
        if line and not line.strip("─-"):
            sections.append([])
        elif line:
            sections[-1].append(line)
    sections = [section for section in sections if section]
    wrong, *more = sections if box.startswith("╭") or len(sections) == 1 else sections[1:]  # without its title
    similar = [line.split()[0] for section in more for line in section if line.startswith("--")]
    text = " ".join(wrong).replace("__tyro-dummy-inner__.", "").rstrip(".")
    hint = f"did you mean {similar[0]}? " if similar and "nrecognized" in text else ""
    return f"{text}: {hint}coviews {'' if command.startswith('-') else f'{command} '}--help-all shows all"


def _function(command: str, arguments: list[str]) -> Callable[..., None]:
    """The command's function; its options start from what a preset, a file or a run says, where it takes settings."""
    function, place = _plain_function(command), COMMANDS[command]
    if not isinstance(place, str):
        return function
    start = getattr(importlib.import_module(place), "starting_options", {}).get(command)
    return function if start is None else functools.partial(function, settings=start(arguments))


def _plain_function(command: str) -> Callable[..., None]:
    place = COMMANDS[command]
    if not isinstance(place, str):
        return place
    function: Callable[..., None] = getattr(importlib.import_module(place), f"{command}_command")
    return function


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {one_line(message)}", file=sys.stderr)
