"""InfoMin's hand-made augmentation as a view source that does not change.

Tian et al., What Makes for Good Views for Contrastive Learning?, NeurIPS 2020. The figures are those of the authors'
code (PyContrast, augmentation D): strong colour jitter, blur, two operations of RandAugment at the highest magnitude,
and grey. Two parts are left out: the branch of jigsaw pieces, which needs an encoder of its own, and SolarizeAdd, which
is no operation of Pillow. The authors crop before the operations; here, as for every source, the crop comes last.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from coviews.ops.space import FINE, Space, space
from coviews.policies.subpolicy import Subpolicies

JITTER, BLUR, GREY = 0.8, 0.5, 0.2  # the probabilities that a view is jittered, blurred, grey
_MARGIN = 0.1 / 1.8  # the jitter's factors of 0.2 to 1.8 are the range of 0.1 to 1.9 without so much at each end
_ROUNDING = 1e-6  # a level that should be whole may come out slightly smaller
STEPS, APPLIED = 2, 0.5  # operations of RandAugment, and the probability that each is applied
MAGNITUDE, SPREAD, MOST = 10.0, 0.5, 10.0  # of RandAugment: the mean, the standard deviation and the largest
JITTERED = ("Brightness", "Contrast", "Color", "Hue")
SIGNED = ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY")  # the magnitude is of either sign
RANDAUGMENT = (
    "AutoContrast", "Equalize", "Invert", "Rotate", "Posterize", "Solarize", "Color", "Contrast", "Brightness",
    "Sharpness", "ShearX", "ShearY", "TranslateX", "TranslateY",
)  # fmt: skip


def _own_space() -> Space:
    return space("infomin", levels=FINE)


@dataclass(frozen=True)
class InfoMin:
    """Jitter in any order, blur, two operations of RandAugment, grey; what the space does not have is left out."""

    views: int = 2
    space: Space = field(default_factory=_own_space)

    def sample(self, n: int, generator: np.random.Generator) -> Subpolicies:
        """Draw subpolicies for n images."""
        shape, last = (n, self.views), self.space.levels - 1
        jitter = generator.permuted(np.tile(self._indices(JITTERED), (*shape, 1)), axis=2)
        randaugment = generator.choice(self._indices(RANDAUGMENT), (*shape, STEPS))
        blur, grey = (np.broadcast_to(self._indices((name,)), (*shape, 1)) for name in ("Blur", "Grayscale"))
        drawn = [(jitter, JITTER, 1), (blur, BLUR, 1), (randaugment, APPLIED, STEPS), (grey, GREY, 1)]
        ops = [np.where(generator.random((*shape, k)) < p, some, self.space.identity) for some, p, k in drawn]

        uniform = generator.random((*shape, len(JITTERED)))
        narrow = (jitter != self._indices(("Hue",))) * _MARGIN  # the range of hues is that of the jitter already
        magnitude = np.clip(generator.normal(MAGNITUDE, SPREAD, randaugment.shape), 0, MOST) / MOST
        sign = generator.choice(np.array([-1, 1]), randaugment.shape)
        signed = np.isin(randaugment, self._indices(SIGNED))
        bits = randaugment == self._indices(("Posterize",))  # four times the magnitude, in a range of 1 to 4
        shares = [
            narrow + (1 - 2 * narrow) * uniform,
            generator.random((*shape, 1)),
            np.where(signed, 0.5 + sign * magnitude / 2, np.where(bits, (4 * magnitude - 1) / 3, magnitude)),
            np.zeros((*shape, 1)),
        ]
        levels = np.floor(np.concatenate(shares, 2).clip(0, 1) * last + _ROUNDING).astype(np.int16)
        return Subpolicies(self.space, np.concatenate(ops, 2), levels)

    def _indices(self, names: tuple[str, ...]) -> NDArray[np.int16]:
        """Of operations in the space; that of Identity for those that are left out."""
        own = self.space
        return np.array([own.index(name) if name in own.ops else own.identity for name in names], np.int16)
