"""`embed`: the features of images as one file, with their names and labels; and a map of them."""

import hashlib
import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from coviews.console.option_types import EmbedKeywords
from coviews.console.options import replaced
from coviews.console.progress import LateBar
from coviews.data.load import ImageSet
from coviews.encoders.features import Features, feature_batches, features
from coviews.encoders.images import encoder_images, move_to_device, normalisation, short_name
from coviews.encoders.open import OpenedEncoder, open_encoder
from coviews.features.feature_options import EmbedOptions
from coviews.features.map import MAP_POINTS, check_map, feature_map
from coviews.features.parts import FeatureParts
from coviews.features.store import check_feature_file, read_features, write_features
from coviews.files.atomic import remove_partial_of
from coviews.ops.images import Images
from coviews.pictures.drawing import check_picture, save_picture


@dataclass(frozen=True, eq=False)
class Embedding:
    """Features of images, with the labels and names of the images."""

    shape: tuple[int, int]  # (N, D) of the features
    labels: NDArray[np.int64] | None  # (N,), indices into classes
    classes: tuple[str, ...] | None
    names: tuple[str, ...] | None  # the files, relative to the folder
    path: Path | None  # the file that was written
    in_memory: Features | None = None  # if there is no file

    @cached_property
    def features(self) -> Features:
        """(N, D); read from the file on first use."""
        if self.in_memory is not None:
            return self.in_memory
        assert self.path is not None
        return read_features(self.path)

    def __repr__(self) -> str:
        where = "" if self.path is None else f", in {self.path}"
        return f"Embedding({self.shape[0]:,} images, {self.shape[1]:,} features each{where})"


def embed(
    run: str | Path, data: Any = None, *, options: EmbedOptions | None = None, **changes: Unpack[EmbedKeywords]
) -> Embedding:
    """The features of images, in memory or in a file; if interrupted, a later call continues the file.

    Args:
        run: the folder of a run, or anything that `open_encoder` takes.
        data: anything that `load_images` takes; by default the run's own images.
        options: all options; by default those of `EmbedOptions`: features are kept in memory.
        changes: single options, such as `out="features.npz"`.
    """
    options = replaced(options or EmbedOptions(), changes)
    batch_size, file = options.batch_size, None if options.out is None else Path(options.out)
    if file is not None:
        check_feature_file(file, options.overwrite)
    if options.map is not None:
        check_picture(Path(options.map))
        check_map(options.map_method)
    model = open_encoder(run, architecture=options.architecture, size=options.size, download=options.download)
    images = encoder_images(model, data, options)
    device, (mean, std) = move_to_device(model.encoder, options.device), normalisation(model, images)
    on_map = _on_map(len(images), options.seed)
    if file is None:
        in_memory = features(
            model.encoder, images.images, mean, std, batch=batch_size, device=device, progress=options.progress
        )
        embedding = Embedding(in_memory.shape, images.labels, images.classes, images.names, None, in_memory)
        mapped = in_memory[on_map]
    else:

        def encode(part: Images) -> Iterator[Features]:
            for batch in feature_batches(model.encoder, part, mean, std, batch=batch_size, device=device):
                yield batch.cpu().numpy()

        origin = {"encoder": _weights_hash(model.encoder, mean, std), "data": _data_hash(images)}
        with FeatureParts(_parts_folder(file), origin, images.images, _printer(options.progress)) as parts:
            remove_partial_of(file)
            with LateBar("features" if options.progress else "", len(images)) as bar:
                parts.fill(encode, bar.advance)
            width = next(iter(parts)).shape[1]
            write_features(file, parts, width, images, _about(model, images, mean, std, origin))
            mapped = parts.rows(on_map) if options.map is not None else np.empty((0, width), np.float32)
            parts.remove()
        embedding = Embedding((len(images), width), images.labels, images.classes, images.names, file)
    if options.map is not None:
        labels = None if images.labels is None else images.labels[on_map]
        title = short_name(run) if data is None else f"{short_name(run)} · {short_name(data)}"
        picture = feature_map(
            mapped, labels, images.classes, method=options.map_method, title=title, of=len(images), seed=options.seed,
            progress=options.progress,
        )  # fmt: skip
        save_picture(picture, Path(options.map))
    return embedding


def _on_map(n: int, seed: int) -> NDArray[np.int64]:
    """The indices of the images on the map, in rising order."""
    return np.sort(np.random.default_rng(seed).permutation(n)[:MAP_POINTS])


def _parts_folder(file: Path) -> Path:
    return file.with_name(f"{file.name}.parts")


def _weights_hash(encoder: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> str:
    """A hash of the weights and the normalisation."""
    digest = hashlib.sha256(repr((mean, std)).encode())
    for name, value in sorted(encoder.state_dict().items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _data_hash(images: ImageSet) -> str:
    """A hash of the data without the pixels; each part has a hash of its pixels."""
    digest = hashlib.sha256(repr((images.images.shape, images.images.dtype.name, images.classes)).encode())
    if images.labels is not None:
        digest.update(np.ascontiguousarray(images.labels).data)
    for name in images.names or ():
        digest.update(name.encode("utf-8", "backslashreplace") + b"\n")
    return digest.hexdigest()


def _about(
    model: OpenedEncoder, images: ImageSet, mean: tuple[float, ...], std: tuple[float, ...], origin: dict[str, str]
) -> dict[str, Any]:
    _, height, width, channels = images.images.shape
    return {
        "coviews": importlib.metadata.version("coviews"),
        "encoder": model.name,
        "encoder_hash": origin["encoder"],
        "image_size": [height, width],
        "channels": channels,
        "depth": images.depth,
        "values": images.values,
        "mean": list(mean),
        "std": list(std),
    }


def _printer(progress: bool) -> Callable[[str], None]:
    return (lambda text: print(text, file=sys.stderr, flush=True)) if progress else lambda text: None
