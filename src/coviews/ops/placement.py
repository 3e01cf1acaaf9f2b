"""Where views are cut out of their image, and how they are turned: drawn before the engine runs."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError, unknown
from coviews.ops.kernels.arithmetic import random_bits

AREA = (0.2, 1.0)  # the least and largest area of a random crop
RATIO = (3 / 4, 4 / 3)  # its least and largest aspect
CROPS = ("random", "joint", "none")

# The random stream of each view: which of its numbers decides what. The crop's attempts take 4 to 23.
_FLIP, _LEFT, _TOP, _FLIP_VERTICAL, _ATTEMPTS, _TURNED, _TURN, _JOINT, _PLACES = 0, 1, 2, 3, 4, 24, 25, 26, 64


class Placements(NamedTuple):
    """Where each of n times V views lies in its image, and how it is turned."""

    boxes: NDArray[np.int32]  # (n, V, 4): left, top, right, bottom in pixels of the image
    flips: NDArray[np.bool_]  # (n, V): mirrored left to right
    vertical_flips: NDArray[np.bool_]  # (n, V): mirrored top to bottom
    turns: NDArray[np.int8]  # (n, V): quarter turns, counter-clockwise, after the flips
    spots: NDArray[np.float64]  # (n, V, S, 2): where the middle of a cutout is, as shares of width and height


@dataclass(frozen=True)
class Placement:
    """How views are cut out of their image and turned."""

    crop: str = "random"
    """How the crops of an image are drawn: `random`, each by itself; `joint`, so that the log of the ratio of the first
    two areas is uniform, which makes pairs of very different sizes common (after JointCrop, Zhang et al., AAAI 2025);
    or `none`, the whole image."""
    area: tuple[float, float] = AREA
    """The least and largest area of a crop, as shares of the image."""
    ratio: tuple[float, float] = RATIO
    """The least and largest aspect of a crop, width over height."""
    flip: float = 0.5
    """The probability that a view is mirrored left to right."""
    flip_vertical: float = 0.0
    """The probability that a view is mirrored top to bottom."""
    quarter_turns: float = 0.0
    """The probability that a view is turned by 90, 180 or 270 degrees; square views only."""

    def __post_init__(self) -> None:
        if self.crop not in CROPS:
            raise unknown("crop", self.crop, CROPS)
        if not 0 < self.area[0] <= self.area[1] <= 1:
            raise CoviewsError(f"the crop's area must be a range within 0..1, such as (0.2, 1), not {self.area}")
        if not 0 < self.ratio[0] <= self.ratio[1] < np.inf:
            raise CoviewsError(f"the crop's aspect must be a range such as (0.75, 1.33), not {self.ratio}")
        for name, title in (("flip", "a flip"), ("flip_vertical", "a vertical flip"), ("quarter_turns", "a turn")):
            if not 0 <= getattr(self, name) <= 1:
                raise CoviewsError(f"the probability of {title} must be in 0..1, not {getattr(self, name)}")

    def draw(
        self, n: int, views: int, steps: int, image_size: tuple[int, int], generator: np.random.Generator
    ) -> Placements:
        """Placements for n images; the same generator state gives the same ones.

        Args:
            n: images.
            views: views of each.
            steps: operations of each view, for each of which the place of a cutout is drawn.
            image_size: height and width of the images.
            generator: every draw comes from it.
        """
        seeds = generator.integers(0, 2**64, (n, views), np.uint64)
        boxes, spots = np.empty((n, views, 4), np.int32), np.empty((n, views, steps, 2))
        flips, vertical = np.empty((2, n, views), np.bool_)
        turns = np.empty((n, views), np.int8)
        area = self.area if self.crop != "none" else (0.0, 0.0)
        settings = np.array([*area, *np.log(self.ratio), self.flip, self.flip_vertical, self.quarter_turns])
        _draw(seeds, *image_size, settings, self.crop == "joint", boxes, flips, vertical, turns, spots)
        return Placements(boxes, flips, vertical, turns, spots)


def _jit(function: Any) -> Any:
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # no writable folder for the cache
        return numba.njit(nogil=True, error_model="numpy")(function)


@_jit
def _draw(seeds, h, w, settings, joint, boxes, flips, vertical, turns, spots):  # type: ignore[no-untyped-def]
    """Fill the arrays, each view from its own random stream."""
    n, views = seeds.shape
    for i in range(n):
        for v in range(views):
            seed = seeds[i, v]
            low, high = settings[0], settings[1]
            area = -1.0  # drawn anew in each attempt
            if joint and high > 0 and v < 2:
                area = _joint_area(seeds[i, 0], low, high, v)
            left, top, right, bottom = _crop_box(seed, h, w, settings, area)
            boxes[i, v, 0], boxes[i, v, 1], boxes[i, v, 2], boxes[i, v, 3] = left, top, right, bottom
            flips[i, v] = _uniform(seed, _FLIP) < settings[4]
            vertical[i, v] = _uniform(seed, _FLIP_VERTICAL) < settings[5]
            turns[i, v] = 1 + int(3 * _uniform(seed, _TURN)) if _uniform(seed, _TURNED) < settings[6] else 0
            for step in range(spots.shape[2]):
                spots[i, v, step, 0] = _uniform(seed, _PLACES + 2 * step)
                spots[i, v, step, 1] = _uniform(seed, _PLACES + 1 + 2 * step)


@numba.njit
def _joint_area(seed, low, high, view):  # type: ignore[no-untyped-def]
    """The area of one of the first two views: the log of their ratio is uniform, and so is the rest that is free."""
    width = np.log(high / low)
    ratio = (2 * _uniform(seed, _JOINT) - 1) * width  # of the second over the first
    # the smaller one lies where both are within the range
    smaller = np.log(low) + _uniform(seed, _JOINT + 1) * (width - abs(ratio))
    is_smaller = (ratio > 0) == (view == 0)
    return np.exp(smaller if is_smaller else smaller + abs(ratio))


@numba.njit
def _crop_box(seed, h, w, settings, fixed_area):  # type: ignore[no-untyped-def]
    """A box (left, top, right, bottom) of random area and aspect; in the middle if ten draws do not fit."""
    area_low, area_high, ratio_low, ratio_high = settings[0], settings[1], settings[2], settings[3]
    left, top, cw, ch = 0, 0, w, h
    if area_high > 0:
        cw, ch = 0, 0
        for attempt in range(10):
            share = area_low + (area_high - area_low) * _uniform(seed, _ATTEMPTS + 2 * attempt)
            area = h * w * (share if fixed_area < 0 else fixed_area)
            aspect = np.exp(ratio_low + (ratio_high - ratio_low) * _uniform(seed, _ATTEMPTS + 1 + 2 * attempt))
            cw, ch = round(np.sqrt(area * aspect)), round(np.sqrt(area / aspect))
            if h == 1:  # a series: only its length is cut
                cw, ch = max(1, round(area)), 1
            if 0 < cw <= w and 0 < ch <= h:
                left = int(_uniform(seed, _LEFT) * (w - cw + 1))
                top = int(_uniform(seed, _TOP) * (h - ch + 1))
                break
        else:
            cw = max(1, min(w, round(h * np.exp(ratio_high))))
            ch = max(1, min(h, round(w / np.exp(ratio_low))))
            left, top = (w - cw) // 2, (h - ch) // 2
    return left, top, left + cw, top + ch


@numba.njit
def _uniform(seed, index):  # type: ignore[no-untyped-def]
    """The number `index`, in 0..1, of the random stream of a seed (splitmix64)."""
    return np.float64(random_bits(seed, index) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
