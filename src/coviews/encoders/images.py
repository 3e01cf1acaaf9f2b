"""The images that an encoder is used on: its run's own data or others, in the size and colours that it takes."""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from coviews.data.image_reader import extensions, read_header
from coviews.data.levels import MAX_PIXELS, range_text
from coviews.data.load import ImageSet, load_images
from coviews.encoders.architectures import check_encoder
from coviews.encoders.encoder_options import EncoderOptions
from coviews.encoders.open import OpenedEncoder
from coviews.errors import CoviewsError, unknown
from coviews.ops.images import channel_statistics
from coviews.runs.folder import Run
from coviews.runs.settings import FROM_PYTHON, PretrainSettings

ELSEWHERE = "go to the folder in which the run was started, or give other images by --data"  # its paths are relative


def encoder_images(model: OpenedEncoder, data: Any, options: EncoderOptions) -> ImageSet:
    """Images in the size and colours that the encoder takes.

    Args:
        model: the encoder.
        data: anything that `load_images` takes; None for the data that its run was trained on.
        options: the size, if not the encoder's; the subset, if not the run's; where the data are.
    """
    own, settings, subset, subset_seed = data is None, run_settings(model), options.subset, 0
    root, cache = options.data_root, options.cache
    if own:
        data = own_data(model)
    if settings is not None:
        root, cache = root or settings.data_root, cache or settings.cache
        if own:
            subset, subset_seed = settings.subset if subset is None else subset, settings.subset_seed
    size = model.size if options.size is None else options.size
    places: dict[str, Any] = {"root": root or "data", "download": options.download, "cache": cache}
    places |= reading_of(model, options.frames)
    if not own and size is not None:
        _warn_if_fitted(data, (size, size) if isinstance(size, int) else size, model.channels, places)
    try:
        images = load_images(
            data, size=size, channels=model.channels, subset=subset, subset_seed=subset_seed,
            progress=options.progress, **places,
        )  # fmt: skip
    except CoviewsError as error:
        if not own:
            raise
        raise CoviewsError(f"cannot load the data of the run: {error}; {ELSEWHERE}") from error
    warn_if_shallow(model, images)
    _, height, width, channels = images.images.shape
    try:
        check_encoder(model.encoder, (height, width), channels, model.name)
    except CoviewsError as error:
        raise CoviewsError(f"{error}; --size sets the side of the images") from error
    return images


def reading_of(model: OpenedEncoder, frames: str | None = None) -> dict[str, Any]:
    """The options of `load_images` by which images are read as those of the encoder's training were.

    frames: how files of several pages are read, if not as in the run.
    """
    settings = run_settings(model)
    frames = frames or (None if settings is None else settings.frames)
    most = MAX_PIXELS if settings is None else settings.max_pixels
    return {"depth": model.depth, "values": model.values, "frames": frames, "max_pixels": most}


def warn_if_shallow(model: OpenedEncoder, images: ImageSet) -> None:
    """Warn if images of 8 bits are given to an encoder that was trained on deeper ones."""
    if model.values is not None and images.values is None:
        text = range_text(model.values, np.uint16).partition(" scaled")[0]
        warnings.warn(f"the encoder was trained on images with {text}, and these are plain 8-bit images", stacklevel=3)


def own_data(model: OpenedEncoder) -> str:
    """The data that the encoder's run was trained on, as in its settings; an error if they are not known."""
    settings = run_settings(model)
    if settings is None:
        raise CoviewsError(f"say which images: give --data, for {model.name} is not of a run that has some")
    if settings.data.startswith(FROM_PYTHON):
        raise CoviewsError(
            f"the run {model.run} was trained on data that came from Python ({settings.data}): "
            "give the images as --data"
        )
    return settings.data


def normalisation(model: OpenedEncoder, images: ImageSet) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and standard deviation of the encoder's training; those of the images if these are not known."""
    if model.normalisation is not None:
        return model.normalisation
    mean, std = channel_statistics(images.images)
    return tuple(mean), tuple(std)


def move_to_device(module: nn.Module, device: str = "auto") -> torch.device:
    """Move an encoder to a device; `auto` is a GPU if there is one."""
    available = ["cpu"]
    available += ["cuda"] if torch.cuda.is_available() else []
    available += ["mps"] if torch.backends.mps.is_available() else []
    kind = available[-1] if device == "auto" else device
    if kind.partition(":")[0] not in available:
        if kind.partition(":")[0] not in ("cuda", "mps"):
            raise unknown("device", device, ("auto", "cpu", "cuda", "mps"))
        raise CoviewsError(f"there is no device {device!r} here: take --device cpu")
    try:
        module.to(kind)
    except (RuntimeError, AssertionError) as error:
        raise CoviewsError(f"cannot use --device {device}: {str(error).splitlines()[0]}") from error
    return torch.device(kind)


def run_settings(model: OpenedEncoder) -> PretrainSettings | None:
    """The settings of the encoder's run; None for an encoder from elsewhere."""
    if model.run is None or not (model.run / "config.yaml").is_file():
        return None
    return Run.open(model.run, writes=False).settings


def _warn_if_fitted(data: Any, size: tuple[int, int], channels: int | None, places: dict[str, Any]) -> None:
    """Warn if the first image does not have the size and colours that the encoder takes."""
    shape = _shape_of_one(data, places)
    if shape is None or (shape[:2] == size and channels in (None, shape[2])):
        return
    if channels not in (None, shape[2]) and {channels, shape[2]} != {1, 3}:
        return  # an error is raised when all images are loaded
    before, after = (f"{h} x {w}, {channels_text(c)}" for h, w, c in (shape, (*size, channels or shape[2])))
    warnings.warn(f"images that are {before}, are fitted to {after}, as the encoder takes them", stacklevel=3)


def _shape_of_one(data: Any, places: dict[str, Any]) -> tuple[int, int, int] | None:
    """The height, width and channels of the first image; None if they are not known, or do not matter."""
    if isinstance(data, ImageSet):
        data = data.images
    if isinstance(data, np.ndarray):
        return (*data.shape[1:3], data.shape[3] if data.ndim == 4 else 1) if data.ndim in (3, 4) else None
    if not isinstance(data, str | os.PathLike) or os.fspath(data).partition(":")[0] == "shapes":
        return None  # shapes are drawn in every size
    try:
        if os.path.isdir(data):  # without loading: that would look for all files
            header = _first_header(os.fspath(data))
            return None if header is None else (header.height, header.width, header.channels)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are shown when all images are loaded
            height, width, channels = load_images(data, limit=1, **{**places, "download": False}).images.shape[1:]
            return height, width, channels
    except (CoviewsError, OSError):
        return None  # the error is raised when all images are loaded


def channels_text(channels: int) -> str:
    """A number of channels in words."""
    return {1: "grey", 3: "colour"}.get(channels, f"{channels} channels")


def short_name(source: Any) -> str:
    """A run or data in a title: the last part of a path, or the type of an object."""
    return Path(source).name or str(source) if isinstance(source, str | Path) else type(source).__name__


def _first_header(folder: str) -> Any:
    for here, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            if os.path.splitext(name)[1].lower() in extensions() and not name.startswith("."):
                try:
                    with open(os.path.join(here, name), "rb") as file:
                        return read_header(file)
                except Exception:  # broken: try the next
                    continue
    return None
