"""`coviews pretrain`, and where its options start from."""

import argparse
import dataclasses
from pathlib import Path
from typing import Annotated, Any

import tyro

from coviews.errors import CoviewsError
from coviews.runs.presets import preset as preset_settings
from coviews.runs.settings import PretrainSettings, read_settings


def pretrain(
    settings: Annotated[PretrainSettings, tyro.conf.arg(name="")],
    *,
    preset: str | None = None,
    config: Path | None = None,
    resume: Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> None:
    """Train an encoder on images without labels, and learn the views on the way.

    Args:
        settings: What is trained.
        preset: Named settings, such as paper-cifar10 or demo; the other options change them.
        config: A YAML file of settings, such as a run's config.yaml; the other options change them.
        resume: The folder of a run to continue, exactly as if it had not been interrupted.
        overwrite: Replace a run that is in --out.
        progress: Show what is going on.
    """
    from coviews.training.pretrain import pretrain as train

    settings.check_ppo_options()
    train(settings=settings, resume=resume, overwrite=overwrite, progress=progress)


def starting_settings(arguments: list[str]) -> PretrainSettings:
    """What the options of `pretrain` change: a run's settings, those of a preset or a file, or the defaults."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    for name in ("preset", "config", "resume"):
        parser.add_argument(f"--{name}")
    try:
        found, rest = parser.parse_known_args(arguments)
    except argparse.ArgumentError:
        return PretrainSettings()  # an option without its value: the true parser says so
    if found.resume is not None:
        return read_settings(Path(found.resume) / "config.yaml") if _is_run(found.resume) else PretrainSettings()
    base = preset_settings(found.preset) if found.preset is not None else PretrainSettings()
    if found.config is not None:
        return read_settings(Path(found.config), base)
    helped = "-h" in rest or "--help" in rest
    return preset_settings("demo") if found.preset is None and not has_data(rest) and not helped else base


def has_data(arguments: list[str]) -> bool:
    """Whether there is a word that is neither an option nor an option's value."""
    values = 0
    for word in (a.replace("_", "-") if a.startswith("-") else a for a in arguments):  # both are accepted
        if values:
            values -= 1
        elif not word.startswith("-"):
            return True
        elif "=" not in word and word not in _SWITCHES:
            values = 2 if word == "--crop-area" else 1
    return False


def _switches(settings: Any, prefix: str = "") -> set[str]:
    found = set()
    for f in dataclasses.fields(settings):
        value, name = getattr(settings, f.name), f.name.replace("_", "-")
        if isinstance(value, bool):
            found |= {f"--{prefix}{name}", f"--{prefix}no-{name}"}
        elif dataclasses.is_dataclass(value):
            found |= _switches(value, f"{prefix}{name}.")
    return found


# options without a value
_SWITCHES = {
    *(f"--{no}{name}" for name in ("overwrite", "progress", "dry-run", "paper") for no in ("", "no-")),
    *_switches(PretrainSettings()),
}


def _is_run(folder: str) -> bool:
    if not (Path(folder) / "config.yaml").is_file():
        raise CoviewsError(f"{folder} is not a run: it has no config.yaml")
    return True
