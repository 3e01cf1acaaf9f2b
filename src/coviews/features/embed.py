"""`embed`: the features of images as one file, with what is known of them; and a map of them."""

import hashlib
import importlib.metadata
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from coviews.console.progress import LateBar
from coviews.data.load import ImageSet
from coviews.encoders.features import Features, feature_batches, features
from coviews.encoders.images import move_to_device, normalisation, run_images
from coviews.encoders.open import OpenedEncoder, open_encoder
from coviews.errors import CoviewsError
from coviews.features.map import MAP_POINTS, check_map, feature_map
from coviews.features.parts import FeatureParts
from coviews.features.store import check_feature_file, read_features, write_features
from coviews.ops.images import Images
from coviews.pictures.drawing import check_picture, save_picture


@dataclass(frozen=True, eq=False)
class Embedding:
    """Features of images, and what is known of these."""

    shape: tuple[int, int]  # of the features: images, and features of each
    labels: NDArray[np.int64] | None  # (N,), indices into classes
    classes: tuple[str, ...] | None
    names: tuple[str, ...] | None  # the files, relative to the folder
    path: Path | None  # the file that was written
    held: Features | None = None  # where there is no file

    @cached_property
    def features(self) -> Features:
        """(N, D); those in a file are read when they are asked for."""
        if self.held is not None:
            return self.held
        assert self.path is not None
        return read_features(self.path)


def embed(
    run: str | Path,
    data: Any = None,
    *,
    out: str | Path | None = None,
    map: str | Path | None = None,
    map_method: str = "pca",
    overwrite: bool = False,
    size: int | None = None,
    subset: str | int | None = None,
    data_root: str | Path | None = None,
    download: bool = False,
    cache: str | Path | None = None,
    architecture: str | None = None,
    batch_size: int = 256,
    device: str = "auto",
    seed: int = 0,
    progress: bool = True,
) -> Embedding:
    """The features of images: in memory, or in a file, which a later call goes on with if this one is cut off.

    Args:
        run: the folder of a run, or whatever `open_encoder` takes.
        data: anything that `load_images` takes; by default the run's own images.
        out: the file to write, .npz or .parquet; the memory that is needed does not grow with the number of images.
        map: a picture to draw, a dot for each image.
        map_method: how features become two numbers: "pca" or "umap".
        overwrite: replace a file that is there.
        size: the side of the images, if not that of the encoder's training.
        subset: only so many images, 5000 or "10%".
        data_root: where known sets are.
        download: fetch what is not there: a known set, or the published weights of an encoder that is a name.
        cache: where images that do not fit into memory are kept decoded.
        architecture: the name of the encoder, for a state dict from elsewhere.
        batch_size: how many images pass the encoder at once.
        device: auto, cpu, cuda or mps.
        seed: chooses the images on the map where there are too many, and starts UMAP.
        progress: show what is going on.
    """
    file = None if out is None else Path(out)
    if file is not None:
        check_feature_file(file, overwrite)
    if map is not None:
        check_picture(Path(map))
        check_map(map_method)
    if batch_size < 1:
        raise CoviewsError(f"--batch-size must be at least 1, not {batch_size}")
    opened = open_encoder(run, architecture=architecture, size=size, download=download)
    images = run_images(
        opened, data, size=size, subset=subset, root=data_root, download=download, cache=cache, progress=progress
    )
    where, (mean, std) = move_to_device(opened.encoder, device), normalisation(opened, images)
    chosen = _chosen(len(images), seed)
    if file is None:
        held = features(opened.encoder, images.images, mean, std, batch=batch_size, device=where, progress=progress)
        made = Embedding(held.shape, images.labels, images.classes, images.names, None, held)
        some = held[chosen]
    else:

        def encode(part: Images) -> Iterator[Features]:
            for batch in feature_batches(opened.encoder, part, mean, std, batch=batch_size, device=where):
                yield batch.cpu().numpy()

        made_from = {"encoder": _weights_hash(opened.encoder, mean, std), "data": _data_hash(images)}
        with FeatureParts(_parts_folder(file), made_from, images.images, _teller(progress)) as parts:
            with LateBar("features" if progress else "", len(images)) as bar:
                parts.fill(encode, bar.advance)
            width = next(iter(parts)).shape[1]
            write_features(file, parts, width, images, _about(opened, images, mean, std, made_from))
            some = parts.rows(chosen) if map is not None else np.empty((0, width), np.float32)
            parts.remove()
        made = Embedding((len(images), width), images.labels, images.classes, images.names, file)
    if map is not None:
        labels = None if images.labels is None else images.labels[chosen]
        title = _named(run) if data is None else f"{_named(run)} · {_named(data)}"
        picture = feature_map(
            some, labels, images.classes, method=map_method, title=title, of=len(images), seed=seed, progress=progress
        )
        save_picture(picture, Path(map))
    return made


def _chosen(n: int, seed: int) -> NDArray[np.int64]:
    """The images that are on a map, in rising order."""
    return np.sort(np.random.default_rng(seed).permutation(n)[:MAP_POINTS])


def _parts_folder(file: Path) -> Path:
    return file.with_name(f"{file.name}.parts")


def _weights_hash(encoder: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> str:
    """Another one if a weight, or what images are normalised with, is another one."""
    digest = hashlib.sha256(repr((mean, std)).encode())
    for name, value in sorted(encoder.state_dict().items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _data_hash(images: ImageSet) -> str:
    """Of all but the pixels, which each part has a hash of."""
    digest = hashlib.sha256(repr((images.images.shape, images.classes)).encode())
    if images.labels is not None:
        digest.update(np.ascontiguousarray(images.labels).data)
    for name in images.names or ():
        digest.update(name.encode("utf-8", "backslashreplace") + b"\n")
    return digest.hexdigest()


def _about(
    opened: OpenedEncoder, images: ImageSet, mean: tuple[float, ...], std: tuple[float, ...], made_from: dict[str, str]
) -> dict[str, Any]:
    _, height, width, channels = images.images.shape
    return {
        "coviews": importlib.metadata.version("coviews"),
        "encoder": opened.name,
        "encoder_hash": made_from["encoder"],
        "image_size": [height, width],
        "channels": channels,
        "mean": list(mean),
        "std": list(std),
    }


def _teller(wanted: bool) -> Any:
    return (lambda text: print(text, file=sys.stderr, flush=True)) if wanted else lambda text: None


def _named(what: Any) -> str:
    return Path(what).name or str(what) if isinstance(what, str | Path) else type(what).__name__
