"""The views of every step of an epoch; where the encoder is not on the CPU, made while it is busy."""

import itertools
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coviews.data.stream import Stream
from coviews.data.stream_order import StreamOrder
from coviews.ops.images import Images
from coviews.ops.plan import Plan
from coviews.ops.view_settings import ViewSettings
from coviews.policies.subpolicy import ViewSource

Order = NDArray[np.int64] | StreamOrder

ORDER, VIEWS = 1, 2  # streams of random numbers
# Between two steps of an encoder the processor's caches have lost the code and tables that views need; so those of a
# few steps are made at once, which takes half the time.
_AT_ONCE = 8
_AT_ONCE_BYTES = 16 << 20


@dataclass(frozen=True, eq=False)
class Batches:
    """What each step of each epoch sees: a function of the seed, the epoch and the step alone.

    So a run can go on from any step, and neither the number of threads nor that of processes changes a view.
    """

    images: Images | Stream  # (N, H, W, C)
    size: int  # of a batch, over all ranks
    seed: int
    views: ViewSettings
    rank: int = 0
    ranks: int = 1
    local: ViewSettings | None = None  # of the source's last views, as many as it has sizes
    accumulate: int = 1  # batches between two changes of the weights

    @property
    def steps(self) -> int:
        """Batches in an epoch; what is left over of the images waits for another order."""
        return len(self.images) // (self.size * self.accumulate) * self.accumulate

    def order(self, epoch: int) -> Order:
        """The order of the images in an epoch."""
        if isinstance(self.images, Stream):
            return self.images.order([self.seed, ORDER, epoch], self.size)
        return np.random.default_rng([self.seed, ORDER, epoch]).permutation(len(self.images))

    def make(self, source: ViewSource, epoch: int, step: int, order: Order) -> tuple[list[Images], Plan]:
        """This rank's views of a step, an array (n, V, H, W, C) for each size, and the plan of the whole batch."""
        plan = self.plan(source, np.random.default_rng([self.seed, VIEWS, epoch, step]))
        share = self.size // self.ranks
        part = slice(self.rank * share, (self.rank + 1) * share)
        first = step * self.size
        indices = order[first + part.start : first + part.stop]
        return self.views.make_groups(self.images[indices], plan[part]), plan

    def plan(self, source: ViewSource, generator: np.random.Generator) -> Plan:
        """The plan of a whole batch: the local views come last, and are placed by their own settings."""
        image_size = (self.images.shape[1], self.images.shape[2])
        if self.local is None:
            return self.views.plan(source, self.size, image_size, generator)
        subpolicies = source.sample(self.size, generator)
        first_local = subpolicies.views - len(self.local.sizes)
        plans = []
        for views, part in ((self.views, slice(first_local)), (self.local, slice(first_local, None))):
            some = replace(subpolicies, ops=subpolicies.ops[:, part], levels=subpolicies.levels[:, part])
            plans.append(views.plan(some, self.size, image_size, generator))
        return Plan.joined(plans)

    def epoch(
        self, source: ViewSource, epoch: int, first: int = 0, *, ahead: int = 1
    ) -> Iterator[tuple[int, list[Images], Plan]]:
        """From step `first` on: the step, its views in groups of one size, and their plan.

        ahead: how many batches are made in advance, in the background; 0 for none.
        """
        order, steps = self.order(epoch), range(first, self.steps)
        if not ahead:
            yield from self._epoch_in_turn(source, epoch, order, steps)
            return
        with ThreadPoolExecutor(1, "batches") as pool:
            pending: deque[Future[tuple[list[Images], Plan]]] = deque()
            try:
                for step in steps:
                    for later in range(step + len(pending), min(step + ahead + 1, self.steps)):
                        pending.append(pool.submit(self.make, source, epoch, later, order))
                    yield step, *pending.popleft().result()
            finally:
                for future in pending:
                    future.cancel()

    def _epoch_in_turn(
        self, source: ViewSource, epoch: int, order: Order, steps: range
    ) -> Iterator[tuple[int, list[Images], Plan]]:
        """The same as `epoch`, by this thread."""
        made: deque[tuple[list[Images], Plan]] = deque()
        unmade = iter(steps)
        for step in steps:
            if not made:
                made.append(self.make(source, epoch, next(unmade), order))
                fitting = _AT_ONCE_BYTES // sum(views.nbytes for views in made[0][0])
                most = 1 if isinstance(self.images, Stream) else min(_AT_ONCE, fitting)  # decoding may take long
                others = itertools.islice(unmade, max(0, most - 1))
                made.extend(self.make(source, epoch, other, order) for other in others)
            yield step, *made.popleft()
