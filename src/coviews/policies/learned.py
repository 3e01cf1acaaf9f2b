"""A learned policy."""
from dataclasses import dataclass, field
from typing import Any
import numpy as np
from coviews.ops.space import Space
from coviews.policies.network import NetworkSettings, PolicyNetwork
from coviews.policies.subpolicy import Subpolicies

@dataclass(frozen=True, eq=False)
class Policy:
    space: Space
    network: PolicyNetwork
    p: float = 0.8
    statistics: dict[str, Any] = field(default_factory=dict)
    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        return Subpolicies(self.space, *self.network.sample(n, generator), self.p)
