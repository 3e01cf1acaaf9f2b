"""Spaces: which operations may be chosen, and what each level of each means."""

import functools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError, unknown
from coviews.ops.operations import OPS, PARAMETERS

STANDARD = "all"  # the space where none is named
MOST = 4096  # levels: a table of them is made for each size of images
FINE = 1001  # levels of a range that is meant to be continuous: steps of a thousandth


@dataclass(frozen=True, eq=False)
class Space:
    """Operations, and for each the value of every level."""

    name: str
    ops: tuple[str, ...]
    values: NDArray[np.float64]  # (operations, levels)
    has_magnitude: NDArray[np.bool_] = field(init=False)  # (operations,)

    def __post_init__(self) -> None:
        for op in self.ops:
            if op not in OPS:
                raise unknown("operation", op, OPS)
        if "Identity" not in self.ops:
            raise CoviewsError(f"the space {self.name!r} needs Identity: what is not applied becomes that")
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
        object.__setattr__(self, "has_magnitude", np.array([OPS[o].magnitude for o in self.ops]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.ops == other.ops and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.ops, self.values.shape))

    @property
    def levels(self) -> int:
        """How many levels each operation has."""
        return self.values.shape[1]

    @property
    def identity(self) -> int:
        """The index of the operation that does nothing."""
        return self.ops.index("Identity")

    def index(self, op: str) -> int:
        """The index of an operation, whatever its case."""
        for i, name in enumerate(self.ops):
            if name.lower() == op.lower():
                return i
        raise unknown("operation", op, self.ops)

    def nearest_level(self, op: int, value: float) -> int:
        """The level whose value is closest; the last one where several are."""
        distance = np.abs(self.values[op] - value)
        if distance.min() > 0.51 * np.ptp(self.values[op]) / (self.levels - 1) + 1e-9:
            low, high = self.values[op].min(), self.values[op].max()
            raise CoviewsError(f"{self.ops[op]} {value:g} is outside its range {low:g} .. {high:g}")
        return int(np.flatnonzero(distance == distance.min())[-1])

    @functools.cache  # noqa: B019 - spaces are few and live as long as the program
    def describe(self, op: int, level: int) -> str:
        """One step as a person writes it: `Rotate -18 deg`; no more digits than tell its level from the others."""
        row, value = OPS[self.ops[op]], self.values[op, level]
        if not row.magnitude:
            return row.name
        texts = (f"{value:.{digits}g}" for digits in range(3, 18))
        text = next(t for t in texts if self.values[op, self.nearest_level(op, float(t))] == value)
        return f"{row.name} {text} {row.unit}".rstrip()

    @functools.lru_cache(maxsize=64)  # noqa: B019 - spaces are few and live as long as the program
    def parameters(self, height: int, width: int) -> NDArray[np.float64]:
        """The kernel parameters of every (operation, level) for images of this size."""
        table = np.zeros((len(self.ops), self.levels, PARAMETERS))
        for i, name in enumerate(self.ops):
            for k, value in enumerate(self.values[i].tolist()):
                made = OPS[name].parameters(value, height, width)
                table[i, k, : len(made)] = made
                if not OPS[name].magnitude:
                    table[i] = table[i, 0]
                    break
        return table


def _linear(name: str, ranges: dict[str, tuple[float, float]], levels: int) -> Space:
    """value = low + (high - low) * k / (levels - 1)."""
    values = np.array([[low + (high - low) * k / (levels - 1) for k in range(levels)] for low, high in ranges.values()])
    return Space(name, tuple(ranges), values)


