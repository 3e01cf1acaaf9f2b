"""The rotation probe: how well a linear classifier tells by how many quarters an image was turned; needs no labels.

Reed et al., SelfAugment: Automatic Augmentation Policies for Self-Supervised Learning, CVPR 2021: over augmentation
policies, this accuracy goes with that of a linear probe with labels.
"""

import numpy as np

from coviews.encoders.features import Features
from coviews.errors import CoviewsError
from coviews.evaluation.linear import PLAIN, fast_probe
from coviews.ops.images import Images

TURNS = 4  # quarters of a turn, from none to three


def turns(images: Images) -> list[Images]:
    """Square images (N, H, H, C) by 0 to 3 quarter turns, counterclockwise."""
    return [np.ascontiguousarray(np.rot90(images, turn, (1, 2))) for turn in range(TURNS)]


def rotation_probe(*turned: Features) -> float:
    """The share of images whose turn is named by a probe that was fitted to other images.

    Every second image is learned from, in all turns; the others are judged.

    turned: features (N, D) of the same images by 0 to 3 quarter turns.
    """
    n = len(turned[0])
    if n < 2:
        raise CoviewsError("the rotation probe needs the features of two images at least")
    features, labels = np.concatenate(turned), np.repeat(np.arange(len(turned)), n)
    known = np.tile(np.arange(n) % 2 == 0, len(turned))
    probe = fast_probe(
        features[known], labels[known], features[~known], labels[~known], classes=len(turned), strengths=[PLAIN]
    )
    assert probe.accuracy is not None
    return probe.accuracy
