"""Images that are decoded whenever they are needed, and never held all at once: neither in memory nor on a disk."""

import itertools
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.compat import cores
from coviews.data.arrays import ArrayImages
from coviews.data.class_labels import Labels
from coviews.data.decode import decode_images
from coviews.data.formats import open_data
from coviews.data.hugging_face import HuggingFaceImages
from coviews.data.imageset import Broken, ImageSet
from coviews.data.levels import Target
from coviews.data.packed_images import PackedImages
from coviews.data.picture_reader import Header, reason
from coviews.data.request import ImageRequest, listed
from coviews.data.source import Source
from coviews.data.stream_order import BUFFER, LANES, StreamOrder
from coviews.errors import CoviewsError

SAMPLED, _SAMPLED_BYTES = 5000, 256 * 2**20  # images of the sample that stands for all, and their bytes, at most
_TRIED = 64  # images that tell the size of all, before the sample is taken
_SAMPLED_SHARDS = 8  # that are fetched for the sample
_PIECES = 4  # of shards, in a lane's window, where shards need not be read as a whole
_SUBSTITUTES = 8  # images that are tried in place of a broken one
_MOST_BROKEN = 0.5  # of a batch: with more, it is not the images that are wrong
_NAMED = 10_000  # broken images that are remembered
_BLOCK = 8  # images of one task


class Stream:
    """Images by index, as from an array (N, H, W, C): `stream[indices]` decodes them, in threads.

    An image that cannot be read is replaced by another one, always the same, and remembered in `broken`.
    """

    def __init__(
        self, source: Source, sample: ImageSet, target: Target, bounds: NDArray[np.int64], buffer: int,
        threads: int | None = None,
    ) -> None:  # fmt: skip
        self.source, self.sample, self.target = source, sample, target
        self.shape = (len(source), *target.shape)
        self.dtype = np.dtype(target.dtype)
        self.broken: dict[int, Broken] = {}  # by index: the images that could not be read
        self._bounds, self._buffer = bounds, buffer
        workers = (threads or cores()) if source.in_threads else 1
        self._pool = ThreadPoolExecutor(workers, "decoding")

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        images = np.empty((len(indices), *self.target.shape), self.dtype)

        def decode(first: int) -> int:
            rows = range(first, min(first + _BLOCK, len(indices)))
            return sum(self._decode_into(images[row], int(indices[row])) for row in rows)

        broken = sum(self._pool.map(decode, range(0, len(indices), _BLOCK)))
        if broken > max(1, _MOST_BROKEN * len(indices)):
            some = listed(self.broken_by_name()[-3:])
            raise CoviewsError(
                f"{broken} of the {len(indices)} images of a batch cannot be read: {some}; a run can be continued with "
                "--resume when they can"
            )
        return images

    def order(self, seed: Sequence[int], batch: int) -> StreamOrder:
        """The order of an epoch; what has to be fetched for it is fetched as its batches are asked for."""
        packed = _packed(self.source)
        fetches = packed is not None and packed.pack.fetched
        return StreamOrder(self._bounds, seed, batch, self._buffer, self._fetch if fetches else None)

    def broken_by_name(self) -> list[Broken]:
        """What could not be read so far, and why."""
        return [*self.source.unreadable, *(broken for _, broken in sorted(dict(self.broken).items()))]

    def broken_text(self) -> str | None:
        """What is said of them; None if there are none."""
        if not self.broken:
            return None
        more = "or more " if len(self.broken) >= _NAMED else ""
        count = f"{len(self.broken):,} {more}of {len(self):,}"
        return f"{count} images are broken, and other images took their places: {listed(self.broken_by_name())}"

    def close(self) -> None:
        """End the threads, and drop what was fetched."""
        self._pool.shutdown(cancel_futures=True)
        packed = _packed(self.source)
        if packed is not None:
            packed.pack.close()

    def _decode_into(self, place: NDArray[Any], index: int) -> bool:
        """Decode an image, or the one that takes its place; whether it is broken."""
        for other in self._substitutes(index):
            if other in self.broken:
                continue
            try:
                place[:] = self.source.read(other, self.target)[0]
                return other != index
            except CoviewsError:
                raise
            except Exception as error:  # decoders of damaged files raise anything
                if len(self.broken) < _NAMED:  # the name at once, as its shard is at hand
                    names = self.source.names
                    self.broken[other] = (f"item {other}" if names is None else names[other], reason(error))
        place[:] = self.sample.images[index % len(self.sample)]
        return True

    def _substitutes(self, index: int) -> list[int]:
        """The image itself, and those that follow it: where images are read together, those are at hand."""
        run = int(np.searchsorted(self._bounds, index, "right")) - 1
        first, stop = self._bounds[run : run + 2].tolist()
        if stop - first == 1:
            first, stop = 0, len(self)
        count = min(1 + _SUBSTITUTES, stop - first)
        return [first + (index - first + i) % (stop - first) for i in range(count)]

    def _fetch(self, now: NDArray[np.int64], later: NDArray[np.int64]) -> None:
        """Fetch the shards of these runs of images."""
        packed = _packed(self.source)
        assert packed is not None
        first = (_originals(self.source, self._bounds[runs]) for runs in (now, later))
        shards = [dict.fromkeys(packed.place(i)[0] for i in indices.tolist()) for indices in first]
        packed.pack.plan(*shards)


