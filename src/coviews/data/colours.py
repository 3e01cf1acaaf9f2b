"""Whether images have colours: grey ones may be stored in three channels."""

import numpy as np

from coviews.data.imageset import ImageSet

_SAMPLED = 200  # images that are looked at, evenly spread
_COLOURED = 1 / 128  # mean difference of the strongest and the weakest channel, as a share of the range


def has_colour(images: ImageSet) -> bool:
    """Whether images have colours: all have but grey ones, in one channel or three."""
    if images.images.shape[3] != 3:
        return images.images.shape[3] != 1
    count = min(len(images), _SAMPLED)
    some = images.images[np.arange(count) * len(images) // count]
    return float((some.max(3) - some.min(3)).mean()) > _COLOURED * np.iinfo(some.dtype).max
