"""The operations of series: a table of their own, beside that of images.

A series is an image of one row, whose width is time. The operations are those of Um et al., Data Augmentation of
Wearable Sensor Data for Parkinson's Disease Monitoring using Convolutional Neural Networks, ICMI 2017, and masking.
"""

from coviews.ops.kernels import noise, series
from coviews.ops.operations import OPS, Op, plain_value

_ROWS = (
    Op("Jitter", noise.noise, plain_value, 0.0, 0.1, 0.0),
    Op("Scaling", series.scaling, plain_value, 0.5, 1.5, 1.0),
    Op("TimeWarp", series.time_warp, plain_value, 0.0, 0.8, 0.0),
    Op("Permutation", series.permutation, plain_value, 1.0, 6.0, 1.0, "parts"),
    Op("Masking", series.masking, plain_value, 0.0, 0.4, 0.0),
)
SERIES_OPS: dict[str, Op] = {row.name: row for row in _ROWS}


def every_operation() -> dict[str, Op]:
    """The operations of images and of series, by name."""
    return {**OPS, **SERIES_OPS}
