"""The commands: each is a function whose arguments are the command's options."""

import functools
import importlib.metadata
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import tyro

import coviews
from coviews.cli.compare import SharedSettings, compare, reproduce
from coviews.cli.encoder import embed, export, neighbours
from coviews.cli.evaluate import evaluate_command
from coviews.cli.pretrain import pretrain, starting_settings
from coviews.cli.preview import preview
from coviews.cli.report import report, watch
from coviews.errors import CoviewsError, unknown

COMMANDS: dict[str, Callable[..., None]] = {
    "preview": preview,
    "pretrain": pretrain,
    "evaluate": evaluate_command,
    "embed": embed,
    "export": export,
    "neighbours": neighbours,
    "compare": compare,
    "reproduce": reproduce,
    "report": report,
    "watch": watch,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; what is wrong with its input is said in one line, with exit code 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        print(f"coviews {importlib.metadata.version('coviews')}")
        return 0
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            _run(given or ["--help"])
        except CoviewsError as error:
            if os.environ.get("LOCAL_RANK", "0") == "0":  # of several processes that see it, one says it
                print(f"error: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt as stop:
            print(str(stop) or "stopped", file=sys.stderr)
            return 128 + getattr(stop, "signal", signal.SIGINT)
    return 0


def _run(arguments: list[str]) -> None:
    if not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        raise unknown("command", arguments[0], COMMANDS)
    app = tyro.extras.SubcommandApp()
    for name, command in COMMANDS.items():
        if command is pretrain and arguments[0] == name:
            command = functools.partial(pretrain, settings=starting_settings(arguments[1:]))
        elif command is compare and arguments[0] == name:
            settings = SharedSettings.of(starting_settings(arguments[1:]))
            command = functools.partial(compare, settings=settings)
        app.command(name=name)(command)
    app.cli(prog="coviews", description=f"{coviews.__doc__} (--version tells which this is.)", args=arguments)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)
