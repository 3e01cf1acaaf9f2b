"""The contract of a search: how the policy that makes the views is learned while an encoder trains.

A search sees neither an image nor an encoder: it hears what was done to pairs of views and how high their losses were.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from coviews.ops.placement import Placement
from coviews.ops.plan import Plan
from coviews.ops.space import Space
from coviews.policies.learned import AnyPolicy
from coviews.policies.subpolicy import Subpolicies, ViewSource
from coviews.searching.measures import SearchMeasure
from coviews.searching.settings import SearchSettings

# the loss of each subpolicy's pair of views (n,), on images drawn by the generator, in batches of the given size
ScorePairs = Callable[[Subpolicies, np.random.Generator, int], NDArray[np.float64]]


@dataclass(frozen=True)
class SearchContext:
    """What a search knows of the training that it serves."""

    kind: str  # of the policy: coviews or indepviews
    space: Space
    first_source: ViewSource  # what makes the views until the first policy is there
    current_source: Callable[[], ViewSource]  # what makes the views now
    generator: Callable[[int], np.random.Generator]  # a fresh one for the search before an epoch
    score: ScorePairs
    chance: Callable[[int], float]  # the loss of unrelated views in a batch of so many pairs
    batch_size: int  # pairs in a step of training
    progress: Callable[[int, int, str], None]  # (done, total, text), called often in a long search; may end it
    placement: Placement = field(default_factory=Placement)  # how crops, flips and turns are drawn


@dataclass(frozen=True)
class SearchReport:
    """What the last search has to say."""

    metrics: dict[str, Any]  # for the run's metrics: plain JSON
    numbers: dict[str, float]  # for trackers, by title
    title: str  # for the terminal
    text: str
    timed: bool = False  # whether its time is worth telling
    brief: bool = False  # whether a terminal with a live line can do without it
    changed: bool = True  # whether there is a policy whose preferences are worth telling


class Search(ABC):
    """Learns policies while an encoder trains.

    Before each epoch for which its settings say so, `before_epoch` gives a new policy, or None if there is nothing
    new. A search that reads training's losses hears of every step through `observe`.
    """

    settings_type: ClassVar[type[SearchSettings]]
    measures: ClassVar[tuple[SearchMeasure, ...]] = ()
    """What of its metrics the report draws."""

    @abstractmethod
    def __init__(self, settings: Any, context: SearchContext) -> None: ...

    def observe(self, plan: Plan, losses: Any) -> None:  # noqa: B027 - not every search listens
        """Hear what was applied to a batch of pairs, and the loss of each (n,), an array or a tensor."""

    @abstractmethod
    def before_epoch(self, epoch: int) -> AnyPolicy | None:
        """The policy for the epochs from this one on, if there is a new one."""

    @staticmethod
    def objection(policy: AnyPolicy) -> str | None:
        """Why a policy should not make views, if there is a reason."""
        return None

    @abstractmethod
    def report(self) -> SearchReport:
        """What the last `before_epoch` did."""

    def state_dict(self) -> dict[str, Any]:
        """All that the next policies depend on: plain numbers and arrays."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - not every search has a state
        """Continue exactly where the search was that gave this state."""
