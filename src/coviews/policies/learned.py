"""A learned policy: a network as a view source, in one file."""

import copy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from coviews.boundary.schema import Name, OpenSchema, Probability, Schema, checked_fields
from coviews.boundary.weights import Weights, open_weights
from coviews.errors import CoviewsError, unknown
from coviews.ops.space import Space
from coviews.policies.files import (
    FORMAT,
    FORMAT_WITH_CROPS,
    SpaceDescription,
    Steps,
    Views,
    describe_space,
    read_space,
    write_policy,
)
from coviews.policies.network import NetworkSettings, PolicyNetwork, weight_shapes
from coviews.policies.subpolicy import Subpolicies
from coviews.policies.tilted import COOPERATIVE as COOPERATIVE
from coviews.policies.tilted import TABLE, TiltedPolicy, read_tilted


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy network and the space that gives its choices a meaning."""

    space: Space
    network: PolicyNetwork
    p: float = 0.8  # each step is applied with this probability
    statistics: dict[str, Any] = field(default_factory=dict)  # how it was learned, as plain JSON

    def __post_init__(self) -> None:
        n_ops, n_levels = len(self.space.ops), self.space.levels
        if (self.network.n_ops, self.network.n_levels) != (n_ops, n_levels) or not np.array_equal(
            self.network.has_magnitude, self.space.has_magnitude
        ):
            raise CoviewsError(
                f"the network draws from {self.network.n_ops} operations at {self.network.n_levels} levels, which "
                f"are not those of the space {self.space.name!r} ({n_ops} at {n_levels})"
            )
        if isinstance(self.p, bool) or not isinstance(self.p, (int, float)) or not 0 <= self.p <= 1:
            raise CoviewsError(f"the probability of a step must be in 0..1, not {self.p!r}")

    @classmethod
    def untrained(
        cls,
        space: Space,
        generator: np.random.Generator,
        *,
        kind: str = "coviews",
        views: int = 2,
        steps: int = 2,
        p: float = 0.8,
        settings: NetworkSettings | None = None,
    ) -> "Policy":
        """A policy to start a search from: close to uniform over the space."""
        if kind not in COOPERATIVE:
            raise unknown("kind of policy", kind, COOPERATIVE)
        network = PolicyNetwork(
            len(space.ops),
            space.levels,
            space.has_magnitude,
            generator,
            views=views,
            steps=steps,
            cooperative=COOPERATIVE[kind],
            settings=settings,
        )
        return cls(space, network, p)

    def __repr__(self) -> str:
        return f"Policy({self.kind}, {self.views} views, {self.steps} steps, p={self.p:g}, {self.space!r})"

    @property
    def kind(self) -> str:
        """`coviews`: each view is drawn given those before it; `indepviews`: without."""
        return "coviews" if self.network.cooperative else "indepviews"

    @property
    def views(self) -> int:
        """V, the number of views."""
        return self.network.views

    @property
    def steps(self) -> int:
        """N_tau, the number of operations in a row."""
        return self.network.steps

    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        """Draw subpolicies for n images."""
        return Subpolicies(self.space, *self.network.sample(n, generator), self.p)

    def copy(self) -> "Policy":
        """A copy that can be trained without changing this policy."""
        return copy.deepcopy(self)

    def with_statistics(self, statistics: dict[str, Any]) -> "Policy":
        """The same policy with other statistics."""
        return replace(self, statistics=statistics)

    def save(self, path: str | Path) -> None:
        """Write the policy to a `.safetensors` file atomically; equal policies give equal bytes."""
        if not np.isfinite(self.network.flat).all():
            raise CoviewsError("the policy has weights that are not finite: it is not worth keeping")
        description = {
            "kind": self.kind,
            "network": asdict(self.network.settings),
            "p": self.p,
            "space": describe_space(self.space),
            "statistics": self.statistics,
            "steps": self.steps,
            "views": self.views,
        }
        weights = {k: w.astype(np.float32) for k, w in self.network.split(self.network.flat).items()}
        write_policy(path, weights, description)


AnyPolicy = Policy | TiltedPolicy


class _Kind(OpenSchema):
    """What tells one kind of policy file from another."""

    policy: Name | None = None
    crops: Any = None


class _Description(Schema):
    """A policy network in a file."""

    format: int
    kind: Name
    network: dict[str, Any]
    p: Probability
    space: SpaceDescription
    statistics: dict[str, Any]
    steps: Steps
    views: Views


def load_policy(path: str | Path) -> AnyPolicy:
    """Read a policy file of any kind; nothing in the file is executed."""
    if str(path).endswith((".yaml", ".yml")):
        raise CoviewsError(f"{path} is the file of a family of views, not of a policy: coviews.read_family reads it")
    if str(path).endswith(".json"):
        raise CoviewsError(f"{path} is no policy with weights: coviews.policies.named.policy_source reads it")
    with open_weights(path, "policy file") as weights:
        kind = weights.description(_Kind)
        weights.check_format(FORMAT if kind.crops is None else FORMAT_WITH_CROPS)
        return read_tilted(weights) if kind.policy == TABLE else _read(weights)


def _read(weights: Weights) -> Policy:
    description = weights.description(_Description)
    space = read_space(description.space)
    settings = checked_fields(description.network, NetworkSettings, "its description of the network")
    shapes = weight_shapes(settings, len(space.ops), space.levels)
    flat = np.concatenate([weights.array(name, shape).ravel() for name, shape in shapes.items()])
    policy = Policy.untrained(
        space,
        np.random.default_rng(0),
        kind=description.kind,
        views=description.views,
        steps=description.steps,
        p=description.p,
        settings=settings,
    )
    policy.network.flat[:] = flat
    return policy.with_statistics(description.statistics)
