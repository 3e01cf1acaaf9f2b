"""What happens to every view besides its operations."""

from dataclasses import dataclass
from typing import Any

from coviews.ops.engine import GREY
from coviews.ops.images import Images, channel_statistics


@dataclass(frozen=True)
class ViewSettings:
    """What happens to every view besides its subpolicy, in training and in the search alike."""

    crop: tuple[float, float] | None = (0.2, 1.0)
    """Least and largest area of the random crop; None for no crop."""
    flip: float = 0.5
    """Probability of a horizontal flip."""
    fill: tuple[int, int, int] = GREY
    """The colour of a cutout; the mean of the data set is a good choice."""
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    """The mean of each channel in 0..1, for the normalisation."""
    std: tuple[float, ...] = (0.25, 0.25, 0.25)
    """The standard deviation of each channel."""
    threads: int | None = None
    """The number of threads that make views; all cores if None."""

    @classmethod
    def of(cls, images: Images, **changes: Any) -> "ViewSettings":
        """Settings with the fill colour and the normalisation of these images."""
        mean, std = (tuple(round(x, 6) for x in s) for s in channel_statistics(images))
        red, green, blue = (round(255 * m) for m in (mean if len(mean) == 3 else mean * 3))
        return cls(**{"fill": (red, green, blue), "mean": mean, "std": std, **changes})
