"""From a source to one array: select, read headers, decode in threads, into memory or onto the disk."""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.console.progress import waiting
from coviews.data.cache import Stored, cache_key, draft, find_stored, in_words, memory_for_images
from coviews.data.imageset import Broken, ImageSet
from coviews.data.levels import Target, ValueRange, range_text, some_pixels, value_range
from coviews.data.parallel import parallel_map
from coviews.data.picture_reader import Header, most_common_size, reason
from coviews.data.request import ImageRequest, listed
from coviews.data.source import Source
from coviews.errors import CoviewsError

_Read = Callable[[int, Target], tuple[NDArray[Any], bool]]
_SAMPLED = 200  # images whose values are the range of all
_LARGE = 64 * 2**20  # bytes of the pixels of an image


def decode_images(source: Source, request: ImageRequest) -> ImageSet:
    """The requested images of a source, decoded; warnings are added to the request's notes."""
    indices = request.indices(source)
    with waiting(request.title("looking for decoded images")):
        identity = source.identity(indices)
    total = len(indices) + len(source.unreadable)
    if not total:
        raise CoviewsError(f"there is no image in {source.where}")
    key = (
        None
        if identity is None
        else cache_key(
            identity, request.size, request.channels, request.depth, request.values,
            *request.limits,
        )
    )  # fmt: skip
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
    height, width = stored.images.shape[1:3]
    reduced = max(height, width) == request.max_side and stored.resized == len(stored.images)
    if stored.resized and request.size is None and not reduced:
        request.notes.append(
            f"{stored.resized} of {len(indices)} images are not of the most common size, {height} x {width}: "
            "they are resized and cropped to it (give a size to choose another)"
        )
    if stored.values is not None and request.values is None:
        request.remarks.append(_range_remark(stored.values, stored.images.dtype))
    readable = np.delete(indices, list(stored.failures))
    labels = source.labels_of(readable)
    return ImageSet(
        stored.images,
        None if labels is None else labels.values,
        None if labels is None else labels.classes,
        None if source.names is None else tuple(source.names[i] for i in readable.tolist()),
        tuple(broken),
        stored.values,
        tuple(request.remarks),
    )


def _decoded(source: Source, indices: NDArray[np.int64], request: ImageRequest, key: str | None) -> Stored:
    """Decode images to one size and number of channels; the headers come first, to find out which."""
    headers = [
        header.within(request.max_pixels) if isinstance(header, Header) else header
        for header in source.headers(indices, request.title("looking at images"))
    ]
    failures = {place: header for place, header in enumerate(headers) if isinstance(header, str)}
    known = [header for header in headers if isinstance(header, Header)]
    if not known:
        return Stored(np.empty((0, 1, 1, 1), np.uint8), failures, 0)
    request.check_broken(_broken(source, indices, failures), len(indices) + len(source.unreadable), source.where)
    request.remarks.extend(_remarks(known))
    large = [place for place, header in enumerate(headers) if isinstance(header, Header) and header.bytes > _LARGE]
    read = _one_large_at_once(source.read, set(indices[large].tolist()))
    common = most_common_size(known)
    height, width = request.size_for(common)
    if request.size is None and (height, width) != common:
        request.remarks.append(
            f"images of {common[0]} x {common[1]} pixels are scaled down to {height} x {width}; another size: "
            f"--size {2 * max(height, width)}"
        )
    channels = _channels(known, request.channels, source.where)
    target = Target(height, width, channels, max_pixels=request.max_pixels)
    depths = {header.depth for header in known}
    if depths != {8}:
        target = target._replace(dtype=np.uint8 if request.depth == 8 else np.uint16)
    if None in depths:
        deep = [place for place, header in enumerate(headers) if isinstance(header, Header) and header.depth is None]
        target = target._replace(values=_range(source, read, indices[deep], target, request))
    shape = len(indices) - len(failures), *target.shape
    need = int(np.prod(shape, dtype=np.int64)) * np.dtype(target.dtype).itemsize
    memory = memory_for_images() if request.memory is None else request.memory
    title = request.title("decoding images")
    if memory is None or need <= memory:
        return _filled(source, read, indices, failures, np.empty(shape, target.dtype), target, title)
    with draft(request.cache, key, shape, target.dtype) as file:
        stored = _filled(source, read, indices, failures, file.images, target, title)
        if not len(stored.images):
            return stored  # there is nothing to store
        stored = file.finished(stored)
    request.notes.append(_on_disk(need, memory, request.cache, key))
    return stored


