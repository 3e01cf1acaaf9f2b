"""The operations: one row each. Everything else (spaces, policies, docs, tests) follows from this table.

An operation of your own is one kernel (see kernels/__init__.py) and one row:

    OPS["Halve"] = Op("Halve", halve, lambda value, height, width: (value,), 0.5, 1.0, neutral=1.0)

From then on it is in the space `all`. A slower one in plain Python needs no kernel: see python_operations.py.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from coviews.ops.kernels import color, filters, geometry, noise, tone

Parameters = tuple[float, ...]
PixelType = np.dtype[Any] | type[np.uint8 | np.uint16] | str


@dataclass(frozen=True)
class Op:
    """One operation: its kernel, and how a value becomes the kernel's parameters."""

    name: str  # letters only, so that the text form of a subpolicy can be parsed
    kernel: Callable[..., None]  # (src, dst, h, w, c, p), not compiled
    parameters: Callable[[float, int, int], Parameters]  # (value, height, width) -> at most six numbers, p[:6]
    low: float = 0.0  # the range of the value
    high: float = 0.0
    neutral: float | None = None  # the value at which nothing changes
    unit: str = ""
    paper: bool = False  # one of the paper's sixteen
    variant_of: str = ""  # the operation that takes its place in the space `all`
    pointwise: bool = False  # the kernel changes each byte by itself, whatever the others are
    needs_rgb: bool = False  # it mixes red, green and blue; images of one channel stay as they are
    eight_bits: bool = False  # it exists for uint8 images only
    optional: bool = False  # not in the space `all`
    function: Callable[..., Any] | None = None  # in Python, instead of the kernel: see python_operations.py
    random: bool = False  # the function draws random numbers
    table: Callable[..., None] | None = None  # like a kernel, but writes what becomes of each of 256 bytes, by channel

    @property
    def magnitude(self) -> bool:
        """Whether the level has a meaning."""
        return self.low != self.high

    def fits(self, channels: int, dtype: PixelType) -> bool:
        """Whether it can be applied to images of this many channels and this type."""
        return (not self.needs_rgb or channels in (1, 3)) and (not self.eight_bits or np.dtype(dtype) == np.uint8)

    @property
    def effect(self) -> str:
        """The first line of the docstring of the function, of `parameters`, or else of the kernel; v is the value."""
        functions = (self.parameters, self.kernel) if self.function is None else (self.function,)
        docs = (f.__doc__ for f in functions if inspect.isfunction(f))
        return next((doc.strip().splitlines()[0].rstrip(".") for doc in docs if doc), "")


def _value(value: float, height: int, width: int) -> Parameters:
    return (value,)


def _whole(value: float, height: int, width: int) -> Parameters:
    return (math.trunc(value),)


def _shear_x(value: float, height: int, width: int) -> Parameters:
    """`transform(size, AFFINE, (1, v, 0, 0, 1, 0))`."""
    return (1.0, value, 0.0, 0.0, 1.0, 0.0)


def _shear_y(value: float, height: int, width: int) -> Parameters:
    """`transform(size, AFFINE, (1, 0, 0, v, 1, 0))`."""
    return (1.0, 0.0, 0.0, value, 1.0, 0.0)


def _translate_x(value: float, height: int, width: int) -> Parameters:
    """`transform(size, AFFINE, (1, 0, v * width, 0, 1, 0))`."""
    return (1.0, 0.0, value * width, 0.0, 1.0, 0.0)


def _translate_y(value: float, height: int, width: int) -> Parameters:
    """`transform(size, AFFINE, (1, 0, 0, 0, 1, v * height))`."""
    return (1.0, 0.0, 0.0, 0.0, 1.0, value * height)


# Torchvision moves by whole pixels, rounded towards zero, and to the right where the value is positive. A product
# that should be whole may come out slightly smaller: 1e-6 is far above that error and far below 1/331.
def _shift_x(value: float, height: int, width: int) -> Parameters:
    """A translation by v times the width, in whole pixels."""
    return (1.0, 0.0, -math.copysign(math.floor(abs(value) * width + 1e-6), value), 0.0, 1.0, 0.0)


def _shift_y(value: float, height: int, width: int) -> Parameters:
    """A translation by v times the height, in whole pixels."""
    return (1.0, 0.0, 0.0, 0.0, 1.0, -math.copysign(math.floor(abs(value) * height + 1e-6), value))


def _move_x(value: float, height: int, width: int) -> Parameters:
    """A translation by v, in whole pixels."""
    return (1.0, 0.0, float(-math.trunc(value)), 0.0, 1.0, 0.0)


def _move_y(value: float, height: int, width: int) -> Parameters:
    """A translation by v, in whole pixels."""
    return (1.0, 0.0, 0.0, 0.0, 1.0, float(-math.trunc(value)))


def _rotate(value: float, height: int, width: int) -> Parameters:
    """`rotate(v)`.

    The matrix is that of a rotation about the middle, rounded to fifteen decimals as Pillow does.
    """
    angle = -math.radians(value % 360.0)
    cos, sin = round(math.cos(angle), 15), round(math.sin(angle), 15)
    x, y = width / 2.0, height / 2.0
    return (cos, sin, cos * -x + sin * -y + x, -sin, cos, -sin * -x + cos * -y + y)


