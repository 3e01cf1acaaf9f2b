"""Spaces: which operations there are to draw from, and the value of each level of each."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError, unknown
from coviews.ops.kernels.layout import PARAMETERS
from coviews.ops.operations import OPS, Op, PixelType
from coviews.ops.series_operations import SERIES_OPS, every_operation

STANDARD = "all"  # the default space
MOST = 4096  # levels: the kernel parameters of all of them are computed for each image size
FINE = 1001  # levels of a range that should be continuous: steps of a thousandth
SERIES = "series"  # the default space of series
AUTOAUGMENT_BINS = "autoaugment-bins"  # the space of AutoAugment's published policies

Ranges = dict[str, tuple[float, float]]  # the ends of the values of each operation


@dataclass(frozen=True, eq=False)
class Space:
    """Operations, and the value of every level of each."""

    name: str
    ops: tuple[str, ...]
    values: NDArray[np.float64]  # (operations, levels)
    rows: tuple[Op, ...] = field(init=False, repr=False)  # of the table of operations
    has_magnitude: NDArray[np.bool_] = field(init=False)  # (operations,)

    def __repr__(self) -> str:
        return f"Space({self.name!r}, {len(self.ops)} operations, {self.levels} levels)"

    def __post_init__(self) -> None:
        table = every_operation()
        for op in self.ops:
            if op not in table:
                raise unknown("operation", op, table)
        if "Identity" not in self.ops:
            raise CoviewsError(f"the space {self.name!r} needs Identity: steps that are not applied become that")
        shape = self.values.shape
        if (
            len(shape) != 2
            or shape[0] != len(self.ops)
            or not 2 <= shape[1] <= MOST
            or not np.isfinite(self.values).all()
        ):
            raise CoviewsError(
                f"the space {self.name!r} needs a finite value for each of 2 to {MOST} levels of its {len(self.ops)} "
                f"operations, not an array of shape {shape}"
            )
        object.__setattr__(self, "rows", tuple(table[op] for op in self.ops))
        object.__setattr__(self, "has_magnitude", np.array([row.magnitude for row in self.rows]))

    @classmethod
    def of(cls, name: str, ops: Sequence[str], levels: int = 11) -> "Space":
        """A space of these operations and Identity, whose levels divide the range of each evenly."""
        table = every_operation()
        ranges: Ranges = {}
        for op in (*ops, "Identity"):
            if op not in table:
                raise unknown("operation", op, table)
            ranges[op] = table[op].low, table[op].high
        return _even_levels(name, ranges, levels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.rows == other.rows and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.ops, self.values.shape))

    @property
    def levels(self) -> int:
        """The number of levels of each operation."""
        return self.values.shape[1]

    @property
    def identity(self) -> int:
        """The index of the operation that does nothing."""
        return self.ops.index("Identity")

    def index(self, op: str) -> int:
        """The index of an operation; case does not matter."""
        for i, name in enumerate(self.ops):
            if name.lower() == op.lower():
                return i
        raise unknown("operation", op, self.ops)

    def unfit(self, channels: int, dtype: PixelType) -> tuple[str, ...]:
        """The operations that images of this many channels and this type do not allow."""
        return tuple(row.name for row in self.rows if not row.fits(channels, dtype))

    @functools.cache  # noqa: B019 - there are few spaces, and they live as long as the program
    def fitting(self, channels: int, dtype: PixelType) -> "Space":
        """The space without the operations that do not fit such images; itself if all fit."""
        unfit = self.unfit(channels, dtype)
        if not unfit:
            return self
        kept = [i for i, op in enumerate(self.ops) if op not in unfit]
        name = f"{self.name} for {channels} x {np.dtype(dtype)}"
        return Space(name, tuple(self.ops[i] for i in kept), self.values[kept])

    def nearest_level(self, op: int, value: float) -> int:
        """The level whose value is closest; the last of several that are equally close."""
        distance = np.abs(self.values[op] - value)
        if distance.min() > 0.51 * np.ptp(self.values[op]) / (self.levels - 1) + 1e-9:
            low, high = self.values[op].min(), self.values[op].max()
            raise CoviewsError(f"{self.ops[op]} {value:g} is outside its range {low:g} .. {high:g}")
        return int(np.flatnonzero(distance == distance.min())[-1])

    @functools.cache  # noqa: B019 - there are few spaces, and they live as long as the program
    def describe(self, op: int, level: int) -> str:
        """A step as text, such as `Rotate -18 deg`, with enough digits to tell its level from the others."""
        row, value = self.rows[op], self.values[op, level]
        if not row.magnitude:
            return self.ops[op]
        texts = (f"{value:.{digits}g}" for digits in range(3, 18))
        text = next(t for t in texts if self.values[op, self.nearest_level(op, float(t))] == value)
        return f"{self.ops[op]} {text} {row.unit}".rstrip()

    @functools.lru_cache(maxsize=64)  # noqa: B019 - there are few spaces, and they live as long as the program
    def parameters(self, height: int, width: int) -> NDArray[np.float64]:
        """The kernel parameters of every (operation, level) for images of this size."""
        table = np.zeros((len(self.ops), self.levels, PARAMETERS))
        for i, row in enumerate(self.rows):
            for k, value in enumerate(self.values[i].tolist()):
                numbers = row.parameters(value, height, width)
                table[i, k, : len(numbers)] = numbers
                if not row.magnitude:
                    table[i] = table[i, 0]
                    break
        return table


@dataclass(frozen=True)
class _Bins:
    """Torchvision's magnitudes in bins of either sign: with n bins, level n - 1 + s * m is bin m with the sign s."""

    count: int = 31
    shear: float = 0.3
    translate: float = 150.0 / 331.0
    rotate: float = 30.0
    enhance: float = 0.9
    posterize: float = 4.0
    moves: str = "Shift"  # the operations that translate: by a share of the side, or by pixels
    invert: bool = False  # whether there is Invert


