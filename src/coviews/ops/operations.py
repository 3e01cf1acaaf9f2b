"""The operations: one row each. Everything else (spaces, heads, plots, tests) follows from this table."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coviews.ops import kernels
from coviews.ops.kernels import PARAMETERS as PARAMETERS

Parameters = tuple[float, ...]


@dataclass(frozen=True)
class Op:
    """One operation: its kernel, and how a value becomes the kernel's parameters."""

    name: str
    kernel: Callable[..., None]
    parameters: Callable[[float, int, int], Parameters]  # (value, height, width)
    low: float = 0.0  # the paper's range
    high: float = 0.0
    neutral: float | None = None  # the value at which nothing changes
    unit: str = ""
    paper: bool = False  # one of the paper's sixteen

    @property
    def magnitude(self) -> bool:
        """Whether the level has a meaning."""
        return self.low != self.high


def _value(value: float, height: int, width: int) -> Parameters:
    return (value,)


def _whole(value: float, height: int, width: int) -> Parameters:
    return (math.trunc(value),)


def _shear_x(value: float, height: int, width: int) -> Parameters:
    return (1.0, value, 0.0, 0.0, 1.0, 0.0)


def _shear_y(value: float, height: int, width: int) -> Parameters:
    return (1.0, 0.0, 0.0, value, 1.0, 0.0)


def _translate_x(value: float, height: int, width: int) -> Parameters:
    return (1.0, 0.0, value * width, 0.0, 1.0, 0.0)


def _translate_y(value: float, height: int, width: int) -> Parameters:
    return (1.0, 0.0, 0.0, 0.0, 1.0, value * height)


# Torchvision moves by whole pixels, towards zero, and to the right where the value is positive. A product
# that is whole may come out a little below: 1e-6 is far above that error and far below 1/331.
def _shift_x(value: float, height: int, width: int) -> Parameters:
    return (1.0, 0.0, -math.copysign(math.floor(abs(value) * width + 1e-6), value), 0.0, 1.0, 0.0)


def _shift_y(value: float, height: int, width: int) -> Parameters:
    return (1.0, 0.0, 0.0, 0.0, 1.0, -math.copysign(math.floor(abs(value) * height + 1e-6), value))


def _move_x(value: float, height: int, width: int) -> Parameters:
    return (1.0, 0.0, float(-math.trunc(value)), 0.0, 1.0, 0.0)


def _move_y(value: float, height: int, width: int) -> Parameters:
    return (1.0, 0.0, 0.0, 0.0, 1.0, float(-math.trunc(value)))


def _rotate(value: float, height: int, width: int) -> Parameters:
    """The matrix of a turn about the middle, to fifteen decimals, as Pillow's `rotate` makes it."""
    angle = -math.radians(value % 360.0)
    cos, sin = round(math.cos(angle), 15), round(math.sin(angle), 15)
    x, y = width / 2.0, height / 2.0
    return (cos, sin, cos * -x + sin * -y + x, -sin, cos, -sin * -x + cos * -y + y)


def _cutout(value: float, height: int, width: int) -> Parameters:
    return (math.floor(value * min(height, width) + 0.5),)


def _hue(value: float, height: int, width: int) -> Parameters:
    return (math.trunc(value * 255) % 256,)


def _blur(value: float, height: int, width: int) -> Parameters:
    """The box whose threefold mean is nearest to a Gaussian, and its weights in 2^24, as Pillow finds them."""
    f32 = np.float32
    variance = f32(value) * f32(value) / f32(3)
    length = f32(math.sqrt(12.0 * float(variance) + 1.0))
    whole = f32(math.floor((float(length) - 1.0) / 2.0))
    part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance) / (6 * (variance - (whole + 1) * (whole + 1)))
    reach = int(whole + part)
    near = int(f32(1 << 24) / (f32(whole + part) * 2 + 1))
    return (reach, near, ((1 << 24) - (2 * reach + 1) * near) // 2)


_ROWS = (
    Op("ShearX", kernels.affine, _shear_x, -0.3, 0.3, 0.0, paper=True),
    Op("ShearY", kernels.affine, _shear_y, -0.3, 0.3, 0.0, paper=True),
    Op("TranslateX", kernels.affine, _translate_x, -0.45, 0.45, 0.0, paper=True),
    Op("TranslateY", kernels.affine, _translate_y, -0.45, 0.45, 0.0, paper=True),
    Op("Rotate", kernels.affine, _rotate, -30.0, 30.0, 0.0, "deg", paper=True),
    Op("AutoContrast", kernels.autocontrast, _value, paper=True),
    Op("Invert", kernels.invert, _value, paper=True),
    Op("Equalize", kernels.equalize, _value, paper=True),
    Op("Solarize", kernels.solarize, _value, 0.0, 256.0, 256.0, paper=True),
    Op("Posterize", kernels.posterize, _whole, 4.0, 8.0, 8.0, "bits", paper=True),
    Op("Contrast", kernels.contrast, _value, 0.1, 1.9, 1.0, paper=True),
    Op("Color", kernels.color, _value, 0.1, 1.9, 1.0, paper=True),
    Op("Brightness", kernels.brightness, _value, 0.1, 1.9, 1.0, paper=True),
    Op("Sharpness", kernels.sharpness, _value, 0.1, 1.9, 1.0, paper=True),
    Op("Cutout", kernels.cutout, _cutout, 0.0, 0.2, 0.0, paper=True),
    Op("Identity", kernels.identity, _value, paper=True),
    # the hand-tuned recipe of SimCLR
    Op("Saturation", kernels.color, _value, 0.6, 1.4, 1.0),
    Op("Hue", kernels.hue, _hue, -0.1, 0.1),  # to HSV and back costs a little even at 0
    Op("Grayscale", kernels.grayscale, _value),
    Op("Blur", kernels.blur, _blur, 0.1, 2.0, unit="px"),  # a little even at 0.1
    # translation by whole pixels, as torchvision does it: by a fraction of the side, and by pixels
    Op("ShiftX", kernels.affine, _shift_x, -150 / 331, 150 / 331, 0.0),
    Op("ShiftY", kernels.affine, _shift_y, -150 / 331, 150 / 331, 0.0),
    Op("MoveX", kernels.affine, _move_x, -32.0, 32.0, 0.0, "px"),
    Op("MoveY", kernels.affine, _move_y, -32.0, 32.0, 0.0, "px"),
)
OPS: dict[str, Op] = {row.name: row for row in _ROWS}
