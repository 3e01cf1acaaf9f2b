"""Listed policies: for each view one of a list of subpolicies, in which every operation has a probability and a level.

Fast AutoAugment (Lim et al., NeurIPS 2019) and SelfAugment (Reed et al., CVPR 2021) find such lists. A level of 0..1
leads from the lowest to the highest value of its operation. As in the authors' code, operations whose range is
symmetric about 0 (shears, translations, rotations) get the opposite value in one of two views.
"""

import functools
import importlib.resources
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from coviews.boundary.json_text import read_json
from coviews.boundary.schema import Name, Probability
from coviews.errors import CoviewsError, unknown
from coviews.ops.space import Space
from coviews.policies.files import MOST_STEPS
from coviews.policies.json_policies import JSONPolicy, json_policy_space, range_space, write_json_policy
from coviews.policies.subpolicy import Subpolicies

KIND = "subpolicies"  # of policy, in a file
DIGITS = 4  # decimals of the numbers in a file
FAST_AUTOAUGMENT = ("cifar10", "svhn", "imagenet")  # the policies that its authors published


class ListedStep(NamedTuple):
    """One operation of a subpolicy."""

    op: str
    probability: float
    level: float  # 0..1, from the lowest to the highest value


Listed = tuple[tuple[ListedStep, ...], ...]  # subpolicies


@dataclass(frozen=True)
class ListedPolicy:
    """For each view one of the subpolicies; operations that the space does not have are left out."""

    subpolicies: Listed
    views: int = 2
    space: Space = field(default_factory=range_space)

    def __post_init__(self) -> None:
        if not self.subpolicies or not all(self.subpolicies):
            raise CoviewsError("a listed policy needs a subpolicy or more, and each an operation or more")

    def __repr__(self) -> str:
        return f"ListedPolicy({len(self.subpolicies)} subpolicies, {self.views} views)"

    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        """Draw subpolicies for n images."""
        ops, probabilities, levels = self._table
        rows = generator.integers(0, len(ops), (n, self.views))
        shape = (n, self.views, ops.shape[1])
        applied = generator.random(shape) < probabilities[rows]
        opposite = generator.random(shape) < 0.5
        drawn = np.where(applied, ops[rows], np.int16(self.space.identity))
        ends = self.space.values[:, 0], self.space.values[:, -1]
        symmetric = np.isclose(ends[0], -ends[1]) & (ends[0] != 0)
        last = np.int16(self.space.levels - 1)
        return Subpolicies(self.space, drawn, np.where(opposite & symmetric[drawn], last - levels[rows], levels[rows]))

    @functools.cached_property
    def _table(self) -> tuple[NDArray[np.int16], NDArray[np.float64], NDArray[np.int16]]:
        """Operations, probabilities and levels of each subpolicy, (subpolicies, steps) each."""
        own, steps = self.space, max(map(len, self.subpolicies))
        padding = ListedStep("Identity", 0.0, 0.0)
        rows = [[*row, *[padding] * (steps - len(row))] for row in self.subpolicies]
        ops = [[own.index(s.op) if s.op in own.ops else own.identity for s in row] for row in rows]
        levels = np.rint(np.array([[s.level for s in row] for row in rows]) * (own.levels - 1))
        probabilities = np.array([[s.probability for s in row] for row in rows])
        return np.array(ops, np.int16), probabilities, levels.astype(np.int16)

    def save(self, path: str | Path, statistics: dict[str, Any] | None = None) -> None:
        """Write the policy as JSON, a subpolicy to a line; `statistics` say how it was found."""
        rows = [[(s.op, round(s.probability, DIGITS), round(s.level, DIGITS)) for s in row] for row in self.subpolicies]
        used = (s.op for row in self.subpolicies for s in row)
        write_json_policy(path, KIND, self.space, used, {"subpolicies": rows}, statistics)


_Row = Annotated[list[tuple[Name, Probability, Probability]], msgspec.Meta(min_length=1, max_length=MOST_STEPS)]


class _ListedFile(JSONPolicy):
    """A listed policy in a file."""

    subpolicies: Annotated[list[_Row], msgspec.Meta(min_length=1, max_length=100_000)]


def read_listed(path: str | Path, views: int = 2) -> ListedPolicy:
    """A policy from the file that `ListedPolicy.save` wrote."""
    content = read_json(path, _ListedFile, "policy file")
    used = (op for row in content.subpolicies for op, _, _ in row)
    operations = json_policy_space(content, KIND, used, path)
    return ListedPolicy(tuple(tuple(ListedStep(*s) for s in row) for row in content.subpolicies), views, operations)


@functools.cache
def published_list(dataset: str) -> Listed:
    """The subpolicies that Fast AutoAugment's authors published for a data set, rounded to four decimals."""
    if dataset not in FAST_AUTOAUGMENT:
        raise unknown("policy of Fast AutoAugment", dataset, FAST_AUTOAUGMENT)
    file = importlib.resources.files("coviews.policies") / "fast_autoaugment" / f"{dataset}.json"
    with importlib.resources.as_file(file) as path:
        return read_listed(path).subpolicies


@dataclass(frozen=True)
class FastAutoAugment:
    """For each view one of the published subpolicies; operations that the space does not have are left out.

    Lim et al., Fast AutoAugment, NeurIPS 2019.
    """

    dataset: str
    views: int = 2
    space: Space = field(default_factory=range_space)

    def __post_init__(self) -> None:
        published_list(self.dataset)  # an error if there is none

    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        """Draw subpolicies for n images."""
        return self._policy.sample(n, generator)

    @functools.cached_property
    def _policy(self) -> ListedPolicy:
        return ListedPolicy(published_list(self.dataset), self.views, self.space)
