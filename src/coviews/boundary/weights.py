"""Files of weights (safetensors): a header that is checked, and arrays whose shape is known before they are read."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import safetensors
from numpy.typing import NDArray

from coviews.boundary.json_text import parse_json
from coviews.boundary.regular import open_regular
from coviews.errors import CoviewsError

T = TypeVar("T")

_KEY = "coviews"  # of the description among the file's texts
_LARGEST = 16 * 2**20  # bytes of a description


class _Format(msgspec.Struct):
    """What every description has: the version of its format."""

    format: int


class Weights:
    """An open file of weights; nothing in it is executed."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._texts: dict[str, str] = file.metadata() or {}
        self.shapes: dict[str, tuple[int, ...]] = {
            name: tuple(file.get_slice(name).get_shape())
            for name in file.keys()  # noqa: SIM118 - it is no mapping
        }

    @property
    def has_description(self) -> bool:
        """Whether coviews wrote it."""
        return _KEY in self._texts

    def description(self, shape: type[T]) -> T:
        """The description as a schema says."""
        if not self.has_description:
            raise CoviewsError("it holds weights, but no description of what they are of")
        return parse_json(self._texts[_KEY], shape, "its description", most=_LARGEST)

    def check_format(self, expected: int) -> None:
        """An error if the description is of another format than this version reads."""
        format = self.description(_Format).format
        if format != expected:
            raise CoviewsError(
                f"it has the format {format}, and this version of coviews reads {expected}: "
                "install the version that wrote it, or a newer one"
            )

    def array(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """One array of finite 32-bit numbers; its shape is checked before any memory is allocated."""
        if name not in self.shapes:
            raise CoviewsError(f"its weight {name!r} is missing")
        if self.shapes[name] != shape:
            raise CoviewsError(f"its weight {name!r} has the shape {self.shapes[name]}, not {shape}")
        weight: NDArray[np.float32] = self._file.get_tensor(name)
        if weight.dtype != np.float32 or not np.isfinite(weight).all():
            raise CoviewsError(f"its weight {name!r} is not made of finite 32-bit numbers")
        return weight


@contextlib.contextmanager
def open_weights(path: str | Path, kind: str) -> Iterator[Weights]:
    """A file of weights, open for as long as it is read; all that is wrong with it is an error that names the file.

    kind: what the file is, for errors: "policy file".
    """
    open_regular(path, kind).close()
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            yield Weights(file)
    except CoviewsError as error:
        raise CoviewsError(f"cannot use the {kind} {path}: {error}") from error
    except (safetensors.SafetensorError, OSError, TypeError) as error:
        article = "an" if kind[0] in "aeiou" else "a"
        raise CoviewsError(f"{path} is not {article} {kind}, or is damaged: {error}") from error
    except MemoryError as error:
        raise CoviewsError(f"the {kind} {path} does not fit into memory") from error
