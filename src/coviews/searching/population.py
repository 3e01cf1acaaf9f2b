"""Population based training of augmentation schedules: how members are copied, and how their operations change.

Ho et al., Population Based Augmentation: Efficient Learning of Augmentation Policy Schedules, ICML 2019. Every
operation is in the list twice, with a probability in tenths and a strength of 0 to 9. After some epochs, the members in
the lowest quarter by their score become copies of members in the highest quarter (exploit), and change the numbers of
their operations (explore): with the probability 0.2 a number is drawn anew, otherwise 0 to 3 are added to it or taken
from it.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from coviews.policies.schedule import MOST_PROBABILITY, MOST_STRENGTH, ScheduledOperation

TIMES = 2  # each operation is in the list
DRAWN_ANEW = 0.2  # the probability that a number is drawn anew
LARGEST_CHANGE = 3
QUARTER = 4  # members of which one is replaced, and one is copied

Operations = tuple[ScheduledOperation, ...]


def unused(ops: Iterable[str]) -> Operations:
    """The list in which all operations are, and none is applied."""
    return tuple(ScheduledOperation(op, 0, 0) for op in ops for _ in range(TIMES))


def explored(operations: Operations, generator: np.random.Generator) -> Operations:
    """The same operations with other numbers."""
    largest = np.array([MOST_PROBABILITY, MOST_STRENGTH])
    numbers = np.array([(row.probability, row.strength) for row in operations])
    anew = generator.integers(0, largest + 1, numbers.shape)
    amounts = generator.integers(0, LARGEST_CHANGE + 1, numbers.shape)
    changed = np.clip(numbers + generator.choice([-1, 1], numbers.shape) * amounts, 0, largest)
    new = np.where(generator.random(numbers.shape) < DRAWN_ANEW, anew, changed).tolist()
    return tuple(ScheduledOperation(row.op, *pair) for row, pair in zip(operations, new, strict=True))


def replacements(scores: Sequence[float], generator: np.random.Generator) -> list[tuple[int, int]]:
    """Which members are replaced, each with the member that it becomes a copy of; the higher a score, the better.

    Of members with equal scores, the earlier counts as better.
    """
    order = sorted(range(len(scores)), key=lambda member: -scores[member])
    quarter = min(max(1, len(order) // QUARTER), len(order) // 2)
    winners = generator.integers(0, max(1, quarter), quarter)
    return [
        (loser, order[winner]) for loser, winner in zip(order[len(order) - quarter :], winners.tolist(), strict=True)
    ]
