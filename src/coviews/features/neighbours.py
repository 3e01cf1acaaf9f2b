"""`neighbours`: the images that an encoder finds most similar to some queries, on a sheet."""

import functools
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from coviews.console.option_types import NeighboursKeywords
from coviews.console.options import replaced
from coviews.data.imageset import varied
from coviews.data.load import ImageSet, load_images
from coviews.data.shown_channels import Shown, picture_levels, shown_channels, shown_text
from coviews.encoders.features import features
from coviews.encoders.images import encoder_images, move_to_device, normalisation, own_data, run_settings, short_name
from coviews.encoders.open import open_encoder
from coviews.errors import CoviewsError
from coviews.evaluation.knn import nearest
from coviews.features.feature_options import NeighboursOptions
from coviews.pictures.drawing import check_picture, save_picture
from coviews.pictures.neighbour_sheet import Neighbour, NeighbourRow, neighbour_sheet

AT_RANDOM = 6  # queries if none are given
MOST_ROWS = 30  # queries on one sheet


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest images of each query, nearest first."""

    indices: NDArray[np.int64]  # (M, count), into the images
    similarities: NDArray[np.float32]  # (M, count), cosines
    queries: tuple[str, ...]  # their names
    images: ImageSet
    path: Path | None  # of the sheet

    def __repr__(self) -> str:
        queries, count = self.indices.shape
        return f"Neighbours({queries:,} queries, {count} nearest each of {self.images!r})"


def neighbours(
    run: str | Path,
    data: Any = None,
    *,
    options: NeighboursOptions | None = None,
    **changes: Unpack[NeighboursKeywords],
) -> Neighbours:
    """The images most similar to some queries, by the cosine of their features, and a sheet of them.

    An image is never its own neighbour.

    Args:
        run: the folder of a run, or anything that `open_encoder` takes.
        data: the images to search, anything that `load_images` takes; by default the run's own.
        options: all options; by default those of `NeighboursOptions`: no sheet is written.
        changes: single options, such as `query="photo.jpg"`.
    """
    options = replaced(options or NeighboursOptions(), changes)
    query: Any = options.query  # a single path is accepted as well
    paths = [query] if isinstance(query, str | os.PathLike) else list(query)
    if options.out is not None:
        check_picture(Path(options.out))
    for path in paths:
        if not os.path.exists(path):
            raise CoviewsError(f"there is no image {path}: --query takes image files and folders of them")
    model = open_encoder(run, architecture=options.architecture, size=options.size, download=options.download)
    settings = run_settings(model)
    show = options.show_channels or (settings.show_channels if settings is not None else None)
    images = encoder_images(model, data, options)
    shown = shown_channels(show, images.images.shape[3])
    if paths:
        frames = options.frames or (settings.frames if settings is not None else None)
        queries, files = _read_queries(paths, images, frames)
        source = own_data(model) if data is None else data
        own = [_place_of(file, source, images) for file in files]
    else:
        own = varied(images, AT_RANDOM, np.random.default_rng(options.seed)).tolist()
        queries = images.subset(own)
    _check_count(options.count, len(images), any(place is not None for place in own))

    encode = functools.partial(
        features, model.encoder, batch=options.batch_size, device=move_to_device(model.encoder, options.device)
    )
    mean, std = normalisation(model, images)
    bank = encode(images.images, mean, std, progress=options.progress)
    nearest_ones = nearest(bank, encode(queries.images, mean, std), min(options.count + 1, len(images)))
    indices, similarities = without_own(*nearest_ones, own, options.count)
    lines = [image_lines(queries, i) if place is None else image_lines(images, place) for i, place in enumerate(own)]
    result = Neighbours(indices, similarities, tuple(text[-1] for text in lines), images, None)
    if options.out is None:
        return result
    among = f"among {len(images):,} images" + (f" of {short_name(data)}" if data is not None else "")
    note = f"the number is the cosine similarity of the encoder's features, {among}"
    sheet = neighbour_sheet(
        [neighbour_row(result, i, queries.images[i], lines[i], place, shown) for i, place in enumerate(own)],
        title=f"{short_name(run)} · nearest neighbours",
        note="; ".join(filter(None, (note, shown_text(show, images.images.shape[3])))),
    )
    save_picture(sheet, Path(options.out))
    return replace(result, path=Path(options.out))


def _read_queries(
    paths: Sequence[str | os.PathLike[str]], images: ImageSet, frames: str | None
) -> tuple[ImageSet, list[Path]]:
    """The queries, fitted to the size and colours of the images, and the files they come from."""
    _, height, width, channels = images.images.shape
    pixels: list[NDArray[Any]] = []
    files: list[Path] = []
    for path in paths:
        folder = Path(path) if os.path.isdir(path) else Path(path).parent
        with warnings.catch_warnings():
            if not os.path.isdir(path):
                warnings.simplefilter("ignore")
            loaded = load_images(
                os.path.join(".", path), size=(height, width), channels=channels, limit=MOST_ROWS, depth=images.depth,
                values=images.values, frames=frames,
            )  # fmt: skip
        if loaded.names is None:
            raise CoviewsError(f"{path} is no image: --query takes image files and folders of them")
        pixels += list(loaded.images)
        files += [folder / name for name in loaded.names]
    if len(files) > MOST_ROWS:
        raise CoviewsError(f"a sheet has room for {MOST_ROWS} queries, not {len(files)}: give fewer")
    return ImageSet(np.stack(pixels), names=tuple(str(file) for file in files)), files


def _place_of(file: Path, data: Any, images: ImageSet) -> int | None:
    """The index of a query among the images, if it is one of their files."""
    if images.names is None or not isinstance(data, str | os.PathLike):
        return None
    folder = os.path.realpath(data if os.path.isdir(data) else Path(data).parent)
    name = os.path.relpath(os.path.realpath(file), folder).replace(os.sep, "/")
    return images.names.index(name) if name in images.names else None


def _check_count(count: int, n: int, without_own: bool) -> None:
    most = n - without_own
    if count > most:
        besides = " besides the image itself" if without_own else ""
        raise CoviewsError(f"--count {count} is more than the {most} images that there are{besides}: give fewer")


def without_own(
    indices: NDArray[np.int64], similarities: NDArray[np.float32], own: list[int | None], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The first `count` of each row that are not the query itself."""
    places = np.array([-1 if place is None else place for place in own])
    # the query itself is sorted to the end, the others stay in order
    order = np.argsort(indices == places[:, None], axis=1, kind="stable")[:, :count]
    return np.take_along_axis(indices, order, 1), np.take_along_axis(similarities, order, 1)


def neighbour_row(
    result: Neighbours,
    i: int,
    pixels: NDArray[Any],
    lines: tuple[str, ...],
    place: int | None,
    shown: Shown | None = None,
) -> NeighbourRow:
    """The row of query `i` on the sheet; its class is known if it is one of the images, at `place`."""
    images, labels = result.images, result.images.labels
    tiles = []
    for j, similarity in zip(result.indices[i], result.similarities[i], strict=True):
        same = None if place is None or labels is None else bool(labels[j] == labels[place])
        pixels_of_one = picture_levels(images.images[j], shown)
        tiles.append(Neighbour(pixels_of_one, (f"{similarity:.3f}", *image_lines(images, int(j))), same))
    return NeighbourRow(Neighbour(picture_levels(pixels, shown), lines), tiles)


def image_lines(images: ImageSet, i: int) -> tuple[str, ...]:
    """The class and file name of an image, or its index."""
    lines = []
    if images.labels is not None and images.classes is not None:
        lines.append(images.classes[images.labels[i]])
    if images.names is not None:
        lines.append(Path(images.names[i]).name)
    return tuple(lines) or (f"image {i}",)
