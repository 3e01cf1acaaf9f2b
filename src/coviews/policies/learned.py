"""A learned policy: a view source, and one file that holds all of it."""

import copy
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from coviews.atomic import write_whole
from coviews.errors import CoviewsError, unknown
from coviews.ops.space import SPACES, Space, space
from coviews.policies.network import NetworkSettings, PolicyNetwork, weight_shapes
from coviews.policies.subpolicy import Subpolicies

FORMAT = 1  # of the file; goes up when an older reader would misread a newer file
COOPERATIVE = {"coviews": True, "indepviews": False}


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

    @property
    def kind(self) -> str:
        """`coviews`: a view knows of those before it; `indepviews`: it does not."""
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
        """Another policy with the same weights, which can be trained further without touching this one."""
        return copy.deepcopy(self)

    def with_statistics(self, statistics: dict[str, Any]) -> "Policy":
        """The same policy with other statistics."""
        return replace(self, statistics=statistics)

    def save(self, path: str | Path) -> None:
        """Write the policy to a `.safetensors` file, whole or not at all; equal policies give equal bytes."""
        if not np.isfinite(self.network.flat).all():
            raise CoviewsError("the policy has weights that are not finite: it is not worth keeping")
        description = {
            "format": FORMAT,
            "kind": self.kind,
            "network": asdict(self.network.settings),
            "p": self.p,
            "space": {
                "name": self.space.name,
                "ops": self.space.ops,
                "values": self.space.values.tolist(),
                "has_magnitude": self.space.has_magnitude.tolist(),
            },
            "statistics": self.statistics,
            "steps": self.steps,
            "views": self.views,
        }
        try:
            text = json.dumps(description, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise CoviewsError(f"a policy's statistics must be plain JSON: {error}") from error
        weights = {k: w.astype(np.float32) for k, w in self.network.split(self.network.flat).items()}
        # one entry only: safetensors does not keep the order of several
        write_whole(Path(path), safetensors.numpy.save(weights, {"coviews": text}))


def load_policy(path: str | Path) -> Policy:
    """Read a policy that `Policy.save` wrote; nothing in the file is executed."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            return _read(file)
    except FileNotFoundError as error:
        raise CoviewsError(f"there is no policy file {path}") from error
    except CoviewsError as error:
        raise CoviewsError(f"cannot use the policy file {path}: {error}") from error
    except (safetensors.SafetensorError, OSError) as error:
        raise CoviewsError(f"{path} is not a policy file, or is damaged: {error}") from error
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CoviewsError(f"cannot use the policy file {path}: its description is wrong ({error!r})") from error


def _read(file: Any) -> Policy:
    metadata = file.metadata() or {}
    if "coviews" not in metadata:
        raise CoviewsError("it holds weights, but not the description of a policy")
    described = json.loads(metadata["coviews"])
    if described["format"] != FORMAT:
        raise CoviewsError(
            f"it has the format {described['format']!r}, and this version of coviews reads {FORMAT}: "
            "install the version that wrote it, or a newer one"
        )
    where = _read_space(described["space"])
    settings = NetworkSettings(**described["network"])
    shapes = weight_shapes(settings, len(where.ops), where.levels)
    weights = {name: _read_weight(file, name, shape) for name, shape in shapes.items()}
    made = Policy.untrained(
        where,
        np.random.default_rng(0),
        kind=described["kind"],
        views=described["views"],
        steps=described["steps"],
        p=described["p"],
        settings=settings,
    )
    made.network.flat[:] = np.concatenate([w.ravel() for w in weights.values()])
    made.statistics.update(described["statistics"])
    return made


def _read_weight(file: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name not in file.keys():  # noqa: SIM118 - it is no mapping
        raise CoviewsError(f"its weight {name!r} is missing")
    found = tuple(file.get_slice(name).get_shape())
    if found != shape:  # seen before any memory is asked for
        raise CoviewsError(f"its weight {name!r} has the shape {found}, not {shape}")
    weight = file.get_tensor(name)
    if weight.dtype != np.float32 or not np.isfinite(weight).all():
        raise CoviewsError(f"its weight {name!r} is not made of finite 32-bit numbers")
    return weight


def _read_space(described: dict[str, Any]) -> Space:
    name, ops = described["name"], tuple(described["ops"])
    made = Space(str(name), ops, np.array(described["values"], np.float64))
    if made.has_magnitude.tolist() != described["has_magnitude"] or (
        name in SPACES and made != space(name, made.levels)
    ):
        raise CoviewsError(
            f"it was learned in another space {name!r}, whose operations or values are not those of this version "
            "of coviews: install the version that wrote it"
        )
    return made
