"""`neighbours`: the images that an encoder finds most similar to some, on a sheet."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.data.choice import varied
from coviews.data.load import ImageSet, load_images
from coviews.encoders.features import features
from coviews.encoders.images import move_to_device, normalisation, own_data, run_images
from coviews.encoders.open import open_encoder
from coviews.errors import CoviewsError
from coviews.evaluation.knn import nearest
from coviews.pictures.drawing import check_picture, save_picture
from coviews.pictures.neighbour_sheet import Neighbour, NeighbourRow, neighbour_sheet

AT_RANDOM = 6  # queries if none are given
MOST_ROWS = 30  # queries on one sheet


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest images of each query, nearest first."""

    indices: NDArray[np.int64]  # (M, count), into the images
    similarities: NDArray[np.float32]  # (M, count), cosines
    queries: tuple[str, ...]  # what each is called
    images: ImageSet
    path: Path | None  # of the sheet


def neighbours(
    run: str | Path,
    data: Any = None,
    *,
    query: str | Path | Sequence[str | Path] = (),
    out: str | Path | None = None,
    count: int = 10,
    seed: int = 0,
    size: int | None = None,
    subset: str | int | None = None,
    data_root: str | Path | None = None,
    download: bool = False,
    cache: str | Path | None = None,
    architecture: str | None = None,
    device: str = "auto",
    progress: bool = True,
) -> Neighbours:
    """The images that are most similar to some, by the cosine of their features, and a sheet of them.

    Args:
        run: the folder of a run, or whatever `open_encoder` takes.
        data: among which images to look, anything that `load_images` takes; by default the run's own.
        query: image files or folders of them; without any, a few of the images at random. An image is never its own
            neighbour.
        out: the picture to write, if one is wanted.
        count: neighbours of each.
        seed: chooses the images, if none are given.
        size: the side of the images, if not that of the encoder's training.
        subset: look among so many only, 5000 or "10%".
        data_root: where known sets are.
        download: fetch what is not there: a known set, or the published weights of an encoder that is a name.
        cache: where images that do not fit into memory are kept decoded.
        architecture: the name of the encoder, for a state dict from elsewhere.
        device: auto, cpu, cuda or mps.
        progress: show what is going on.
    """
    asked = [query] if isinstance(query, str | os.PathLike) else list(query)
    if out is not None:
        check_picture(Path(out))
    if count < 1:
        raise CoviewsError(f"--count must be at least 1 neighbour, not {count}")
    for path in asked:
        if not os.path.exists(path):
            raise CoviewsError(f"there is no image {path}: --query takes image files and folders of them")
    opened = open_encoder(run, architecture=architecture, size=size, download=download)
    images = run_images(
        opened, data, size=size, subset=subset, root=data_root, download=download, cache=cache, progress=progress
    )
    if asked:
        queries, files = _read_queries(asked, images)
        source = own_data(opened) if data is None else data
        own = [_place_of(file, source, images) for file in files]
    else:
        own = varied(images, AT_RANDOM, np.random.default_rng(seed)).tolist()
        queries = images.subset(own)
    _check_count(count, len(images), any(place is not None for place in own))

    where, (mean, std) = move_to_device(opened.encoder, device), normalisation(opened, images)
    bank = features(opened.encoder, images.images, mean, std, device=where, progress=progress)
    found = features(opened.encoder, queries.images, mean, std, device=where)
    indices, similarities = without_own(*nearest(bank, found, min(count + 1, len(images))), own, count)
    named = [image_lines(queries, i) if place is None else image_lines(images, place) for i, place in enumerate(own)]
    made = Neighbours(indices, similarities, tuple(lines[-1] for lines in named), images, None)
    if out is None:
        return made
    among = f"among {len(images):,} images" + (f" of {_short(data)}" if data is not None else "")
    sheet = neighbour_sheet(
        [neighbour_row(made, i, queries.images[i], named[i], place) for i, place in enumerate(own)],
        title=f"{_short(run)} · nearest neighbours",
        note=f"the number is the cosine similarity of the encoder's features, {among}",
    )
    save_picture(sheet, Path(out))
    return replace(made, path=Path(out))


def _read_queries(asked: list[str | Path], images: ImageSet) -> tuple[ImageSet, list[Path]]:
    """The queries, fitted to the size and colours of the images, and the files they come from."""
    _, height, width, channels = images.images.shape
    pixels: list[NDArray[np.uint8]] = []
    files: list[Path] = []
    for path in asked:
        folder = Path(path) if os.path.isdir(path) else Path(path).parent
        with warnings.catch_warnings():
            if not os.path.isdir(path):
                warnings.simplefilter("ignore")
            read = load_images(os.path.join(".", path), size=(height, width), channels=channels, limit=MOST_ROWS)
        if read.names is None:
            raise CoviewsError(f"{path} is no image: --query takes image files and folders of them")
        pixels += list(read.images)
        files += [folder / name for name in read.names]
    if len(files) > MOST_ROWS:
        raise CoviewsError(f"a sheet has room for {MOST_ROWS} queries, not {len(files)}: give fewer")
    return ImageSet(np.stack(pixels), names=tuple(str(file) for file in files)), files


def _place_of(file: Path, data: Any, images: ImageSet) -> int | None:
    """Where a query is among the images, if it is one of their files."""
    if images.names is None or not isinstance(data, str | os.PathLike):
        return None
    folder = os.path.realpath(data if os.path.isdir(data) else Path(data).parent)
    name = os.path.relpath(os.path.realpath(file), folder).replace(os.sep, "/")
    return images.names.index(name) if name in images.names else None


def _check_count(count: int, n: int, without_one: bool) -> None:
    most = n - without_one
    if count > most:
        besides = " besides the image itself" if without_one else ""
        raise CoviewsError(f"--count {count} is more than the {most} images that there are{besides}: give fewer")


def without_own(
    indices: NDArray[np.int64], similarities: NDArray[np.float32], own: list[int | None], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The first `count` of each row that are not the query itself."""
    places = np.array([-1 if place is None else place for place in own])
    # what is to go comes last, the rest stays in order
    order = np.argsort(indices == places[:, None], axis=1, kind="stable")[:, :count]
    return np.take_along_axis(indices, order, 1), np.take_along_axis(similarities, order, 1)


def neighbour_row(
    made: Neighbours, i: int, pixels: NDArray[np.uint8], lines: tuple[str, ...], place: int | None
) -> NeighbourRow:
    """What is shown of query `i`; its class is known if it is one of the images, at `place`."""
    images, labels = made.images, made.images.labels
    beside = []
    for j, similarity in zip(made.indices[i], made.similarities[i], strict=True):
        same = None if place is None or labels is None else bool(labels[j] == labels[place])
        beside.append(Neighbour(images.images[j], (f"{similarity:.3f}", *image_lines(images, int(j))), same))
    return NeighbourRow(Neighbour(pixels, lines), beside)


def image_lines(images: ImageSet, i: int) -> tuple[str, ...]:
    """Class and file name of an image, or which one it is."""
    lines = []
    if images.labels is not None and images.classes is not None:
        lines.append(images.classes[images.labels[i]])
    if images.names is not None:
        lines.append(Path(images.names[i]).name)
    return tuple(lines) or (f"image {i}",)


def _short(what: Any) -> str:
    return Path(what).name or str(what) if isinstance(what, str | Path) else type(what).__name__
