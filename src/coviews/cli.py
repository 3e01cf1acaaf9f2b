"""The commands: each is a function whose arguments are the command's options."""

import argparse
import dataclasses
import functools
import importlib.metadata
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from numpy.typing import NDArray

import coviews
from coviews.config import PretrainSettings, read_settings
from coviews.data.choice import varied
from coviews.data.load import ImageSet, load_images
from coviews.errors import CoviewsError, unknown
from coviews.ops.engine import make_views
from coviews.policies.fixed import view_source
from coviews.policies.learned import load_policy
from coviews.policies.subpolicy import Subpolicies, ViewSource
from coviews.recipes import preset as preset_settings
from coviews.report.picture_file import check_picture, save_picture
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
    check_picture(out)
    images = load_images(data, size=size, limit=max(_ENOUGH, rows), progress=True)
    generator = np.random.default_rng(seed)
    shown = varied(images, rows, generator)

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
    save_picture(sheet, out)
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


def report(
    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN [RUN ...]")],
    *,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    figures: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
) -> None:
    """Write a page on what a run learned, finished or not; of several runs, one that compares them.

    Args:
        runs: The folders of the runs.
        out: Where to write the page; by default report.html in the run's folder, or comparison.html here.
        figures: A folder for every chart as a file, PNG and SVG (needs matplotlib).
    """
    from coviews.run_report import write_reports

    for path in write_reports(runs, out, figures):
        print(f"wrote {path}")


def watch(
    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")],
    *,
    port: int = 0,
) -> None:
    """Serve the page of a run to this machine only, made anew as the run goes on, until Ctrl-C.

    Args:
        run: The run's folder.
        port: Where to serve it; by default a free one.
    """
    from coviews.report.watch import Watched
    from coviews.try_encoder import try_encoder

    with Watched(run, port, try_encoder) as server:
        print(f"open {server.address} (Ctrl-C ends it)", flush=True)
        server.serve_forever()


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
    helped = "-h" in rest or "--help" in rest
    return preset_settings("demo") if found.preset is None and not _has_data(rest) and not helped else base


def _has_data(arguments: list[str]) -> bool:
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
_SWITCHES = {"--overwrite", "--no-overwrite", "--progress", "--no-progress", *_switches(PretrainSettings())}


def _is_run(folder: str) -> bool:
    if not (Path(folder) / "config.yaml").is_file():
        raise CoviewsError(f"{folder} is not a run: it has no config.yaml")
    return True


# options that may be left out
_Data = Annotated[str | None, tyro.conf.arg(metavar="DATA")]
_Text = Annotated[str | None, tyro.conf.arg(metavar="STR")]
_Int = Annotated[int | None, tyro.conf.arg(metavar="INT")]
_Path = Annotated[Path | None, tyro.conf.arg(metavar="PATH")]


def evaluate(
    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN_OR_ENCODER")],
    *,
    data: _Data = None,
    test_data: _Data = None,
    k: int = 200,
    temperature: float = 0.1,
    paper: bool = False,
    finetune: Annotated[tuple[str, ...], tyro.conf.arg(metavar="SHARE [SHARE ...]")] = (),
    baselines: bool = True,
    seed: int = 0,
    architecture: _Text = None,
    size: _Int = None,
    subset: _Text = None,
    subset_seed: _Int = None,
    data_root: _Path = None,
    download: bool = False,
    cache: _Path = None,
    batch_size: int = 256,
    device: str = "auto",
    out: _Path = None,
    progress: bool = True,
) -> None:
    """Tell what an encoder is worth: kNN, linear probe and quality without labels, beside baselines.

    Args:
        source: The folder of a run (finished or not), its encoder.safetensors, a state dict from elsewhere (with
            --architecture), or the name of an encoder with published weights (with --download).
        data: Images to learn from, as for pretrain; by default those of the run.
        test_data: Images to judge; by default those of the run, or else a fifth of --data is held out.
        k: Neighbours that vote in kNN; at most one for every 25 images to learn from.
        temperature: Of their vote.
        paper: The paper's linear probe as well: SGD, 100 epochs of random crops, five heads. It takes a hundred
            passes of the images.
        finetune: Shares of the labels, such as 1% 10%, to fine-tune a copy of the encoder with.
        baselines: Measure the untrained encoder and raw pixels too.
        seed: For all that is drawn.
        architecture: The name of the encoder that a state dict is of, such as resnet50.
        size: The side of the images in pixels; by default that of the encoder's training, or their own.
        subset: Learn from a part: '10%' or a number of images; of a run's own data by default what the run took.
        subset_seed: Chooses the subset.
        data_root: Where known sets are; by default as in the run, or 'data'.
        download: Fetch a known set, or published weights.
        cache: Where images that do not fit into memory are kept decoded.
        batch_size: Images that pass the encoder at once.
        device: auto, cpu, cuda or mps.
        out: The file that the results are added to, one line of JSON; by default evaluations.jsonl in the run, if it
            is one.
        progress: Show what is going on where it takes long.
    """
    from rich.console import Console

    from coviews.assess import evaluate as assess

    made = assess(
        source, data, test_data, k=k, temperature=temperature, paper=paper, finetune=finetune, baselines=baselines,
        seed=seed, architecture=architecture, size=size, subset=subset, subset_seed=subset_seed, data_root=data_root,
        download=download, cache=cache, batch_size=batch_size, device=device, out=out, progress=progress,
    )  # fmt: skip
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(made)
    else:
        print(made)
    if made.kept is not None:
        print(f"\nadded to {made.kept}")


_Source = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]


