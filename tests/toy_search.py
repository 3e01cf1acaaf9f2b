"""A search from outside the package: one class with its settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from coviews.policies.learned import Policy
from coviews.policies.subpolicy import Subpolicies
from coviews.searching.contract import Search, SearchContext, SearchReport
from coviews.searching.measures import SearchMeasure
from coviews.searching.settings import SearchSettings


@dataclass(frozen=True, kw_only=True)
class ToySettings(SearchSettings):
    """The options of the toy."""

    name: ClassVar[str] = "toy"
    unit: ClassVar[tuple[str, str]] = ("guess", "guesses")
    reads_training_losses: ClassVar[bool] = True

    strength: float = 1.0
    """How far a policy departs from an untrained one."""
    every_second: bool = False
    """Guess before every second epoch only."""


class ToySearch(Search):
    """A random policy, the further from uniform the higher the losses of training were."""

    settings_type = ToySettings
    measures = (SearchMeasure("mean", "Mean loss so far", "What the toy has heard.", "loss"),)

    def __init__(self, settings: ToySettings, context: SearchContext) -> None:
        self.settings, self.context = settings, context
        self.pairs = 0
        self.sums = np.zeros(len(context.space.ops))  # of the losses, by the first operation of the first view

    def observe(self, subpolicies: Subpolicies, losses: Any) -> None:
        self.pairs += len(subpolicies)
        np.add.at(self.sums, subpolicies.ops[:, 0, 0], np.asarray(losses, np.float64))

    def before_epoch(self, epoch: int) -> Policy | None:
        if self.settings.every_second and epoch % 2:
            return None
        c, s = self.context, self.settings
        policy = Policy.untrained(c.space, c.generator(epoch), kind=c.kind, steps=s.steps, p=s.p)
        policy.network.flat[:] *= 1 + s.strength * self.mean
        return policy

    @property
    def mean(self) -> float:
        return float(self.sums.sum() / self.pairs)

    def report(self) -> SearchReport:
        return SearchReport({"mean": self.mean}, {"mean loss": self.mean}, "guessed:", f"mean loss {self.mean:.3f}")

    def state_dict(self) -> dict[str, Any]:
        return {"pairs": self.pairs, "sums": self.sums}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.pairs, self.sums = int(state["pairs"]), np.array(state["sums"])