_BINS = {
    "randaugment": _Bins(),
    "trivialaugment": _Bins(shear=0.99, translate=32.0, rotate=135.0, enhance=0.99, posterize=6.0, moves="Move"),
    AUTOAUGMENT_BINS: _Bins(count=10, invert=True),
}


def _signed_bins(name: str, bins: _Bins) -> Space:
    """The space of these magnitudes.

    Torchvision computes them in single precision, and some bytes depend on that.
    """
    last, levels = bins.count - 1, 2 * bins.count - 1
    m = np.abs(np.arange(-last, last + 1))
    sign = np.sign(np.arange(-last, last + 1)).astype(np.float64)
    bits = np.array([round(8 - int(i) / (last / bins.posterize)) for i in m], np.float64)

    def mirrored(end: float) -> NDArray[np.float64]:
        return sign * _linspace32(0.0, end, bins.count)[m]

    # a share of the side is rounded after it is multiplied by the side
    moves = sign * m * bins.translate / last if bins.moves == "Shift" else mirrored(bins.translate)
    rows: dict[str, NDArray[np.float64]] = {
        "Identity": np.zeros(levels),
        "ShearX": mirrored(bins.shear),
        "ShearY": mirrored(bins.shear),
        f"{bins.moves}X": moves,
        f"{bins.moves}Y": moves,
        "Rotate": mirrored(bins.rotate),
        "Brightness": 1.0 + mirrored(bins.enhance),
        "Color": 1.0 + mirrored(bins.enhance),
        "Contrast": 1.0 + mirrored(bins.enhance),
        "Sharpness": 1.0 + mirrored(bins.enhance),
        "Posterize": bits,
        "Solarize": 255.0 * _linspace32(1.0, 0.0, bins.count)[m],
        "AutoContrast": np.zeros(levels),
        "Equalize": np.zeros(levels),
    }
    if bins.invert:
        rows["Invert"] = np.zeros(levels)
    return Space(name, tuple(rows), np.stack(list(rows.values())))


