"""From a source to one array: choose, look, decode in threads, into memory or onto the disk."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coviews.console.progress import waiting
from coviews.data.cache import Stored, cache_key, draft, find_stored, in_words, memory_for_images
from coviews.data.imageset import Broken, ImageSet
from coviews.data.parallel import mapped
from coviews.data.pictures import Header, most_common_size, reason
from coviews.data.request import Wanted, listed
from coviews.data.source import Source
from coviews.errors import CoviewsError


def read_source(source: Source, want: Wanted, notes: list[str]) -> ImageSet:
    """All images of a source that are wanted; what is worth a warning is added to the notes."""
    chosen = want.chosen(source)
    with waiting(want.title("looking for decoded images")):
        identity = source.identity(chosen)
    total = len(chosen) + len(source.unreadable)
    if not total:
        raise CoviewsError(f"there is no image in {source.where}")
    key = None if identity is None else cache_key(identity, want.size, want.channels)
    stored = None if key is None else find_stored(want.cache, key)
    if stored is None:
        stored = _decoded(source, chosen, want, key, notes)

    broken = _broken(source, chosen, stored.failures)
    if not len(stored.images):
        if source.where.endswith(broken[0][0]):  # one image was asked for by its name
            raise CoviewsError(f"cannot read the image {source.where}: {broken[0][1]}")
        raise CoviewsError(f"there is no readable image in {source.where}: {listed(broken)}")
    want.check_broken(broken, total, source.where)
    if broken:
        notes.append(f"{len(broken)} broken and skipped in {source.where}: {listed(broken)}")
    if stored.resized and want.size is None:
        height, width = stored.images.shape[1:3]
        notes.append(
            f"{stored.resized} of {len(chosen)} images are not of the most common size, {height} x {width}: "
            "they are resized and cropped to it (give a size to choose another)"
        )
    kept = np.delete(chosen, list(stored.failures))
    labels = source.labels_of(kept)
    return ImageSet(
        stored.images,
        None if labels is None else labels.values,
        None if labels is None else labels.classes,
        None if source.names is None else tuple(source.names[i] for i in kept.tolist()),
        tuple(broken),
    )


def _decoded(source: Source, chosen: NDArray[np.int64], want: Wanted, key: str | None, notes: list[str]) -> Stored:
    """Decode the chosen images to one size and number of channels; headers first, to know which."""
    headers = source.headers(chosen, want.title("looking at images"))
    failures = {place: header for place, header in enumerate(headers) if isinstance(header, str)}
    known = [header for header in headers if isinstance(header, Header)]
    if not known:
        return Stored(np.empty((0, 1, 1, 1), np.uint8), failures, 0)
    want.check_broken(_broken(source, chosen, failures), len(chosen) + len(source.unreadable), source.where)
    height, width = want.size or most_common_size(known)
    channels = want.channels or (1 if all(header.grey for header in known) else 3)
    shape = len(chosen) - len(failures), height, width, channels
    need = int(np.prod(shape, dtype=np.int64))
    memory = memory_for_images() if want.memory is None else want.memory
    title = want.title("decoding images")
    if memory is None or need <= memory:
        return _filled(source, chosen, failures, np.empty(shape, np.uint8), title)
    with draft(want.cache, key, shape) as paper:
        stored = _filled(source, chosen, failures, paper.images, title)
        if not len(stored.images):
            return stored  # nothing to keep
        stored = paper.finished(stored)
    notes.append(_on_disk(need, memory, want.cache, key))
    return stored


def _filled(
    source: Source, chosen: NDArray[np.int64], failures: dict[int, str], images: NDArray[np.uint8], title: str
) -> Stored:
    """Decode into an array that has room for all that have not failed yet; those that do fail leave no gap."""
    height, width, channels = images.shape[1:]
    places = [place for place in range(len(chosen)) if place not in failures]

    def decode(row: int) -> str | bool:
        try:
            images[row], resized = source.read(int(chosen[places[row]]), height, width, channels)
        except CoviewsError:
            raise
        except Exception as error:  # decoders of damaged files raise anything
            return reason(error)
        return resized

    results = mapped(decode, range(len(places)), title, in_threads=source.in_threads)
    good = [row for row, result in enumerate(results) if not isinstance(result, str)]
    for to, of in enumerate(good):
        if to != of:  # in place: a copy might not fit into the memory
            images[to] = images[of]
    late = {places[row]: result for row, result in enumerate(results) if isinstance(result, str)}
    return Stored(images[: len(good)], {**failures, **late}, sum(result is True for result in results))


def _broken(source: Source, chosen: NDArray[np.int64], failures: dict[int, str]) -> list[Broken]:
    names = source.names
    named = [
        (f"item {chosen[place]}" if names is None else names[chosen[place]], failures[place]) for place in failures
    ]
    return [*source.unreadable, *named]


def _on_disk(need: int, memory: int, cache: Path, key: str | None) -> str:
    again = "the next load finds them there" if key else "until the process ends"
    return (
        f"the images need {in_words(need)}, more than the {in_words(memory)} of memory for them: "
        f"they are decoded into {cache}, {again}"
    )
