"""The commands: each is a function whose arguments are the command's options."""

import functools
import importlib
import importlib.metadata
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import tyro

import coviews
from coviews.errors import CoviewsError, unknown

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
        except BrokenPipeError:  # whoever read the output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except KeyboardInterrupt as stop:
            print(str(stop) or "stopped", file=sys.stderr)
            return 128 + getattr(stop, "signal", signal.SIGINT)
    return 0


def _run(arguments: list[str]) -> None:
    name = arguments[0]
    if not name.startswith("-") and name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    app = tyro.extras.SubcommandApp()
    for command in COMMANDS if name.startswith("-") else [name]:
        app.command(name=command)(_function(command, arguments[1:]))
    app.cli(prog="coviews", description=f"{coviews.__doc__} (--version tells which this is.)", args=arguments)


def _function(command: str, arguments: list[str]) -> Callable[..., None]:
    """The command's function; its options start from what a preset, a file or a run says, where it takes settings."""
    place = COMMANDS[command]
    if not isinstance(place, str):
        return place
    module = importlib.import_module(place)
    function: Callable[..., None] = getattr(module, f"{command}_command")
    start = getattr(module, "starting_options", {}).get(command)
    return function if start is None else functools.partial(function, settings=start(arguments))


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)
