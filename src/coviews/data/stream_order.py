"""The order of streamed images: a function of the seed and the epoch alone, computed batch by batch.

Runs of images that are read together, such as shards, are laid in a row at random, and the row is cut into lanes of
equal length. A batch takes as many images from each lane, and each lane is shuffled in windows. So only the windows in
use have to be near, images of many places meet in a batch, and a process that has some of the lanes reads only theirs.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

BUFFER = 10_000  # images that are shuffled among each other
LANES = 8  # of a batch; the same for any number of processes, so that their number changes nothing


class StreamOrder:
    """One epoch's order; `order[a:b]` are the indices of the images at these places.

    Args:
        bounds: (P + 1,) the first image of each run of images that are read together, and the number of all images.
        seed: whole numbers; the same ones give the same order.
        batch: images of a batch.
        window: images that are shuffled among each other, over all lanes.
        fetch: is told, whenever images are asked for, which runs hold the windows that they are in, and which hold the
            windows that follow.
    """

    def __init__(
        self, bounds: NDArray[np.int64], seed: Sequence[int], batch: int, window: int,
        fetch: Callable[[NDArray[np.int64], NDArray[np.int64]], None] | None = None,
    ) -> None:  # fmt: skip
        self._fetch = fetch
        self._bounds, self._seed, self._batch = bounds, tuple(seed), batch
        self._runs = np.random.default_rng(self._seed).permutation(len(bounds) - 1)
        self._ends: NDArray[np.int64] = np.cumsum(np.diff(bounds)[self._runs])  # in the row
        self._lanes = math.gcd(LANES, batch)
        self._length = int(bounds[-1]) // self._lanes  # of a lane
        self._window = max(1, window // self._lanes)
        self._share = batch // self._lanes  # images of a lane in a batch
        self._shuffled = lru_cache(maxsize=4 * self._lanes)(self._shuffle)

    def __len__(self) -> int:
        """Places in whole batches; what is left over of the images waits for another epoch."""
        return int(self._bounds[-1]) // self._batch * self._batch

    def __getitem__(self, places: slice) -> NDArray[np.int64]:
        if self._fetch is not None:
            self._fetch(*self.near(places))
        first, stop, _ = places.indices(len(self))
        in_row = np.empty(max(0, stop - first), np.int64)
        done = 0
        while done < len(in_row):
            lane, place, left = self._lane(first + done)
            window, offset = divmod(place, self._window)
            order = self._shuffled(lane, window)
            count = min(left, len(order) - offset, len(in_row) - done)
            in_row[done : done + count] = order[offset : offset + count]
            done += count
        return self._images(in_row)

    def near(self, places: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The runs of images of the windows that these places are in, and those of the windows that follow."""
        first, stop, _ = places.indices(len(self))
        now: set[int] = set()
        later: set[int] = set()
        while first < stop:
            lane, place, left = self._lane(first)
            windows = range(place // self._window, (place + left - 1) // self._window + 1)
            now = now.union(*(self._runs_of(lane, window) for window in windows))
            later |= self._runs_of(lane, windows.stop)
            first += left
        return np.array(sorted(now), np.int64), np.array(sorted(later - now), np.int64)

    def _lane(self, place: int) -> tuple[int, int, int]:
        """The lane of a place, the place within it, and how many places of the batch follow there."""
        step, rest = divmod(place, self._batch)
        lane, offset = divmod(rest, self._share)
        return lane, step * self._share + offset, self._share - offset

    def _shuffle(self, lane: int, window: int) -> NDArray[np.int64]:
        """The places in the row of a lane's window, in random order."""
        first, stop = self._part(lane, window)
        # from 1: a seed that ends with zeros is the same without them
        generator = np.random.default_rng([*self._seed, 1 + lane, 1 + window])
        return first + generator.permutation(stop - first)

    def _part(self, lane: int, window: int) -> tuple[int, int]:
        """Where in the row a lane's window begins and ends."""
        start = lane * self._length
        return start + min(window * self._window, self._length), start + min((window + 1) * self._window, self._length)

    def _runs_of(self, lane: int, window: int) -> set[int]:
        first, stop = self._part(lane, window)
        if first == stop:
            return set()
        low, high = np.searchsorted(self._ends, (first, stop - 1), "right")
        return set(self._runs[low : high + 1].tolist())

    def _images(self, in_row: NDArray[np.int64]) -> NDArray[np.int64]:
        """The images at places in the row."""
        position = np.searchsorted(self._ends, in_row, "right")
        run = self._runs[position]
        images: NDArray[np.int64] = self._bounds[run + 1] - self._ends[position] + in_row
        return images
