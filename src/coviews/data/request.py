"""What `load_images` was asked for: the options that apply to every format."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.data.frames import FRAMES
from coviews.data.imageset import Broken
from coviews.data.levels import MAX_PIXELS, MOST_CHANNELS, ValueRange, checked_range
from coviews.data.source import Source
from coviews.data.subset import choose_subset
from coviews.errors import CoviewsError, unknown
from coviews.ops.images import LARGEST

_NAMED = 3  # broken files that a message names
_MANY = 20  # with at least this many images, one may always be broken


@dataclass(frozen=True)
class ImageRequest:
    """The options of `load_images`, checked."""

    size: tuple[int, int] | None  # height, width
    channels: int | None
    limit: int | None
    subset: str | int | float | None
    subset_seed: int
    root: Path  # the folder of the known sets
    download: bool
    max_broken: float
    cache: Path
    memory: int | None  # bytes
    progress: bool
    depth: int | None = None  # 8 or 16 bits, of images that have more than 8
    values: ValueRange | None = None  # that becomes the range of the levels; by default that of the images
    frames: str | None = None
    max_pixels: int = MAX_PIXELS  # of an image file
    max_side: int | None = None  # of the images, if no size is given
    stream: bool = False  # whether images are decoded whenever they are needed, with little memory for each
    notes: list[str] = field(default_factory=list)  # warnings to show once the images are loaded
    remarks: list[str] = field(default_factory=list)  # how the images were read, where there was a choice

    def __post_init__(self) -> None:
        check_channels(self.channels)
        check_depth_and_frames(self.depth, self.frames)
        if self.values is not None:
            try:
                object.__setattr__(self, "values", checked_range(self.values, len(self.values)))
            except (TypeError, ValueError) as error:
                raise CoviewsError(str(error)) from error
        if self.max_side is not None:
            checked_size(self.max_side)
        if self.limit is not None and self.limit < 1:
            raise CoviewsError(f"the limit must be at least 1 image, not {self.limit}")
        if not 0 <= self.max_broken <= 1:
            raise CoviewsError(f"max_broken is a share of the images, 0 to 1, not {self.max_broken!r}")
        if type(self.max_pixels) is not int or self.max_pixels < 1:
            raise CoviewsError(f"--max-pixels must be a whole number from 1, not {self.max_pixels!r}")
        if self.memory is not None and self.memory < 0:
            raise CoviewsError(f"memory is a number of bytes, not {self.memory!r}")

    def title(self, text: str) -> str:
        """The title of a progress bar; empty if no progress is to be shown."""
        return text if self.progress else ""

    def indices(self, source: Source) -> NDArray[np.int64]:
        """The indices of the images to load, before any image is decoded."""
        n = len(source)
        if self.subset is None or not n:
            indices = np.arange(n)
        else:
            labels = source.known_labels()
            indices = choose_subset(n, None if labels is None else labels.values, self.subset, self.subset_seed)
        return indices if self.limit is None else indices[_spread(len(indices), self.limit)]

    @property
    def limits(self) -> tuple[int | None, ...]:
        """Limits that are not the default ones: they change what is decoded."""
        standard = (self.max_pixels, self.max_side) == (MAX_PIXELS, None)
        return () if standard else (self.max_pixels, self.max_side)

    def size_for(self, common: tuple[int, int]) -> tuple[int, int]:
        """The size of the images, of which `common` is the most common height and width."""
        small = self.max_side is None or max(common) <= self.max_side or common[0] == 1  # a series keeps its length
        if self.size is not None or self.max_side is None or small:
            return self.size or common
        height, width = (max(1, side * self.max_side // max(common)) for side in common)
        return height, width

    def check_broken(self, broken: Sequence[Broken], total: int, where: str) -> None:
        """Raise an error if too many images are broken."""
        allowed = int(self.max_broken * total)
        if self.max_broken > 0 and total >= _MANY:
            allowed = max(1, allowed)
        if len(broken) > allowed:
            raise CoviewsError(
                f"{len(broken)} of {total} images in {where} are broken, more than the {allowed} that may be "
                f"(max_broken = {self.max_broken:g}): {listed(broken)}"
            )


def check_channels(channels: Any) -> None:
    """An error for a number of channels that images cannot have."""
    if channels is not None and (type(channels) is not int or not 1 <= channels <= MOST_CHANNELS):
        raise CoviewsError(
            f"channels must be 1 for grey, 3 for colour, or another number up to {MOST_CHANNELS}, not {channels!r}"
        )


def check_depth_and_frames(depth: int | None, frames: str | None) -> None:
    """An error for a depth or a way to read pages that does not exist."""
    if depth not in (None, 8, 16):
        raise CoviewsError(f"the depth must be 8 or 16 bits, not {depth!r}")
    if frames is not None and frames not in FRAMES:
        raise unknown("way to read frames", frames, FRAMES)


def checked_size(size: Any) -> tuple[int, int] | None:
    """The size as (height, width), or an error that says what a size may be."""
    if size is None:
        return None
    pair = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(pair) != 2 or not all(isinstance(s, int | np.integer) and 0 < s <= LARGEST for s in pair):
        raise CoviewsError(
            f"the size must be a whole number of 1 to {LARGEST} pixels, or (height, width), not {size!r}"
        )
    return int(pair[0]), int(pair[1])


def listed(broken: Sequence[Broken]) -> str:
    """The first broken files by name, and the number of the others."""
    named = ", ".join(f"{name} ({why})" for name, why in broken[:_NAMED])
    return named + (f" and {len(broken) - _NAMED} more" if len(broken) > _NAMED else "")


def _spread(n: int, limit: int) -> NDArray[np.int64]:
    """At most `limit` of n indices, evenly spaced: the first files of a sorted folder are all of one class."""
    return np.arange(min(n, limit)) * n // min(n, limit) if n else np.empty(0, np.int64)
