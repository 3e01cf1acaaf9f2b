"""How a policy is searched for."""

from dataclasses import dataclass, field

from coviews.errors import CoviewsError, unknown
from coviews.policies.network import NetworkSettings
from coviews.searching.loss_table import TableSettings
from coviews.searching.ppo import PPOSettings
from coviews.searching.reward import BoundedReward

REFERENCES = ("uniform", "current")
SEARCHES = ("ppo", "table")


@dataclass(frozen=True)
class SearchSettings:
    """How a policy is searched for."""

    ppo: PPOSettings = field(default_factory=PPOSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    reward: BoundedReward = field(default_factory=BoundedReward)
    reference: str = "uniform"
    """Whose loss counts as 1: `uniform`, the untrained policy under the current encoder, or `current`, the source
    that training uses now (the paper's way)."""
    batch: int = 128
    """Pairs that are scored together: the negatives of each other."""
    images_each: int = 4
    """Images that a subpolicy is scored on, by its mean loss: one pair's depends more on its image than on what was
    done to it (1 in the paper)."""
    reference_batches: int = 5
    """Batches that the reference loss is the mean of."""
    steps: int = 2
    """N_tau, the operations in a row."""
    p: float = 0.8
    """The probability with which a step is applied."""
    by: str | None = None
    """How pretraining learns its views: `table`, from training's own losses, which costs almost nothing (the default
    for simclr and moco; the figures of `table`, `reward`, `steps` and `p` are then the ones that count), or `ppo`, the
    paper's search (the default for other methods)."""
    table: TableSettings = field(default_factory=TableSettings)

    def __post_init__(self) -> None:
        if self.by is not None and self.by not in SEARCHES:
            raise unknown("search", self.by, SEARCHES)
        if self.reference not in REFERENCES:
            raise unknown("reference", self.reference, REFERENCES)
        if not 0 <= self.p <= 1:
            raise CoviewsError(f"the probability of a step must be in 0..1, not {self.p}")
        for name, least in (("batch", 2), ("images_each", 1), ("reference_batches", 1), ("steps", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise CoviewsError(f"the search's {name} must be a whole number from {least}, not {value!r}")
        if self.ppo.samples * self.images_each % self.batch:
            raise CoviewsError(
                f"PPO's {self.ppo.samples} samples on {self.images_each} images each are no whole number of batches "
                f"of {self.batch}"
            )

    @classmethod
    def paper(cls) -> "SearchSettings":
        """The paper's search."""
        figures = (PPOSettings.paper(), NetworkSettings.paper(), BoundedReward("ratio"))
        return cls(*figures, reference="current", images_each=1, reference_batches=20, by="ppo")
