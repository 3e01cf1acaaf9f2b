"""The most recent policies as one view source."""

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError
from coviews.ops.placement import Placement
from coviews.ops.plan import Plan, Size
from coviews.policies.learned import AnyPolicy
from coviews.policies.subpolicy import Subpolicies


class PolicyQueue:
    """The `size` most recent policies; for each image one is drawn, and then a subpolicy from it.

    p: the i-th newest is drawn with a probability proportional to p (1 - p)^(i - 1).
    """

    def __init__(self, size: int = 4, p: float = 0.6) -> None:
        if type(size) is not int or size < 1:
            raise CoviewsError(f"a queue holds one policy or more, not {size!r}")
        if not 0 < p < 1:
            raise CoviewsError(f"the queue's p must be between 0 and 1, not {p}")
        self.size, self.p = size, p
        self.policies: tuple[AnyPolicy, ...] = ()  # the newest first

    def __len__(self) -> int:
        return len(self.policies)

    def __repr__(self) -> str:
        return f"PolicyQueue({len(self)} of {self.size} policies)"

    @property
    def chooses_crops(self) -> bool:
        """Whether one of the policies prefers some crops to others."""
        return any(getattr(policy, "chooses_crops", False) for policy in self.policies)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The probability of each policy, the newest first."""
        weights = self.p * (1 - self.p) ** np.arange(len(self))
        return weights / weights.sum()

    def push(self, policy: AnyPolicy) -> None:
        """Add the newest policy; the oldest leaves if the queue is full."""
        if self.policies:
            for name in ("space", "views", "steps", "p"):
                new, old = getattr(policy, name), getattr(self.policies[0], name)
                if new != old:
                    raise CoviewsError(
                        f"the policies of a queue must have the same {name}: {_short(new)} is not {_short(old)}"
                    )
        self.policies = (policy, *self.policies)[: self.size]

    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        """Draw subpolicies for n images."""
        parts = self._parts(n, generator)
        newest = self.policies[0]
        ops, levels = np.empty((2, n, newest.views, newest.steps), np.int16)
        for policy, images in zip(self.policies, parts, strict=True):
            subpolicies = policy.sample(len(images), generator)
            ops[images], levels[images] = subpolicies.ops, subpolicies.levels
        return Subpolicies(newest.space, ops, levels, newest.p)

    def draw_plan(
        self,
        n: int,
        image_size: Size,
        generator: np.random.Generator,
        placement: Placement | None = None,
        sizes: tuple[Size, ...] = (),
    ) -> Plan:
        """Draw a plan for n images, for each by one of the policies."""
        parts = self._parts(n, generator)
        plans = [
            Plan.draw(policy, len(images), image_size, generator, placement, sizes)
            for policy, images in zip(self.policies, parts, strict=True)
        ]
        return Plan.stacked(plans)[np.argsort(np.concatenate(parts))]

    def _parts(self, n: int, generator: np.random.Generator) -> list[NDArray[np.int64]]:
        """Draw the policy of each of n images: the images of each policy, the newest first."""
        if not self.policies:
            raise CoviewsError("the queue has no policy yet: push one before you draw from it")
        drawn = generator.choice(len(self), n, p=self.weights)  # (n,)
        return [np.flatnonzero(drawn == i) for i in range(len(self))]


def _short(value: object) -> str:
    return repr(getattr(value, "name", value))
