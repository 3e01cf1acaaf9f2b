"""The images that an encoder is tried on: a run's own, or others, in the size and the colours that it takes."""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from coviews.data.load import ImageSet, load_images
from coviews.data.picture_reader import extensions, read_header
from coviews.encoders.architectures import check_encoder
from coviews.encoders.open import OpenedEncoder
from coviews.errors import CoviewsError, unknown
from coviews.ops.images import channel_statistics
from coviews.runs.folder import Run
from coviews.runs.settings import FROM_PYTHON, PretrainSettings


def run_images(
    opened: OpenedEncoder,
    data: Any = None,
    *,
    size: int | tuple[int, int] | None = None,
    subset: str | int | None = None,
    root: str | Path | None = None,
    download: bool = False,
    cache: str | Path | None = None,
    progress: bool = False,
) -> ImageSet:
    """Images as the encoder takes them; without `data` those that its run was trained on.

    Args:
        opened: the encoder; its image size and channels are the images'.
        data: anything that `load_images` takes.
        size: another size than that of the encoder's training; needed for most encoders from elsewhere.
        subset: only so many, 5000 or "10%"; by default all, and of a run's own data what the run took.
        root: where known sets are; by default as in the run, or `data`.
        download: fetch a known set that is not there.
        cache: where images that do not fit into memory are kept decoded; by default as in the run.
        progress: show a progress bar if it takes long.
    """
    own, settings, seed = data is None, _settings(opened), 0
    if own:
        data = own_data(opened)
    if settings is not None:
        root, cache = root or settings.data_root, cache or settings.cache
        if own:
            subset, seed = settings.subset if subset is None else subset, settings.subset_seed
    wanted = opened.size if size is None else size
    options: dict[str, Any] = {"root": root or "data", "download": download, "cache": cache}
    if not own and wanted is not None:
        _say_if_fitted(data, (wanted, wanted) if isinstance(wanted, int) else wanted, opened.channels, options)
    try:
        images = load_images(
            data, size=wanted, channels=opened.channels, subset=subset, subset_seed=seed, progress=progress, **options
        )
    except CoviewsError as error:
        if not own:
            raise
        raise CoviewsError(f"cannot load the run's own data: {error}; or give others as --data") from error
    _, height, width, channels = images.images.shape
    try:
        check_encoder(opened.encoder, (height, width), channels, opened.name)
    except CoviewsError as error:
        raise CoviewsError(f"{error}; --size sets the side of the images") from error
    return images


def own_data(opened: OpenedEncoder) -> str:
    """What the encoder's run was trained on, as its settings call it; an error if that cannot be found again."""
    settings = _settings(opened)
    if settings is None:
        raise CoviewsError(f"say which images: give --data, for {opened.name} is not of a run that has some")
    if settings.data.startswith(FROM_PYTHON):
        raise CoviewsError(
            f"the run {opened.run} was trained on data that came from Python ({settings.data}): "
            "give the images as --data"
        )
    return settings.data


def normalisation(opened: OpenedEncoder, images: ImageSet) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation that the encoder is used to; those of the images if nothing is known."""
    if opened.normalisation is not None:
        return opened.normalisation
    mean, std = channel_statistics(images.images)
    return tuple(mean), tuple(std)


def move_to_device(module: nn.Module, device: str = "auto") -> torch.device:
    """Put an encoder where it computes: on the GPU if there is one, or where it is wanted."""
    there = ["cpu"]
    there += ["cuda"] if torch.cuda.is_available() else []
    there += ["mps"] if torch.backends.mps.is_available() else []
    kind = there[-1] if device == "auto" else device
    if kind.partition(":")[0] not in there:
        if kind.partition(":")[0] not in ("cuda", "mps"):
            raise unknown("device", device, ("auto", "cpu", "cuda", "mps"))
        raise CoviewsError(f"there is no device {device!r} here: take --device cpu")
    try:
        module.to(kind)
    except (RuntimeError, AssertionError) as error:
        raise CoviewsError(f"cannot use --device {device}: {str(error).splitlines()[0]}") from error
    return torch.device(kind)


def _settings(opened: OpenedEncoder) -> PretrainSettings | None:
    """Those of the run that the encoder is of."""
    if opened.run is None or not (opened.run / "config.yaml").is_file():
        return None
    return Run.open(opened.run, writes=False).settings


def _say_if_fitted(data: Any, size: tuple[int, int], channels: int | None, options: dict[str, Any]) -> None:
    """Warn where images are not of the size and colours that are wanted, by a look at one of them."""
    shape = _shape_of_one(data, options)
    if shape is None or (shape[:2] == size and channels in (None, shape[2])):
        return
    now, then = (f"{h} x {w}, {'grey' if c == 1 else 'colour'}" for h, w, c in (shape, (*size, channels or shape[2])))
    warnings.warn(f"images that are {now}, are fitted to {then}, as the encoder takes them", stacklevel=3)


def _shape_of_one(data: Any, options: dict[str, Any]) -> tuple[int, int, int] | None:
    """Height, width and channels of the first image; None where it cannot be said, or does not matter."""
    if isinstance(data, ImageSet):
        data = data.images
    if isinstance(data, np.ndarray):
        return (*data.shape[1:3], data.shape[3] if data.ndim == 4 else 1) if data.ndim in (3, 4) else None
    if not isinstance(data, str | os.PathLike) or os.fspath(data).partition(":")[0] == "shapes":
        return None  # shapes are drawn in the size that is wanted
    try:
        if os.path.isdir(data):  # not by loading: that looks for all of them
            header = _first_header(os.fspath(data))
            return None if header is None else (header.height, header.width, 1 if header.grey else 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they come when all are loaded
            height, width, channels = load_images(data, limit=1, **{**options, "download": False}).images.shape[1:]
            return height, width, channels
    except (CoviewsError, OSError):
        return None  # what is wrong is said when all are loaded


def _first_header(folder: str) -> Any:
    for here, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            if os.path.splitext(name)[1].lower() in extensions() and not name.startswith("."):
                try:
                    with open(os.path.join(here, name), "rb") as file:
                        return read_header(file)
                except Exception:  # a broken one: the next
                    continue
    return None