@dataclass(frozen=True, eq=False)
class SomeImages:
    """Some images of a source."""

    source: Source
    indices: NDArray[np.int64]  # ascending

    @property
    def where(self) -> str:
        """The name of the source."""
        return self.source.where

    @property
    def names(self) -> Sequence[str] | None:
        """The names of the images, if they have names."""
        return None if self.source.names is None else _SomeNames(self.source.names, self.indices)

    @property
    def unreadable(self) -> Sequence[Broken]:
        """What is known to be unreadable but is not an image."""
        return self.source.unreadable

    @property
    def in_threads(self) -> bool:
        """Whether images may be read in several threads at once."""
        return self.source.in_threads

    def __len__(self) -> int:
        return len(self.indices)

    def known_labels(self) -> Labels | None:
        """The labels of all of them."""
        return self.source.labels_of(self.indices)

    def labels_of(self, indices: NDArray[np.int64]) -> Labels | None:
        """The labels of images that have been read."""
        return self.source.labels_of(self.indices[indices])

    def identity(self, indices: NDArray[np.int64]) -> None:
        """None: they are decoded anew each time."""
        return None

    def headers(self, indices: NDArray[np.int64], title: str) -> Sequence[Header | str | None]:
        """The size, channels and depth of each image."""
        return self.source.headers(self.indices[indices], title)

    def read(self, index: int, target: Target) -> tuple[NDArray[Any], bool]:
        """One image."""
        return self.source.read(int(self.indices[index]), target)


class _SomeNames(Sequence[str]):
    def __init__(self, names: Sequence[str], indices: NDArray[np.int64]) -> None:
        self._names, self._indices = names, indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: Any) -> Any:
        return self._names[int(self._indices[index])]


def open_stream(data: Any, request: ImageRequest, buffer: int = BUFFER, threads: int | None = None) -> Stream:
    """Find the images of the data, and take a sample; all others are decoded when they are needed.

    Warnings are added to the request's notes. The sample is chosen with a seed of its own, so that its mean is the same
    in all runs.
    """
    source: Source = open_data(data, request)
    if isinstance(source, ArrayImages):
        raise CoviewsError(f"{source.where} is an array, which is mapped or in memory as it is: leave out --stream")
    if not len(source):
        raise CoviewsError(f"there is no image in {source.where}")
    bounds = _runs(source, buffer)
    if request.subset is not None:
        indices = request.indices(source)
        source, bounds = SomeImages(source, indices), np.unique(np.searchsorted(indices, bounds))
    all_images = replace(request, subset=None)
    trial = _sample(source, _TRIED, replace(all_images, notes=[], remarks=[], max_broken=1.0))
    room = _SAMPLED_BYTES // (math.prod(trial.images.shape[1:]) * trial.images.dtype.itemsize)
    sample = _sample(source, min(max(room, _TRIED), SAMPLED), all_images)
    height, width, channels = sample.images.shape[1:]
    target = Target(height, width, channels, sample.images.dtype, sample.values, request.max_pixels)
    return Stream(source, sample, target, bounds, buffer, threads)


def _sample(source: Source, count: int, request: ImageRequest) -> ImageSet:
    """At most so many random images, decoded; of shards that have to be fetched, those of a few."""
    generator = np.random.default_rng(0)
    packed = _packed(source)
    if packed is not None and packed.pack.fetched:
        shards = np.sort(generator.permutation(np.flatnonzero(np.diff(packed.bounds)))[:_SAMPLED_SHARDS])
        parts = [np.arange(packed.bounds[shard], packed.bounds[shard + 1]) for shard in shards]
        near = np.concatenate(parts)
        if isinstance(source, SomeImages):
            near = np.flatnonzero(np.isin(source.indices, near))
        candidates = near if len(near) else np.arange(len(source))
        chosen = generator.choice(candidates, min(count, len(candidates)), replace=False)
    else:
        chosen = generator.choice(len(source), min(count, len(source)), replace=False)
    return decode_images(SomeImages(source, np.sort(chosen)), request)


def _runs(source: Source, buffer: int) -> NDArray[np.int64]:
    """The first image of each run of images that are read together, and the number of all.

    Shards that are fetched are read as a whole, those of this machine in pieces, so that more of them meet in a batch;
    files in any order.
    """
    if isinstance(source, PackedImages):
        bounds = np.unique(source.bounds)
        return bounds if source.pack.fetched else _pieces(bounds, buffer)
    if isinstance(source, HuggingFaceImages):
        return _pieces(np.array([0, len(source)], np.int64), buffer)
    return np.arange(len(source) + 1)


def _pieces(bounds: NDArray[np.int64], buffer: int) -> NDArray[np.int64]:
    size = max(1, buffer // (LANES * _PIECES))
    starts = [np.arange(first, stop, size) for first, stop in itertools.pairwise(bounds.tolist())]
    return np.concatenate([*starts, bounds[-1:]])


def _packed(source: Source) -> PackedImages | None:
    inner = source.source if isinstance(source, SomeImages) else source
    return inner if isinstance(inner, PackedImages) else None


def _originals(source: Source, indices: NDArray[np.int64]) -> NDArray[np.int64]:
    return source.indices[indices] if isinstance(source, SomeImages) else indices
