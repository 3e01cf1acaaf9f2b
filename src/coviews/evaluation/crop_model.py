"""What random crops do to features: learned from the crops of a few images, applied to the features of all.

A probe that learns from random crops of every image, as the paper's does, needs as many passes of the encoder as it has
crops. Here each feature of a crop is modelled as a linear function of the same feature of the whole image, plus a
residual that does not depend on the image and is drawn from the residuals of a few hundred crops.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coviews.encoders.features import Features


@dataclass(frozen=True, eq=False)
class CropModel:
    """The features of a crop: `shift + slope * features of the whole image + residual`."""

    slope: NDArray[np.float32]  # (D,)
    shift: NDArray[np.float32]  # (D,)
    residuals: NDArray[np.float32]  # (M, D)

    @classmethod
    def fit(cls, whole: Features, crops: Features) -> "CropModel":
        """Least squares, each feature by itself.

        Args:
            whole: (M, D), features of images.
            crops: (M, D), of a random crop of each.
        """
        mean, crop_mean = whole.mean(0, np.float64), crops.mean(0, np.float64)
        deviation = whole - mean
        variance = np.square(deviation).mean(0)
        varies = variance > 1e-12 * np.square(mean)  # a constant feature says nothing about its crops
        slope = np.where(varies, (deviation * (crops - crop_mean)).mean(0) / np.where(varies, variance, 1), 0)
        parts = slope, crop_mean - slope * mean, crops - crop_mean - slope * deviation
        return cls(*(part.astype(np.float32) for part in parts))

    def draw(self, features: Features, generator: np.random.Generator) -> Features:
        """Features (N, D) as random crops of the images might have them."""
        indices = generator.integers(len(self.residuals), size=len(features))
        return features * self.slope + self.shift + self.residuals[indices]
