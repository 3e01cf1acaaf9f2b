"""Files with several pages: which of them become the image, and what is said about it."""

import math
from typing import NamedTuple

from coviews.data.levels import MOST_CHANNELS

FRAMES = ("channels", "middle", "each")


class Axes(NamedTuple):
    """The axes of a stack besides height, width and colour, such as Z and C, and their lengths."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]


class Stack(NamedTuple):
    """How the pages of a file are read."""

    pages: tuple[int, ...]  # those that are read, in the order of the file
    channels: int  # of all of them together
    remark: str = ""  # for people; empty for a file of one page


def choose_frames(axes: Axes, samples: int, frames: str | int | None) -> Stack:
    """The pages that are read.

    Args:
        axes: of the pages.
        samples: channels of one page.
        frames: `channels` for all pages as channels, `middle` for the middle page, or the number of a page; None for
            the pages along an axis that the file calls channels, and the middle of every other axis.
    """
    count = math.prod(axes.sizes)
    if count == 1:
        _check_channels(samples)
        return Stack((0,), samples)
    if isinstance(frames, int):
        _check_channels(samples)
        return Stack((frames,), samples)
    if frames == "channels":
        if count * samples > MOST_CHANNELS:
            raise ValueError(
                f"{count} pages are more than {MOST_CHANNELS} channels: use --frames middle, or --frames each"
            )
        return Stack(tuple(range(count)), count * samples, f"{count} pages are the channels of one image")
    declared = axes.names.index("C") if "C" in axes.names and frames is None else None
    if declared is not None and axes.sizes[declared] * samples > MOST_CHANNELS:
        declared = None
    pages = [0]
    for place, size in enumerate(axes.sizes):
        indices = range(size) if place == declared else [size // 2]
        pages = [page * size + index for page in pages for index in indices]
    _check_channels(samples)
    if declared is None:
        remark = f"of {count} pages the middle one is taken (--frames channels or each for all)"
    elif len(pages) < count:
        remark = f"of {count} pages the {len(pages)} channels in the middle are taken (--frames each for all)"
    else:
        remark = f"{count} pages are the channels of one image, as the file says"
    return Stack(tuple(pages), len(pages) * samples, remark)


def _check_channels(channels: int) -> None:
    if not 1 <= channels <= MOST_CHANNELS:
        raise ValueError(f"{channels} channels: 1 to {MOST_CHANNELS} are possible")
