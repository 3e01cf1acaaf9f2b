"""From a source to one array: select, read headers, decode in threads, into memory or onto the disk."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coviews.console.progress import waiting
from coviews.data.cache import Stored, cache_key, draft, find_stored, in_words, memory_for_images
from coviews.data.imageset import Broken, ImageSet
from coviews.data.parallel import parallel_map
from coviews.data.picture_reader import Header, most_common_size, reason
from coviews.data.request import ImageRequest, listed
from coviews.data.source import Source
from coviews.errors import CoviewsError


def decode_images(source: Source, request: ImageRequest) -> ImageSet:
    """The requested images of a source, decoded; warnings are added to the request's notes."""
    indices = request.indices(source)
    with waiting(request.title("looking for decoded images")):
        identity = source.identity(indices)
    total = len(indices) + len(source.unreadable)
    if not total:
        raise CoviewsError(f"there is no image in {source.where}")
    key = None if identity is None else cache_key(identity, request.size, request.channels)
    stored = None if key is None else find_stored(request.cache, key)
    if stored is None:
        stored = _decoded(source, indices, request, key)

    broken = _broken(source, indices, stored.failures)
    if not len(stored.images):
        if source.where.endswith(broken[0][0]):  # the source is a single image file
            raise CoviewsError(f"cannot read the image {source.where}: {broken[0][1]}")
        raise CoviewsError(f"there is no readable image in {source.where}: {listed(broken)}")
    request.check_broken(broken, total, source.where)
    if broken:
        request.notes.append(f"{len(broken)} broken and skipped in {source.where}: {listed(broken)}")
    if stored.resized and request.size is None:
        height, width = stored.images.shape[1:3]
        request.notes.append(
            f"{stored.resized} of {len(indices)} images are not of the most common size, {height} x {width}: "
            "they are resized and cropped to it (give a size to choose another)"
        )
    readable = np.delete(indices, list(stored.failures))
    labels = source.labels_of(readable)
    return ImageSet(
        stored.images,
        None if labels is None else labels.values,
        None if labels is None else labels.classes,
        None if source.names is None else tuple(source.names[i] for i in readable.tolist()),
        tuple(broken),
    )


def _decoded(source: Source, indices: NDArray[np.int64], request: ImageRequest, key: str | None) -> Stored:
    """Decode images to one size and number of channels; the headers come first, to find out which."""
    headers = source.headers(indices, request.title("looking at images"))
    failures = {place: header for place, header in enumerate(headers) if isinstance(header, str)}
    known = [header for header in headers if isinstance(header, Header)]
    if not known:
        return Stored(np.empty((0, 1, 1, 1), np.uint8), failures, 0)
    request.check_broken(_broken(source, indices, failures), len(indices) + len(source.unreadable), source.where)
    height, width = request.size or most_common_size(known)
    channels = request.channels or (1 if all(header.grey for header in known) else 3)
    shape = len(indices) - len(failures), height, width, channels
    need = int(np.prod(shape, dtype=np.int64))
    memory = memory_for_images() if request.memory is None else request.memory
    title = request.title("decoding images")
    if memory is None or need <= memory:
        return _filled(source, indices, failures, np.empty(shape, np.uint8), title)
    with draft(request.cache, key, shape) as file:
        stored = _filled(source, indices, failures, file.images, title)
        if not len(stored.images):
            return stored  # there is nothing to store
        stored = file.finished(stored)
    request.notes.append(_on_disk(need, memory, request.cache, key))
    return stored


def _filled(
    source: Source, indices: NDArray[np.int64], failures: dict[int, str], images: NDArray[np.uint8], title: str
) -> Stored:
    """Decode into an array with room for all images that have not failed yet; those that fail leave no gap."""
    height, width, channels = images.shape[1:]
    places = [place for place in range(len(indices)) if place not in failures]

    def decode(row: int) -> str | bool:
        try:
            images[row], resized = source.read(int(indices[places[row]]), height, width, channels)
        except CoviewsError:
            raise
        except Exception as error:  # decoders of damaged files raise anything
            return reason(error)
        return resized

    results = parallel_map(decode, range(len(places)), title, in_threads=source.in_threads)
    good = [row for row, result in enumerate(results) if not isinstance(result, str)]
    for to, of in enumerate(good):
        if to != of:  # in place: a copy might not fit into memory
            images[to] = images[of]
    late = {places[row]: result for row, result in enumerate(results) if isinstance(result, str)}
    return Stored(images[: len(good)], {**failures, **late}, sum(result is True for result in results))


def _broken(source: Source, indices: NDArray[np.int64], failures: dict[int, str]) -> list[Broken]:
    names = source.names
    named = [
        (f"item {indices[place]}" if names is None else names[indices[place]], failures[place]) for place in failures
    ]
    return [*source.unreadable, *named]


def _on_disk(need: int, memory: int, cache: Path, key: str | None) -> str:
    again = "the next load finds them there" if key else "until the process ends"
    return (
        f"the images need {in_words(need)}, more than the {in_words(memory)} of memory for them: "
        f"they are decoded into {cache}, {again}"
    )