def _channels(headers: Sequence[Header], wanted: int | None, where: str) -> int:
    """The number of channels of all images; by default grey ones among coloured ones become coloured."""
    counts = Counter(header.channels for header in headers)
    if wanted is not None:
        if not any(count == wanted or {count, wanted} == {1, 3} for count in counts):
            kinds = " or ".join(str(count) for count in sorted(counts))
            noun = "channel" if kinds == "1" else "channels"
            raise CoviewsError(f"the images in {where} have {kinds} {noun}, and {wanted} are needed")
        return wanted
    if len(counts) > 1 and set(counts) != {1, 3}:
        kinds = ", ".join(f"{n:,} with {channels}" for channels, n in counts.most_common())
        raise CoviewsError(
            f"the images in {where} have different numbers of channels ({kinds}): put them into folders of their own"
        )
    return max(counts)


def _one_large_at_once(read: _Read, large: set[int]) -> _Read:
    """The same function, for many threads: an image that takes much memory waits until the one before is done."""
    turn = threading.Lock()

    def read_in_turn(index: int, target: Target) -> tuple[NDArray[Any], bool]:
        with turn if index in large else contextlib.nullcontext():
            return read(index, target)

    return read_in_turn


def _range(
    source: Source, read: _Read, indices: NDArray[np.int64], target: Target, request: ImageRequest
) -> ValueRange:
    """The range of the values of some of these images, or the range that was given."""
    if request.values is not None:
        ranges = set(request.values)
        if len(request.values) != target.channels and len(ranges) > 1:
            raise CoviewsError(
                f"the images in {source.where} have {target.channels} channels, and there are ranges of values for "
                f"{len(request.values)}"
            )
        return request.values if len(request.values) == target.channels else request.values[:1] * target.channels
    count = min(len(indices), _SAMPLED)
    sample = indices[np.arange(count) * len(indices) // count]
    as_they_are = target._replace(dtype=np.float32)

    def values(index: int) -> tuple[NDArray[Any], bool] | None:
        try:
            image = read(index, as_they_are)[0]
            return some_pixels(image), bool(np.isfinite(image).all())
        except CoviewsError:
            raise
        except Exception:  # it is found to be broken when all are decoded
            return None

    title = request.title("finding the range of values")
    samples = parallel_map(values, sample.tolist(), title, in_threads=source.in_threads)
    known = [sample for sample in samples if sample is not None]
    incomplete = sum(not finite for _, finite in known)
    if incomplete:
        request.notes.append(
            f"{incomplete} of {len(known)} images that were looked at in {source.where} have values that are not "
            "finite (NaN): they become the lowest value"
        )
    return value_range([pixels for pixels, _ in known]) if known else ((0.0, 0.0),) * target.channels


def _range_remark(values: ValueRange, dtype: Any) -> str:
    if all(low == high for low, high in values):
        return f"all values are {values[0][0]:g}: the images show nothing"
    return range_text(values, dtype)


def _remarks(headers: Sequence[Header]) -> list[str]:
    """What is said of the files: once for each kind, with their number."""
    counts = Counter(header.remark for header in headers if header.remark)
    return [f"{n:,} file{'s' if n > 1 else ''}: {remark}" for remark, n in counts.most_common(3)]


def _filled(
    source: Source,
    read: _Read,
    indices: NDArray[np.int64],
    failures: dict[int, str],
    images: NDArray[Any],
    target: Target,
    title: str,
) -> Stored:
    """Decode into an array with room for all images that have not failed yet; those that fail leave no gap."""
    places = [place for place in range(len(indices)) if place not in failures]

    def decode(row: int) -> str | bool:
        try:
            images[row], resized = read(int(indices[places[row]]), target)
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
    resized = sum(result is True for result in results)
    return Stored(images[: len(good)], {**failures, **late}, resized, target.values)


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
