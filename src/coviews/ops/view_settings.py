"""What happens to every view besides its operations."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np

from coviews.ops.engine import make_view_groups, make_views
from coviews.ops.images import Images, channel_statistics, value_limit
from coviews.ops.placement import Placement
from coviews.ops.plan import Plan, Size

if TYPE_CHECKING:
    from coviews.policies.subpolicy import Subpolicies, ViewSource

OUTSIDE = ("black", "mean", "border")  # what can be outside an image
_SAMPLED = 1000  # images whose borders are looked at


class ViewKeywords(TypedDict, total=False):
    """The fields of `ViewSettings`."""

    placement: Placement
    sizes: tuple[Size, ...]
    fill: tuple[int, ...] | None
    outside: tuple[int, ...] | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    threads: int | None


@dataclass(frozen=True)
class ViewSettings:
    """What happens to every view besides its operations, in training and in the search alike."""

    placement: Placement = field(default_factory=Placement)
    """How views are cut out of their image, flipped and turned."""
    sizes: tuple[Size, ...] = ()
    """The height and width of each view; those of the image if empty."""
    fill: tuple[int, ...] | None = None
    """The colour of a cutout, a value for each channel; the mean of the data set is a good choice. Grey if None."""
    outside: tuple[int, ...] | None = None
    """The colour that rotations, shears and translations bring in from outside the image; black if None."""
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    """The mean of each channel in 0..1, for the normalisation."""
    std: tuple[float, ...] = (0.25, 0.25, 0.25)
    """The standard deviation of each channel."""
    threads: int | None = None
    """The number of threads that make views; all cores if None."""

    @classmethod
    def of(cls, images: Images, **changes: Unpack[ViewKeywords]) -> "ViewSettings":
        """Settings with the fill colour and the normalisation of these images."""
        mean, std = (tuple(round(x, 6) for x in s) for s in channel_statistics(images))
        fill = tuple(round(value_limit(images) * m) for m in mean)
        return replace(cls(fill=fill, mean=mean, std=std), **changes)

    def plan(
        self, source: "ViewSource | Subpolicies", n: int, image_size: Size, generator: np.random.Generator
    ) -> Plan:
        """A plan for n images, with operations by a view source, or given ones."""
        return Plan.draw(source, n, image_size, generator, self.placement, self.sizes)

    def make(self, images: Images, plan: Plan) -> Images:
        """The views of a plan in which all have one size: (B, V, height, width, C)."""
        return make_views(images, plan, fill=self.fill, outside=self.outside, threads=self.threads)

    def make_groups(self, images: Images, plan: Plan) -> list[Images]:
        """The views of a plan, an array for each run of views of one size."""
        return make_view_groups(images, plan, fill=self.fill, outside=self.outside, threads=self.threads)


def outside_colour(images: Images, name: str) -> tuple[int, ...] | None:
    """The colour outside images (N, H, W, C): black (None), their mean, or the median of their borders."""
    if name == "black":
        return None
    if name == "mean":
        mean, _ = channel_statistics(images)
        return tuple(round(value_limit(images) * m) for m in mean)
    some = images[np.arange(min(len(images), _SAMPLED)) * len(images) // min(len(images), _SAMPLED)]
    sides = [some[:, 0], some[:, -1], some[:, :, 0], some[:, :, -1]]
    pixels = np.concatenate([side.reshape(-1, some.shape[3]) for side in sides])
    return tuple(int(value) for value in np.median(pixels, axis=0))
