"""Which channels of an image a picture shows, and its levels in 8 bits."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError

Shown = tuple[int, ...]  # the indices of one channel, which is shown grey, or of those shown red, green and blue


def check_shown(text: str | None) -> None:
    """An error for a choice of channels that is not one number or three, counted from 1."""
    if text is not None and not re.fullmatch(r"[1-9]\d?(,[1-9]\d?,[1-9]\d?)?", text):
        raise CoviewsError(
            f"write the channels to show as red, green and blue, counted from 1, such as 3,2,1; or one: not {text!r}"
        )


def shown_channels(text: str | None, channels: int) -> Shown:
    """The channels to show of so many: those chosen, or the first three, or the first one if there are fewer."""
    check_shown(text)
    if text is None:
        return (0, 1, 2) if channels >= 3 else (0,)
    numbers = [int(part) for part in text.split(",")]
    if max(numbers) > channels:
        there = "1 channel" if channels == 1 else f"{channels} channels"
        raise CoviewsError(f"there is no channel {max(numbers)} to show: the images have {there}")
    return tuple(number - 1 for number in numbers)


def shown_text(text: str | None, channels: int) -> str:
    """What pictures show, for people; empty where it goes without saying."""
    if text is None and channels in (1, 3):
        return ""
    shown = [str(index + 1) for index in shown_channels(text, channels)]
    if len(shown) == 1:
        return f"channel {shown[0]} of {channels} is shown"
    return f"channels {', '.join(shown)} of {channels} are shown as red, green and blue"


def picture_levels(pixels: NDArray[Any], shown: Shown | None = None) -> NDArray[np.uint8]:
    """Images (..., C) of 8 or 16 bits as levels (..., 1) or (..., 3) of 8 bits.

    shown: which channels; by default the first three, or the first one if there are fewer.
    """
    chosen = shown or shown_channels(None, pixels.shape[-1])
    if chosen != tuple(range(pixels.shape[-1])):
        pixels = pixels[..., list(chosen)]
    return (pixels >> 8).astype(np.uint8) if pixels.dtype == np.uint16 else pixels