def _cutout(value: float, height: int, width: int) -> Parameters:
    """A square around a random pixel, v times the shorter side (rounded), gets the fill colour."""
    return (math.floor(value * min(height, width) + 0.5),)


def _hue(value: float, height: int, width: int) -> Parameters:
    """The hue of the HSV image shifted by v of a turn."""
    return (math.trunc(value * 255) % 256,)


def _blur(value: float, height: int, width: int) -> Parameters:
    """`ImageFilter.GaussianBlur(v)`.

    Pillow's approximation: the reach of a box that is applied three times, and the weights of its pixels in 2^24.
    """
    f32 = np.float32
    variance = f32(value) * f32(value) / f32(3)
    length = f32(math.sqrt(12.0 * float(variance) + 1.0))
    whole = f32(math.floor((float(length) - 1.0) / 2.0))
    part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance) / (6 * (variance - (whole + 1) * (whole + 1)))
    reach = int(whole + part)
    near = int(f32(1 << 24) / (f32(whole + part) * 2 + 1))
    return (reach, near, ((1 << 24) - (2 * reach + 1) * near) // 2)


plain_value = _value  # for rows in other files

_ROWS = (
    Op("ShearX", geometry.affine, _shear_x, -0.3, 0.3, 0.0, paper=True),
    Op("ShearY", geometry.affine, _shear_y, -0.3, 0.3, 0.0, paper=True),
    Op("TranslateX", geometry.affine, _translate_x, -0.45, 0.45, 0.0, paper=True),
    Op("TranslateY", geometry.affine, _translate_y, -0.45, 0.45, 0.0, paper=True),
    Op("Rotate", geometry.affine, _rotate, -30.0, 30.0, 0.0, "deg", paper=True),
    Op("AutoContrast", tone.autocontrast, _value, paper=True, table=tone.autocontrast_table, eight_bits=True),
    Op("Invert", tone.invert, _value, paper=True, pointwise=True),
    Op("Equalize", tone.equalize, _value, paper=True, table=tone.equalize_table, eight_bits=True),
    Op("Solarize", tone.solarize, _value, 0.0, 256.0, 256.0, paper=True, pointwise=True),
    Op("Posterize", tone.posterize, _whole, 4.0, 8.0, 8.0, "bits", paper=True, pointwise=True, eight_bits=True),
    Op("Contrast", tone.contrast, _value, 0.1, 1.9, 1.0, paper=True, table=tone.contrast_table),
    Op("Color", color.color, _value, 0.1, 1.9, 1.0, paper=True, needs_rgb=True),
    Op("Brightness", tone.brightness, _value, 0.1, 1.9, 1.0, paper=True, pointwise=True, table=tone.brightness_table),
    Op("Sharpness", filters.sharpness, _value, 0.1, 1.9, 1.0, paper=True),
    Op("Cutout", geometry.cutout, _cutout, 0.0, 0.2, 0.0, paper=True),
    Op("Identity", geometry.identity, _value, paper=True),
    # the hand-tuned recipe of SimCLR
    Op("Saturation", color.color, _value, 0.6, 1.4, 1.0, variant_of="Color", needs_rgb=True),
    # converting to HSV and back changes a little even at 0
    Op("Hue", color.hue, _hue, -0.1, 0.1, needs_rgb=True, eight_bits=True),
    Op("Grayscale", color.grayscale, _value, needs_rgb=True),
    Op("Blur", filters.blur, _blur, 0.1, 2.0, unit="px"),  # even 0.1 changes a little
    # for images of many channels
    Op("Noise", noise.noise, _value, 0.0, 0.1, 0.0, optional=True),
    Op("ChannelDrop", noise.drop_channel, _value, optional=True),
    Op("ChannelGain", noise.channel_gain, _value, 0.0, 0.3, 0.0, optional=True),
    # translation by whole pixels, as torchvision does it: by a fraction of the side, and by pixels
    Op("ShiftX", geometry.affine, _shift_x, -150 / 331, 150 / 331, 0.0, variant_of="TranslateX"),
    Op("ShiftY", geometry.affine, _shift_y, -150 / 331, 150 / 331, 0.0, variant_of="TranslateY"),
    Op("MoveX", geometry.affine, _move_x, -32.0, 32.0, 0.0, "px", variant_of="TranslateX"),
    Op("MoveY", geometry.affine, _move_y, -32.0, 32.0, 0.0, "px", variant_of="TranslateY"),
)
OPS: dict[str, Op] = {row.name: row for row in _ROWS}


def operations_table(operations: dict[str, Op] | None = None) -> tuple[list[str], list[list[str]]]:
    """Every operation, those of images by default, for the docs: the heads of the columns, and a row of text each."""
    heads = ["operation", "range of v", "what it does", "no effect at", "only for"]
    rows = []
    for name, op in (OPS if operations is None else operations).items():
        values = f"{op.low:g} .. {op.high:g} {op.unit}".rstrip() if op.magnitude else ""
        neutral = "" if op.neutral is None else f"{op.neutral:g}"
        limits = ["1 or 3 channels"] * op.needs_rgb + ["8 bits"] * op.eight_bits
        rows.append([name, values, op.effect, neutral, ", ".join(limits)])
    return heads, rows