def embed(
    run: _Source,
    *,
    data: _Data = None,
    out: Path = Path("features.npz"),
    map: _Path = None,
    map_method: str = "pca",
    overwrite: bool = False,
    size: _Int = None,
    subset: _Text = None,
    data_root: _Path = None,
    download: bool = False,
    cache: _Path = None,
    architecture: _Text = None,
    batch_size: int = 256,
    device: str = "auto",
    seed: int = 0,
    progress: bool = True,
) -> None:
    """Write the features of images to a file, with their names and labels; cut off, it goes on where it was.

    Args:
        run: The folder of a run, finished or not; or an encoder from elsewhere, as for evaluate.
        data: Images, as for pretrain; by default those of the run.
        out: The file to write, .npz or .parquet.
        map: A picture to draw as well: a dot for each image, similar ones close to each other.
        map_method: How features become places on the map: pca, or umap (needs umap-learn).
        overwrite: Replace a file that is there.
        size: The side of the images in pixels, if not that of the encoder's training.
        subset: Only a part: '10%' or a number of images; of a run's own data by default what the run took.
        data_root: Where known sets are; by default as in the run, or 'data'.
        download: Fetch a known set, or published weights.
        cache: Where images that do not fit into memory are kept decoded.
        architecture: The name of the encoder that a state dict is of, such as resnet50.
        batch_size: Images that pass the encoder at once.
        device: auto, cpu, cuda or mps.
        seed: Chooses the images on the map if there are very many, and starts UMAP.
        progress: Show what is going on where it takes long.
    """
    _check_range("seed", seed, 0, 2**32 - 1)
    made = coviews.embed(
        run, data, out=out, map=map, map_method=map_method, overwrite=overwrite, size=size, subset=subset,
        data_root=data_root, download=download, cache=cache, architecture=architecture, batch_size=batch_size,
        device=device, seed=seed, progress=progress,
    )  # fmt: skip
    known = [what for what, value in (("names", made.names), ("labels", made.labels)) if value is not None]
    beside = f", with {' and '.join(known)}" if known else ""
    print(f"wrote {out}: {made.shape[0]:,} images, {made.shape[1]:,} features each{beside}")
    if map is not None:
        print(f"wrote {map}")


def export(
    run: _Source,
    *,
    format: _Text = None,
    out: _Path = None,
    overwrite: bool = False,
    progress: bool = True,
) -> None:
    """Write the encoder to files that need no coviews, and print the Python that loads them.

    Args:
        run: The folder of a run, finished or not, or its encoder.safetensors.
        format: torchvision or timm for an encoder of that library, state-dict for any, or onnx (checked by running
            it); by default the library's.
        out: The file to write: .safetensors, .pt or .pth, or .onnx; by default it is called by the run.
        overwrite: Replace files that are there.
        progress: Show what is going on where it takes long.
    """
    made = coviews.export(run, format, out=out, overwrite=overwrite, progress=progress)
    print(f"wrote {', '.join(str(file) for file in made.files)}", file=sys.stderr)
    if made.difference is not None:
        print(f"onnxruntime and torch differ by {made.difference:.1g} of the largest feature", file=sys.stderr)
    print(made.snippet, end="")


def neighbours(
    run: _Source,
    *,
    data: _Data = None,
    query: Annotated[tyro.conf.UseAppendAction[tuple[Path, ...]], tyro.conf.arg(metavar="IMAGE")] = (),
    out: Path = Path("neighbours.png"),
    count: int = 10,
    seed: int = 0,
    size: _Int = None,
    subset: _Text = None,
    data_root: _Path = None,
    download: bool = False,
    cache: _Path = None,
    architecture: _Text = None,
    device: str = "auto",
    progress: bool = True,
) -> None:
    """Draw images and their nearest neighbours by the encoder: what to look at first.

    Args:
        run: The folder of a run, finished or not; or an encoder from elsewhere, as for evaluate.
        data: Among which images to look, as for pretrain; by default those of the run.
        query: An image file or a folder of some; may be given several times. By default a few of the data at random.
        out: Where to write the picture; its extension says which format. An older one is replaced.
        count: Neighbours of each.
        seed: Chooses the images, if none are given.
        size: The side of the images in pixels, if not that of the encoder's training.
        subset: Look among a part only: '10%' or a number of images; by default what the run took, or all.
        data_root: Where known sets are; by default as in the run, or 'data'.
        download: Fetch a known set, or published weights.
        cache: Where images that do not fit into memory are kept decoded.
        architecture: The name of the encoder that a state dict is of, such as resnet50.
        device: auto, cpu, cuda or mps.
        progress: Show what is going on where it takes long.
    """
    _check_range("seed", seed, 0, 2**63)
    made = coviews.neighbours(
        run, data, query=query, out=out, count=count, seed=seed, size=size, subset=subset, data_root=data_root,
        download=download, cache=cache, architecture=architecture, device=device, progress=progress,
    )  # fmt: skip
    shown = "1 image with its" if len(made.queries) == 1 else f"{len(made.queries)} images, each with its"
    print(f"wrote {out}: {shown} {count} nearest of {len(made.images):,}")


COMMANDS: dict[str, Callable[..., None]] = {
    "preview": preview,
    "pretrain": pretrain,
    "evaluate": evaluate,
    "embed": embed,
    "export": export,
    "neighbours": neighbours,
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
            settings = _starting_settings(arguments[1:])
            command = functools.partial(pretrain, settings=settings)
        app.command(name=name)(command)
    app.cli(prog="coviews", description=f"{coviews.__doc__} (--version tells which this is.)", args=arguments)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)


def _check_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise CoviewsError(f"--{name} must be {low} to {high}, not {value}")


def _captions(images: ImageSet, shown: NDArray[np.int64]) -> list[str]:
    if images.labels is not None and images.classes is not None:
        return [images.classes[label] for label in images.labels[shown]]
    return [Path(images.names[i]).name for i in shown] if images.names else [""] * len(shown)
