"""A learned policy: a network as a view source, in one file."""

import copy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from coviews.errors import CoviewsError, unknown
from coviews.ops.space import Space
from coviews.policies.files import describe_space, read_description, read_space, read_weight, write_policy
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


def load_policy(path: str | Path) -> AnyPolicy:
    """Read a policy file of any kind; nothing in the file is executed."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            description = read_description(file)
            read = read_tilted if description.get("policy") == TABLE else _read
            return read(file, description)
    except FileNotFoundError as error:
        raise CoviewsError(f"there is no policy file {path}") from error
    except CoviewsError as error:
        raise CoviewsError(f"cannot use the policy file {path}: {error}") from error
    except (safetensors.SafetensorError, OSError) as error:
        raise CoviewsError(f"{path} is not a policy file, or is damaged: {error}") from error
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CoviewsError(f"cannot use the policy file {path}: its description is wrong ({error!r})") from error


def _read(file: Any, description: dict[str, Any]) -> Policy:
    space = read_space(description["space"])
    settings = NetworkSettings(**description["network"])
    shapes = weight_shapes(settings, len(space.ops), space.levels)
    weights = {name: read_weight(file, name, shape) for name, shape in shapes.items()}
    policy = Policy.untrained(
        space,
        np.random.default_rng(0),
        kind=description["kind"],
        views=description["views"],
        steps=description["steps"],
        p=description["p"],
        settings=settings,
    )
    policy.network.flat[:] = np.concatenate([w.ravel() for w in weights.values()])
    policy.statistics.update(description["statistics"])
    return policy
