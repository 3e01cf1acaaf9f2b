"""Random crops and flips without a policy, made by the engine that makes the views of training."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from coviews.ops.engine import make_views
from coviews.ops.images import Images
from coviews.ops.space import Space, space

if TYPE_CHECKING:
    from coviews.policies.subpolicy import Subpolicies

AREA = (0.2, 1.0)  # least and largest share of the image, as in training


def random_crops(
    images: Images,
    generator: np.random.Generator,
    *,
    area: tuple[float, float] | None = AREA,
    flip: float = 0.0,
    views: int = 1,
) -> Images:
    """(B, H, W, C) -> (B, V, H, W, C), each a random resized crop of its image."""
    nothing = cast("Subpolicies", _Nothing(len(images), views))
    return make_views(images, nothing, generator, crop=area, flip=flip)


@dataclass(frozen=True)
class _Nothing:
    """Identity for each view of each image, as the engine reads subpolicies: `evaluate` knows no policy."""

    count: int
    views: int

    def __len__(self) -> int:
        return self.count

    @property
    def space(self) -> Space:
        return space("autoaugment")

    def applied(self, generator: np.random.Generator) -> "_Nothing":
        return self

    @property
    def ops(self) -> NDArray[np.int16]:
        ops = np.full((self.count, self.views, 1), self.space.identity, np.int16)
        ops.flags.writeable = False  # as those of subpolicies: the engine is compiled for that
        return ops

    @property
    def levels(self) -> NDArray[np.int16]:
        return self.ops  # without meaning for Identity, but a valid index
