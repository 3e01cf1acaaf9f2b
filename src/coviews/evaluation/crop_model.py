"""What random crops do to features, learned from the crops of few images and done to the features of all.

A probe that learns from random crops of every image, as the paper's does, needs as many passes of the encoder as it has
crops. Here each feature of a crop is taken for a linear function of the same feature of the whole image, plus a rest
that does not depend on the image: the rests of a few hundred crops are drawn from.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coviews.encoders.features import Features


@dataclass(frozen=True, eq=False)
class Scatter:
    """A crop's features, given those of the whole image: `shift + slope * features`, and one of the rests."""

    slope: NDArray[np.float32]  # (D,)
    shift: NDArray[np.float32]  # (D,)
    rests: NDArray[np.float32]  # (M, D)

    @classmethod
    def of(cls, whole: Features, crops: Features) -> "Scatter":
        """Least squares, each feature by itself.

        Args:
            whole: (M, D), features of images.
            crops: (M, D), of a random crop of each.
        """
        middle, target = whole.mean(0, np.float64), crops.mean(0, np.float64)
        apart = whole - middle
        spread = np.square(apart).mean(0)
        known = spread > 1e-12 * np.square(middle)  # what is constant tells nothing of its crops
        slope = np.where(known, (apart * (crops - target)).mean(0) / np.where(known, spread, 1), 0)
        parts = slope, target - slope * middle, crops - target - slope * apart
        return cls(*(part.astype(np.float32) for part in parts))

    def draw(self, features: Features, generator: np.random.Generator) -> Features:
        """Features (N, D) as random crops of the images might have them."""
        chosen = generator.integers(len(self.rests), size=len(features))
        return features * self.slope + self.shift + self.rests[chosen]
