"""What the placement of a pair of views adds to its loss: where the two crops lie, and how they are turned.

Each feature of a pair is cut into bins by fixed edges, so that its effects are a table, as those of the operations are.
"""

from dataclasses import asdict, dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from coviews.boundary.schema import Schema, checked_fields
from coviews.errors import CoviewsError
from coviews.ops.placement import Placement
from coviews.ops.plan import Plan, Size

Numbers = NDArray[np.float64]
Views = int | NDArray[np.integer]  # an index, or indices

_Side = Annotated[int, msgspec.Meta(ge=1, le=65_536)]  # of an image, in pixels

# the features of a pair, and the edges between the bins of each
EDGES: dict[str, tuple[float, ...]] = {
    "overlap": (0.2, 0.4, 0.6, 0.75, 0.9, 0.999),  # the share of the smaller crop that the other one covers
    "area ratio": (1.2, 1.4, 1.7, 2.1, 2.8, 4.0),  # the larger area over the smaller one
    "smaller area": (0.12, 0.2, 0.25, 0.3, 0.37, 0.46, 0.6, 0.8),  # as a share of the image
    "distance": (0.04, 0.08, 0.13, 0.18, 0.25, 0.35),  # of the centres, in sides of the image
    "mirrored": (0.5,),  # whether exactly one of the two is
    "upside down": (0.5,),  # whether exactly one of the two is
    "turned": (0.5,),  # whether the two are turned by different angles
}
COUNTS = np.array([len(edges) + 1 for edges in EDGES.values()])  # bins of each feature
FIRSTS = np.cumsum(COUNTS) - COUNTS  # the place of each feature's first bin among all bins


def placement_features(plan: Plan) -> Numbers:
    """(F, n): the features of each pair of views, in the order of `EDGES`."""
    if plan.views != 2:
        raise CoviewsError(f"the placement of pairs of views is described, and the plan has {plan.views} views")
    return _pair_features(plan, 0, 1)


def _pair_features(plan: Plan, first: Views, second: Views) -> Numbers:
    """(F, n) or (F, n, P): the features of these pairs of views of each image."""
    height, width = plan.image_size
    boxes = [np.moveaxis(plan.boxes[:, v], -1, 0) for v in (first, second)]  # (4, ...): left, top, right, bottom
    sides = np.array([width, height, width, height]).reshape(4, *(1,) * (boxes[0].ndim - 1))
    one, other = (box / sides for box in boxes)
    areas = [(right - left) * (bottom - top) for left, top, right, bottom in (one, other)]
    smaller, larger = np.minimum(*areas), np.maximum(*areas)
    across, down = np.maximum(np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2]), 0)
    x, y = (one[:2] + one[2:] - other[:2] - other[2:]) / 2  # from centre to centre
    different = [a[:, first] != a[:, second] for a in (plan.flips, plan.vertical_flips, plan.turns)]
    return np.stack([across * down / smaller, larger / smaller, smaller, np.hypot(x, y), *different])


def placement_bins(plan: Plan) -> NDArray[np.uint8]:
    """(n, F): the bin of each feature of each pair."""
    return _bins(placement_features(plan))


def pair_bins(plan: Plan, first: NDArray[np.integer], second: NDArray[np.integer]) -> NDArray[np.uint8]:
    """(n, P, F): the bin of each feature of each pair of views, of a plan with more than two; those of P pairs."""
    return _bins(_pair_features(plan, first, second))


def _bins(features: Numbers) -> NDArray[np.uint8]:
    bins = [np.searchsorted(edges, x, "right") for edges, x in zip(EDGES.values(), features, strict=True)]
    return np.stack(bins, -1).astype(np.uint8)


@dataclass(frozen=True, eq=False)
class PlacementEffects:
    """The effect of each bin of each feature, and the placement that it was learned with."""

    values: NDArray[np.float32]  # (bins of all features,)
    placement: Placement
    image_size: Size

    def __post_init__(self) -> None:
        if self.values.shape != (COUNTS.sum(),):
            raise CoviewsError(f"the effects of the placement have the shape {self.values.shape}, not {COUNTS.sum()}")

    def of(self, bins: NDArray[np.uint8]) -> Numbers:
        """(n, F) -> (n,): the effects of each pair's placement, added up."""
        total = np.zeros(len(bins))
        for feature, first in enumerate(FIRSTS):
            total += self.values.take(first + bins[:, feature].astype(np.intp))
        return total

    def description(self) -> dict[str, Any]:
        """All but the values, as plain JSON."""
        return {"placement": asdict(self.placement), "image_size": list(self.image_size), "edges": _edges()}


class CropsDescription(Schema):
    """The placement that effects were learned with, in a file."""

    placement: dict[str, Any]
    image_size: tuple[_Side, _Side]
    edges: dict[str, list[float]]


def read_placement_effects(values: NDArray[np.float32], description: CropsDescription) -> PlacementEffects:
    """The inverse of `PlacementEffects.description`."""
    if description.edges != _edges():
        raise CoviewsError(
            "its effects of crops have other bins than those of this version of coviews: install the version that "
            "wrote it"
        )
    placement = checked_fields(description.placement, Placement, "its description of crops")
    return PlacementEffects(values, placement, description.image_size)


def _edges() -> dict[str, list[float]]:
    return {name: list(edges) for name, edges in EDGES.items()}
