"""Images that show almost nothing: their pixels hardly differ."""

import numpy as np

from coviews.data.imageset import ImageSet

LEAST = 2.0  # standard deviation of a channel's pixels, in 255ths of the range, below which an image shows nothing
SHARE = 0.01  # of the images from which on it is said
_SAMPLED = 1000  # images that are looked at, evenly spread
_NAMED = 3


def near_constant_note(images: ImageSet) -> str | None:
    """What to say where some images are nearly of one colour; None if there are few."""
    count = min(len(images), _SAMPLED)
    indices = np.arange(count) * len(images) // count
    scale = 255 / np.iinfo(images.images.dtype).max
    empty = [int(i) for i in indices if images.images[i].std((0, 1)).max() * scale < LEAST]
    if not empty or len(empty) < SHARE * count:
        return None
    names = [f"item {i}" if images.names is None else images.names[i] for i in empty[:_NAMED]]
    more = ", ..." if len(empty) > _NAMED else ""
    sampled = f"{count:,} images" if count == len(images) else f"{count:,} images that were looked at"
    return (
        f"{len(empty):,} of {sampled} are nearly of one colour ({', '.join(names)}{more}): their views cannot be told "
        "apart, and an encoder learns nothing from them; leave them out"
    )
