"""The commands: each is a function whose arguments are the command's options."""

import argparse
import dataclasses
import functools
import importlib.metadata
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from numpy.typing import NDArray
from PIL import Image

import coviews
from coviews.config import PretrainSettings, read_settings
from coviews.data.load import ImageSet, load_images
from coviews.errors import CoviewsError, unknown
from coviews.ops.engine import make_views
from coviews.policies.fixed import view_source
from coviews.policies.learned import load_policy
from coviews.policies.subpolicy import Subpolicies, ViewSource
from coviews.recipes import preset as preset_settings
from coviews.report.sheet import contact_sheet

_ENOUGH = 128  # images of which a sheet shows some: no need to decode a whole large folder


def preview(
    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[DATA]")] = "shapes",
    *,
    views: str = "random",
    out: Path = Path("sheet.png"),
    rows: int = 6,
    pairs: int = 3,
    seed: int = 0,
    size: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None,
    magnitude: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None,
    crop: bool = True,
    flip: bool = True,
) -> None:
    """Make a contact sheet: images, pairs of their views, and what was done to each.

    Args:
        data: A folder of images, an image file, or 'shapes' (built in; 'shapes:2000' for as many).
        views: Who chooses what is done: random, uniform, randaugment, trivialaugment or simclr, or the file of a
            learned policy (.safetensors).
        out: Where to write the picture; its extension says which format. An older one is replaced.
        rows: How many images to show.
        pairs: How many pairs of views to show of each.
        seed: Chooses the images and everything that is drawn.
        size: The side of the images in pixels, if not their own.
        magnitude: RandAugment's magnitude, 0 to 30.
        crop: Cut a random part out of each view, after the operations.
        flip: Mirror half of the views.
    """
    _check_range("rows", rows, 1, 100)
    _check_range("pairs", pairs, 1, 20)
    _check_range("seed", seed, 0, 2**63)
    source = _source(views, magnitude)
    _check_picture(out)
    images = load_images(data, size=size, limit=max(_ENOUGH, rows), progress=True)
    generator = np.random.default_rng(seed)
    shown = _chosen(images, rows, generator)

    def draw(batch: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], Subpolicies]:
        done = source.sample(len(batch), generator).applied(generator)
        cut, mirror = (0.2, 1.0) if crop else None, 0.5 if flip else 0
        return make_views(batch, done, generator, crop=cut, flip=mirror, fill=images.mean), done

    strength = "" if magnitude is None else f" (magnitude {magnitude})"
    last = " and ".join(name for name, wanted in (("crop", crop), ("flip", flip)) if wanted)
    after = f", then a random {last}" if last else ""
    sheet = contact_sheet(
        images.images[shown],
        draw,
        pairs=pairs,
        title=f"{Path(*Path(data).parts[-2:])} · {Path(views).name}{strength}",
        note=f"under each view what was done to it, in this order{after}",
        captions=_captions(images, shown),
    )
    _save(sheet, out)
    print(f"wrote {out}: {views} views of {len(shown)} image{'s' if len(shown) > 1 else ''}")


def _source(views: str, magnitude: int | None) -> ViewSource:
    if views.endswith(".safetensors"):
        source: ViewSource = load_policy(views)
    elif magnitude is not None and views == "randaugment":
        return view_source(views, magnitude=magnitude)
    else:
        source = view_source(views)
    if magnitude is not None:
        raise CoviewsError(f"--magnitude is an option of --views randaugment, not of {views!r}")
    return source


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
    from coviews.train import pretrain as train

    train(settings=settings, resume=resume, overwrite=overwrite, progress=progress)


def _starting_settings(arguments: list[str]) -> PretrainSettings:
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
    return preset_settings("demo") if found.preset is None and not _has_data(rest) else base


def _has_data(arguments: list[str]) -> bool:
    """Whether there is a word that is neither an option nor an option's value."""
    values = 0
    for word in arguments:
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
_SWITCHES = {"--overwrite", "--no-overwrite", "--progress", "--no-progress", *_switches(PretrainSettings())}


def _is_run(folder: str) -> bool:
    if not (Path(folder) / "config.yaml").is_file():
        raise CoviewsError(f"{folder} is not a run: it has no config.yaml")
    return True


COMMANDS: dict[str, Callable[..., None]] = {"preview": preview, "pretrain": pretrain}


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
            settings = _starting_settings(arguments[1:])
            command = functools.partial(pretrain, settings=settings)
        app.command(name=name)(command)
    app.cli(prog="coviews", description=f"{coviews.__doc__} (--version tells which this is.)", args=arguments)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)


def _check_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise CoviewsError(f"--{name} must be {low} to {high}, not {value}")


def _chosen(images: ImageSet, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Some images at random, of as many classes as there can be."""
    order = generator.permutation(len(images))
    if images.labels is None:
        return order[:count]
    seen = np.zeros(len(images.classes or ()), np.int64)
    turn = np.empty(len(order), np.int64)
    for i, label in enumerate(images.labels[order]):
        turn[i], seen[label] = seen[label], seen[label] + 1
    return order[np.argsort(turn, kind="stable")][:count]


def _captions(images: ImageSet, shown: NDArray[np.int64]) -> list[str]:
    if images.labels is not None and images.classes is not None:
        return [images.classes[label] for label in images.labels[shown]]
    return [Path(images.names[i]).name for i in shown] if images.names else [""] * len(shown)


def _check_picture(path: Path) -> None:
    """Before the work is done: can a picture be written there?"""
    if Image.registered_extensions().get(path.suffix.lower()) not in Image.SAVE:
        raise CoviewsError(f"cannot write a picture as {str(path)!r}: name it .png, .jpg, .webp or .pdf")
    if path.is_dir():
        raise CoviewsError(f"cannot write {path}: it is a folder")


def _save(picture: Image.Image, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise CoviewsError(f"cannot write {path}: {why}") from error
