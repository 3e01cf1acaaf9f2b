"""What the settings of every search have in common."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from coviews.errors import CoviewsError
from coviews.policies.files import MOST_STEPS
from coviews.searching.reward import NONE, BoundedReward

MOST = 1_000_000  # of anything that is counted


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """The options of a search. Each search has a subclass of its own, beside its class."""

    name: ClassVar[str]
    """What the search is called on the command line."""
    unit: ClassVar[tuple[str, str]] = ("search", "searches")
    """What one of its rounds is called."""
    reads_training_losses: ClassVar[bool] = False
    """Whether it learns from the losses of training, which must then reveal the hardness of a pair."""

    needs_bound: ClassVar[bool] = False
    """Whether it cannot do without a bound on the reward."""

    reward: BoundedReward = field(default_factory=BoundedReward)
    steps: int = 2
    """N_tau, the operations in a row."""
    p: float = 0.8
    """The probability with which a step is applied."""

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise CoviewsError(f"the probability of a step must be in 0..1, not {self.p}")
        self._check_counts(steps=1)
        if self.needs_bound and self.reward.bound == NONE:
            raise CoviewsError(f"the search {self.name} needs a bound on its reward: use --search ppo without one")
        if self.steps > MOST_STEPS:
            raise CoviewsError(f"the search's steps must be at most {MOST_STEPS}, not {self.steps}")

    def check(self) -> None:
        """An error if a search with these options cannot run."""

    @property
    def first_source(self) -> str:
        """The name of the view source until the first policy is there."""
        return "random"

    def due(self, epochs_since_warmup: int) -> bool:
        """Whether a search comes before the epoch that is so many after the first one with learned views."""
        return epochs_since_warmup >= 0

    @property
    def images_needed(self) -> int:
        """The least number of images that it can work with."""
        return 1

    @property
    def encoder_passes(self) -> int:
        """Images that pass the encoder in one search, besides those of training."""
        return 0

    def _check_counts(self, **least: int) -> None:
        for name, low in least.items():
            value: Any = getattr(self, name)
            if type(value) is not int or not low <= value <= MOST:
                raise CoviewsError(f"the search's {name} must be a whole number from {low} to {MOST:,}, not {value!r}")