def _linspace32(start: float, end: float, n: int) -> NDArray[np.float64]:
    """`torch.linspace` in single precision: from both ends towards the middle, each value rounded once."""
    a, b = np.float32(start), np.float32(end)
    step = float(np.float32((b - a) / np.float32(n - 1)))
    i = np.arange(n)
    exact = np.where(i < n // 2, float(a) + step * i, float(b) - step * (n - 1 - i))
    return exact.astype(np.float32).astype(np.float64)


def _paper_ranges() -> Ranges:
    return {name: (row.low, row.high) for name, row in OPS.items() if row.paper}


def _simclr_ranges(low: float, high: float, hue: float) -> Ranges:
    jitter = {op: (low, high) for op in ("Brightness", "Contrast", "Saturation")}
    return {**jitter, "Hue": (-hue, hue), "Grayscale": (0.0, 0.0), "Identity": (0.0, 0.0)}


def _further_ranges() -> Ranges:
    """What families of views have besides the recipe's operations."""
    mild = {"Rotate": (-15.0, 15.0), "ShearX": (-0.2, 0.2), "ShearY": (-0.2, 0.2), "Blur": (0.1, 1.5)}
    rows = {name: (OPS[name].low, OPS[name].high) for name in ("Solarize", "Equalize", "Posterize", "Invert")}
    return {**mild, **rows, "Sharpness": (0.1, 1.9), "Cutout": (0.1, 0.4)}


def _all_ranges() -> Ranges:
    """Every operation of the table, without variants of others and optional ones."""
    return {name: (row.low, row.high) for name, row in OPS.items() if not row.variant_of and not row.optional}


def _channels_ranges() -> Ranges:
    """What makes sense for images of any number of channels."""
    names = (
        "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Contrast", "Brightness", "Blur", "Cutout",
        "Noise", "ChannelDrop", "ChannelGain", "Identity",
    )  # fmt: skip
    return {name: (OPS[name].low, OPS[name].high) for name in names}


def _infomin_ranges() -> Ranges:
    """The operations of InfoMin's hand-made augmentation, with ranges that hold both its jitter and its RandAugment."""
    sides = {name: (OPS[name].low, OPS[name].high) for name in ("ShearX", "ShearY", "TranslateX", "TranslateY")}
    enhanced = {name: (0.1, 1.9) for name in ("Brightness", "Contrast", "Color", "Sharpness")}
    tones = {"Posterize": (1.0, 4.0), "Solarize": (0.0, 256.0)}
    plain = {name: (0.0, 0.0) for name in ("AutoContrast", "Equalize", "Invert", "Grayscale", "Identity")}
    return {**enhanced, "Hue": (-0.2, 0.2), "Blur": (0.1, 2.0), "Rotate": (-30.0, 30.0), **sides, **tones, **plain}


# the spaces whose levels divide a range evenly; from the table as it is when the space is asked for
_RANGES: dict[str, Callable[[], Ranges]] = {
    "autoaugment": _paper_ranges,
    "simclr": lambda: _simclr_ranges(0.6, 1.4, 0.1),
    "simclr-wide": lambda: _simclr_ranges(0.1, 1.9, 0.45),
    "all": _all_ranges,
    "factors": lambda: _simclr_ranges(0.6, 1.4, 0.1) | _further_ranges(),
    "channels": _channels_ranges,
    "infomin": _infomin_ranges,
    SERIES: lambda: {**{name: (row.low, row.high) for name, row in SERIES_OPS.items()}, "Identity": (0.0, 0.0)},
}
SPACES = (*_RANGES, *_BINS)


def has_bins(name: str) -> bool:
    """Whether a space has torchvision's bins for levels, rather than as many levels as are asked for."""
    return name in _BINS


def standard_space(channels: int, dtype: PixelType, height: int = 0) -> str:
    """The name of the default space for images of this many channels, this type and this height; of one row: series."""
    if height == 1:
        return SERIES
    return STANDARD if channels in (1, 3) and np.dtype(dtype) == np.uint8 else "channels"


def space(name: str, levels: int | None = None) -> Space:
    """A built-in space by name.

    levels: the number of levels (11 by default) of a space whose levels divide a range evenly.
    """
    return _space(name, levels, tuple(OPS.items()))


@functools.cache
def _space(name: str, levels: int | None, table: tuple[tuple[str, Op], ...]) -> Space:
    """`table` is the present content of OPS: a space is built anew when an operation was added."""
    if name in _BINS:
        binned = _signed_bins(name, _BINS[name])
        if levels not in (None, binned.levels):
            bins = _BINS[name].count
            raise CoviewsError(
                f"the space {name!r} has {binned.levels} levels: {bins} bins of either sign, not {levels}"
            )
        return binned
    if name not in _RANGES:
        raise unknown("space", name, SPACES)
    return _even_levels(name, _RANGES[name](), 11 if levels is None else levels)


def _even_levels(name: str, ranges: Ranges, levels: int) -> Space:
    """A space whose levels divide the range of each operation evenly."""
    if not (isinstance(levels, int) and 2 <= levels <= MOST):
        raise CoviewsError(f"a space needs 2 to {MOST} levels, not {levels!r}")
    last = levels - 1
    values = [[low + (high - low) * k / last for k in range(last + 1)] for low, high in ranges.values()]
    return Space(name, tuple(ranges), np.array(values))


def spaces_table() -> tuple[list[str], list[list[str]]]:
    """Every built-in space, for the docs: the heads of the columns, and a row of text for each."""
    spaces = [space(name) for name in SPACES]
    return ["space", "levels", "operations"], [[f"`{s.name}`", str(s.levels), ", ".join(s.ops)] for s in spaces]