def _signed_bins(name: str, translate: str, high: dict[str, float], posterize: float) -> Space:
    """Torchvision's magnitudes: 31 bins, mirrored, so that level 30 + s * m is bin m with the sign s.

    Torchvision computes them in single precision, which some bytes depend on.
    """
    m = np.abs(np.arange(-30, 31))
    sign = np.sign(np.arange(-30, 31)).astype(np.float64)
    bits = np.array([round(8 - int(i) / (30 / posterize)) for i in m], np.float64)

    def mirrored(end: float) -> NDArray[np.float64]:
        return sign * _linspace32(0.0, end)[m]

    # shares of a side are multiplied by it before they are rounded, pixels are not
    moves = sign * m * high["translate"] / 30 if translate == "Shift" else mirrored(high["translate"])
    rows: dict[str, NDArray[np.float64]] = {
        "Identity": np.zeros(61),
        "ShearX": mirrored(high["shear"]),
        "ShearY": mirrored(high["shear"]),
        f"{translate}X": moves,
        f"{translate}Y": moves,
        "Rotate": mirrored(high["rotate"]),
        "Brightness": 1.0 + mirrored(high["enhance"]),
        "Color": 1.0 + mirrored(high["enhance"]),
        "Contrast": 1.0 + mirrored(high["enhance"]),
        "Sharpness": 1.0 + mirrored(high["enhance"]),
        "Posterize": bits,
        "Solarize": 255.0 * _linspace32(1.0, 0.0)[m],
        "AutoContrast": np.zeros(61),
        "Equalize": np.zeros(61),
    }
    return Space(name, tuple(rows), np.stack(list(rows.values())))


def _linspace32(start: float, end: float, n: int = 31) -> NDArray[np.float64]:
    """`torch.linspace` in single precision: from both ends towards the middle, each value rounded once."""
    a, b = np.float32(start), np.float32(end)
    step = float(np.float32((b - a) / np.float32(n - 1)))
    i = np.arange(n)
    exact = np.where(i < n // 2, float(a) + step * i, float(b) - step * (n - 1 - i))
    return exact.astype(np.float32).astype(np.float64)


def _paper_ranges() -> dict[str, tuple[float, float]]:
    return {name: (row.low, row.high) for name, row in OPS.items() if row.paper}


def _simclr_ranges(low: float, high: float, hue: float) -> dict[str, tuple[float, float]]:
    jitter = {op: (low, high) for op in ("Brightness", "Contrast", "Saturation")}
    return {**jitter, "Hue": (-hue, hue), "Grayscale": (0.0, 0.0), "Identity": (0.0, 0.0)}


def _all_ranges() -> dict[str, tuple[float, float]]:
    """The paper's and SimCLR's operations, each once (Saturation is Color), and a blur."""
    others = {op: ends for op, ends in _simclr_ranges(0.6, 1.4, 0.1).items() if op in ("Hue", "Grayscale")}
    return {**_paper_ranges(), **others, "Blur": (OPS["Blur"].low, OPS["Blur"].high)}


SPACES = ("autoaugment", "simclr", "simclr-wide", "all", "randaugment", "trivialaugment")


@functools.cache
def space(name: str, levels: int | None = None) -> Space:
    """A built-in space by name; `levels` for those whose magnitudes are a plain range (11 by default)."""
    if name in ("randaugment", "trivialaugment"):
        if levels not in (None, 61):
            raise CoviewsError(f"the space {name!r} has 61 levels: 31 bins of either sign, not {levels}")
        if name == "randaugment":
            high = {"shear": 0.3, "translate": 150.0 / 331.0, "rotate": 30.0, "enhance": 0.9}
            return _signed_bins(name, "Shift", high, posterize=4)
        high = {"shear": 0.99, "translate": 32.0, "rotate": 135.0, "enhance": 0.99}
        return _signed_bins(name, "Move", high, posterize=6)
    if levels is not None and not (isinstance(levels, int) and 2 <= levels <= MOST):
        raise CoviewsError(f"a space needs 2 to {MOST} levels, not {levels!r}")
    levels = levels or 11
    if name == "autoaugment":
        return _linear(name, _paper_ranges(), levels)
    if name == "simclr":
        return _linear(name, _simclr_ranges(0.6, 1.4, 0.1), levels)
    if name == "simclr-wide":
        return _linear(name, _simclr_ranges(0.1, 1.9, 0.45), levels)
    if name == "all":
        return _linear(name, _all_ranges(), levels)
    raise unknown("space", name, SPACES)
