"""From values of any depth to the levels that are stored: the range of a data set, and images scaled by it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from PIL import Image, ImageOps

from coviews.ops.kernels.layout import CHANNELS

ValueRange = tuple[tuple[float, float], ...]  # for each channel, the values that become the lowest and highest level

MOST_CHANNELS = CHANNELS
_PERCENTILES = (0.1, 99.9)
_PIXELS = 10_000  # of an image of the sample, at most
_FACTOR = 10  # ranges of channels that differ by more are kept apart
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


MAX_PIXELS = 50_000_000  # of an image file: a larger one is decoded reduced where its format can, or else skipped


class Target(NamedTuple):
    """What every image is decoded to."""

    height: int
    width: int
    channels: int
    dtype: DTypeLike = np.uint8  # uint8, uint16, or float32 for values as they are
    values: ValueRange | None = None  # of images that are deeper than 8 bits
    max_pixels: int = MAX_PIXELS  # an image with more is decoded reduced

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of an image."""
        return self.height, self.width, self.channels


class OtherChannels(ValueError):
    """An image whose channels cannot become those of the others."""

    def __init__(self, channels: int, wanted: int) -> None:
        super().__init__(f"{channels} channels, not {wanted}")


def channels_come_first(first: int, last: int, *, prefer_first: bool = False) -> bool:
    """Whether of the first and the last side of an image the first one is its channels: 1 or 3, or else 1 to 16.

    prefer_first: take the first one where both can be meant.
    """
    for counts in ((1, 3), range(1, MOST_CHANNELS + 1)):
        if first in counts or last in counts:
            return first in counts and (prefer_first or last not in counts)
    return False


def is_plain(dtype: DTypeLike) -> bool:
    """Whether values of this type are 8-bit levels already; an error if they are no values of pixels."""
    kind = np.dtype(dtype)
    if kind.kind not in "biuf":
        raise ValueError(f"values of type {kind}: whole numbers or floats are needed")
    return kind.itemsize == 1 and kind.kind in "bu"


def fitted_array(pixels: NDArray[Any], target: Target) -> tuple[NDArray[Any], bool]:
    """An image (H, W, C) of any type resized to cover the target, cropped to its middle, and scaled to its levels.

    Returns:
        The image, and whether it was resized.
    """
    plain, bits = is_plain(pixels.dtype), np.dtype(target.dtype)
    if pixels.dtype.kind == "b":
        pixels = pixels.astype(np.uint8) * 255
    resized = pixels.shape[:2] != (target.height, target.width)
    if not plain:
        pixels = _finite(pixels.astype(np.float32), target)
    pixels = _with_channels(pixels, target.channels)
    if resized:
        size = (target.width, target.height)
        pictures = (Image.fromarray(np.ascontiguousarray(pixels[..., k])) for k in range(pixels.shape[2]))
        parts = [np.asarray(ImageOps.fit(picture, size, Image.Resampling.BILINEAR)) for picture in pictures]
        pixels = np.stack(parts, -1)
    if plain or bits == np.float32:
        return widened(pixels, target.dtype), resized
    return scaled(pixels, target.values or ((0.0, 65535.0),) * target.channels, target.dtype), resized


def widened(levels: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """8-bit levels in another type; white stays white."""
    return levels.astype(dtype) * 257 if np.dtype(dtype) == np.uint16 else levels.astype(dtype, copy=False)


def scaled(values: NDArray[Any], ranges: ValueRange, dtype: DTypeLike) -> NDArray[Any]:
    """Values (H, W, C) as levels: each channel's range becomes all levels of the type; the rest is clipped."""
    low, high = np.array(ranges, np.float32).T
    span = np.where(high > low, high - low, 1)
    return np.rint(np.clip((values - low) / span, 0, 1) * np.iinfo(dtype).max).astype(dtype)


def some_pixels(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """As many pixels of an image (H, W, C) as tell the range of its values, as (n, 1, C): a copy."""
    rows = image.reshape(-1, 1, image.shape[2])
    return rows[:: -(-len(rows) // _PIXELS)].copy()


def value_range(images: Sequence[NDArray[np.float32]]) -> ValueRange:
    """The range of values in a sample of images (H, W, C): 0.1 % of the pixels are below it, and 0.1 % above.

    All channels have one range, so that their proportions stay; each has its own if the ranges are very different.
    """
    pixels = np.concatenate([some_pixels(image)[:, 0] for image in images])  # (n, C)
    pixels = np.where(np.isfinite(pixels), pixels, np.nan)
    empty = np.isnan(pixels).all(0)
    pixels[:, empty] = 0  # a channel without a single number
    bounds = np.nanpercentile(pixels, _PERCENTILES, axis=0).T  # (C, 2)
    spans = np.ptp(bounds, axis=1)[~empty]
    whole = bounds[~empty] if len(spans) else bounds
    if len(spans) > 1 and (np.ptp(whole) > _FACTOR * spans[spans > 0]).any():
        return tuple((float(low), float(high)) for low, high in bounds)
    low, high = np.nanpercentile(pixels[:, ~empty] if len(spans) else pixels, _PERCENTILES)
    return ((float(low), float(high)),) * len(bounds)


def range_text(ranges: ValueRange, dtype: DTypeLike) -> str:
    """What was done to values, for people: 'values 300 to 1,300 scaled to 0 to 65,535'."""
    texts = [f"{_number(low)} to {_number(high)}" for low, high in ranges]
    to = f"scaled to 0 to {np.iinfo(dtype).max:,}"
    if len(set(ranges)) == 1:
        return f"values {texts[0]} {to}"
    return f"values {', '.join(texts)} (channel by channel, since their ranges are very different) {to}"


def checked_range(values: Any, channels: int) -> ValueRange:
    """A range as read from a file, or a ValueError."""
    ranges = tuple((float(low), float(high)) for low, high in values)
    if len(ranges) != channels or not np.isfinite(ranges).all() or any(low > high for low, high in ranges):
        raise ValueError(f"a range of values for each of {channels} channels is needed, not {values!r}")
    return ranges


def _number(value: float) -> str:
    """With three digits at least, and thousands marked."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _finite(values: NDArray[np.float32], target: Target) -> NDArray[np.float32]:
    """What is no number becomes the lowest value, an infinite one the lowest or highest."""
    good = np.isfinite(values)
    if good.all():
        return values
    if not good.any():
        raise ValueError("none of its values is a finite number")
    if np.dtype(target.dtype) == np.float32:
        return values  # the range is of the finite ones
    low, high = np.array(target.values or [(0.0, 65535.0)], np.float32).T
    bounded = np.clip(values, low.min(), high.max())
    return np.where(np.isnan(values), low if len(low) == values.shape[2] else low.min(), bounded)


def _with_channels(pixels: NDArray[Any], channels: int) -> NDArray[Any]:
    """Grey as colour, colour as grey, or as it is."""
    count = pixels.shape[2]
    if count == channels:
        return pixels
    if (count, channels) == (1, 3):
        return np.repeat(pixels, 3, axis=2)
    if (count, channels) == (3, 1) and pixels.dtype == np.uint8:
        return np.asarray(Image.fromarray(np.ascontiguousarray(pixels)).convert("L"))[..., None]
    if (count, channels) == (3, 1):
        return (pixels @ _LUMA)[..., None]
    raise OtherChannels(count, channels)
