"""The launchers by name."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from coviews.compat import cores
from coviews.errors import unknown
from coviews.launching.on_ray import RayLauncher
from coviews.launching.on_submitit import SubmititLauncher
from coviews.launching.options import read_options
from coviews.launching.task import Task, Training, start_process


class Launcher(Protocol):
    """Where trainings run; its options are the fields of the dataclass."""

    def check(self) -> None:
        """An error if it cannot work here."""

    def threads(self, at_once: int) -> int:
        """Of each training."""

    def opened(self, folder: Path) -> contextlib.AbstractContextManager[Callable[[Task], Training]]:
        """What starts trainings, for a comparison or a choice in a folder."""


@dataclass(frozen=True)
class LocalLauncher:
    """Runs trainings on this machine."""

    def check(self) -> None:
        """Nothing can be missing."""

    def threads(self, at_once: int) -> int:
        """Of each training: they share the cores; no more than OMP_NUM_THREADS, as for any process."""
        share, limit = max(1, cores() // at_once), os.environ.get("OMP_NUM_THREADS", "")
        return min(share, max(1, int(limit))) if limit.isascii() and limit.isdecimal() else share

    @contextlib.contextmanager
    def opened(self, folder: Path) -> Iterator[Callable[[Task], Training]]:
        """What starts trainings, for a comparison or a choice in a folder."""
        yield start_process


LOCAL = LocalLauncher()
LAUNCHERS: dict[str, type[Any]] = {"local": LocalLauncher, "submitit": SubmititLauncher, "ray": RayLauncher}


def named_launcher(name: str, options: str | None) -> Launcher:
    """A launcher by its name.

    options: names and values, such as `partition=gpu,timeout_min=600`.
    """
    if name not in LAUNCHERS:
        raise unknown("launcher", name, LAUNCHERS)
    made: Launcher = read_options(options, LAUNCHERS[name], name)
    return made


def check_launcher(name: str, options: str | None) -> None:
    """An error for an unknown launcher, or options that it does not have."""
    named_launcher(name, options)


def launchers_table() -> tuple[list[str], list[list[str]]]:
    """The options of all launchers, for the docs."""
    rows = [
        [f"`{name}`", f"`{f.name}`", f.metadata["about"], "" if f.default is None else f"`{f.default}`"]
        for name, kind in LAUNCHERS.items()
        for f in dataclasses.fields(kind)
    ]
    return ["launcher", "option", "what it is", "default"], rows
