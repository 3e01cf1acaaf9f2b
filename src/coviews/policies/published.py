"""AutoAugment: the policies that its authors published for three data sets, as view sources that do not change.

Cubuk et al., AutoAugment: Learning Augmentation Strategies from Data, CVPR 2019; the tables of its appendix. A policy
is 25 subpolicies of two operations; each operation has a probability, and a magnitude of ten bins. One of the
subpolicies is drawn for each view. The authors learned them with labels, for supervised training.
"""

import functools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from coviews.errors import unknown
from coviews.ops.space import AUTOAUGMENT_BINS, Space, space
from coviews.policies.subpolicy import Subpolicies

MIDDLE = 9  # the level of bin 0: level 9 + s * m is bin m with the sign s

# operation, probability, and the magnitude's bin where the operation has a magnitude
AUTOAUGMENT: dict[str, str] = {
    "cifar10": """
        Invert 0.1, Contrast 0.2 6
        Rotate 0.7 2, ShiftX 0.3 9
        Sharpness 0.8 1, Sharpness 0.9 3
        ShearY 0.5 8, ShiftY 0.7 9
        AutoContrast 0.5, Equalize 0.9
        ShearY 0.2 7, Posterize 0.3 7
        Color 0.4 3, Brightness 0.6 7
        Sharpness 0.3 9, Brightness 0.7 9
        Equalize 0.6, Equalize 0.5
        Contrast 0.6 7, Sharpness 0.6 5
        Color 0.7 7, ShiftX 0.5 8
        Equalize 0.3, AutoContrast 0.4
        ShiftY 0.4 3, Sharpness 0.2 6
        Brightness 0.9 6, Color 0.2 8
        Solarize 0.5 2, Invert 0
        Equalize 0.2, AutoContrast 0.6
        Equalize 0.2, Equalize 0.6
        Color 0.9 9, Equalize 0.6
        AutoContrast 0.8, Solarize 0.2 8
        Brightness 0.1 3, Color 0.7 0
        Solarize 0.4 5, AutoContrast 0.9
        ShiftY 0.9 9, ShiftY 0.7 9
        AutoContrast 0.9, Solarize 0.8 3
        Equalize 0.8, Invert 0.1
        ShiftY 0.7 9, AutoContrast 0.9
    """,
    "svhn": """
        ShearX 0.9 4, Invert 0.2
        ShearY 0.9 8, Invert 0.7
        Equalize 0.6, Solarize 0.6 6
        Invert 0.9, Equalize 0.6
        Equalize 0.6, Rotate 0.9 3
        ShearX 0.9 4, AutoContrast 0.8
        ShearY 0.9 8, Invert 0.4
        ShearY 0.9 5, Solarize 0.2 6
        Invert 0.9, AutoContrast 0.8
        Equalize 0.6, Rotate 0.9 3
        ShearX 0.9 4, Solarize 0.3 3
        ShearY 0.8 8, Invert 0.7
        Equalize 0.9, ShiftY 0.6 6
        Invert 0.9, Equalize 0.6
        Contrast 0.3 3, Rotate 0.8 4
        Invert 0.8, ShiftY 0 2
        ShearY 0.7 6, Solarize 0.4 8
        Invert 0.6, Rotate 0.8 4
        ShearY 0.3 7, ShiftX 0.9 3
        ShearX 0.1 6, Invert 0.6
        Solarize 0.7 2, ShiftY 0.6 7
        ShearY 0.8 4, Invert 0.8
        ShearX 0.7 9, ShiftY 0.8 3
        ShearY 0.8 5, AutoContrast 0.7
        ShearX 0.7 2, Invert 0.1
    """,
    "imagenet": """
        Posterize 0.4 8, Rotate 0.6 9
        Solarize 0.6 5, AutoContrast 0.6
        Equalize 0.8, Equalize 0.6
        Posterize 0.6 7, Posterize 0.6 6
        Equalize 0.4, Solarize 0.2 4
        Equalize 0.4, Rotate 0.8 8
        Solarize 0.6 3, Equalize 0.6
        Posterize 0.8 5, Equalize 1
        Rotate 0.2 3, Solarize 0.6 8
        Equalize 0.6, Posterize 0.4 6
        Rotate 0.8 8, Color 0.4 0
        Rotate 0.4 9, Equalize 0.6
        Equalize 0, Equalize 0.8
        Invert 0.6, Equalize 1
        Color 0.6 4, Contrast 1 8
        Rotate 0.8 8, Color 1 2
        Color 0.8 8, Solarize 0.8 7
        Sharpness 0.4 7, Invert 0.6
        ShearX 0.6 5, Equalize 1
        Color 0.4 0, Equalize 0.6
        Equalize 0.4, Solarize 0.2 4
        Solarize 0.6 5, AutoContrast 0.6
        Invert 0.6, Equalize 1
        Color 0.6 4, Contrast 1 8
        Equalize 0.8, Equalize 0.6
    """,
}


@dataclass(frozen=True)
class PublishedStep:
    """One operation of a published subpolicy."""

    op: str
    probability: float
    bin: int = 0  # of the magnitude, 0 to 9

    @classmethod
    def parsed(cls, text: str) -> "PublishedStep":
        """Such as `Rotate 0.7 2`."""
        op, probability, *magnitude = text.split()
        return cls(op, float(probability), *map(int, magnitude))


@functools.cache
def published_policy(dataset: str) -> tuple[tuple[PublishedStep, PublishedStep], ...]:
    """The subpolicies that AutoAugment's authors published for a data set."""
    if dataset not in AUTOAUGMENT:
        raise unknown("policy of AutoAugment", dataset, AUTOAUGMENT)
    lines = AUTOAUGMENT[dataset].strip().splitlines()
    pairs = (line.split(",") for line in lines)
    return tuple((PublishedStep.parsed(first), PublishedStep.parsed(second)) for first, second in pairs)


def _bins() -> Space:
    return space(AUTOAUGMENT_BINS)


@dataclass(frozen=True)
class AutoAugment:
    """For each view one of the published subpolicies; operations that the space does not have are left out."""

    dataset: str
    views: int = 2
    space: Space = field(default_factory=_bins)

    def __post_init__(self) -> None:
        published_policy(self.dataset)  # an error if there is none

    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        """Draw subpolicies for n images."""
        ops, probabilities, bins = self._table
        rows = generator.integers(0, len(ops), (n, self.views))
        shape = (n, self.views, ops.shape[1])
        applied = generator.random(shape) < probabilities[rows]
        signs = generator.choice(np.array([-1, 1], np.int16), shape)
        drawn = np.where(applied, ops[rows], np.int16(self.space.identity))
        signed = self.space.values[:, 0] != self.space.values[:, -1]
        return Subpolicies(self.space, drawn, MIDDLE + np.where(signed[drawn], signs, 1) * bins[rows])

    @functools.cached_property
    def _table(self) -> tuple[NDArray[np.int16], NDArray[np.float64], NDArray[np.int16]]:
        """Operations, probabilities and bins of each subpolicy, (25, 2) each."""
        policy, own = published_policy(self.dataset), self.space
        ops = [[own.index(s.op) if s.op in own.ops else own.identity for s in pair] for pair in policy]
        probabilities = [[s.probability for s in pair] for pair in policy]
        return (
            np.array(ops, np.int16),
            np.array(probabilities),
            np.array([[s.bin for s in p] for p in policy], np.int16),
        )
