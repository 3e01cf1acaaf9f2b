"""Operations of a user, written in plain Python: a function of an image and a value.

The engine calls them as it calls its compiled kernels, at an address; but one at a time, since Python runs in one
thread, and an image has to become an array and back. An error in a function is kept until the engine has returned.
"""

import ctypes
import functools
import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.errors import CoviewsError, one_line
from coviews.ops.kernels import geometry
from coviews.ops.kernels.layout import PLACE
from coviews.ops.operations import OPS, Op, plain_value
from coviews.ops.series_operations import every_operation

_KERNEL = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ssize_t, ctypes.c_ssize_t,
    ctypes.POINTER(ctypes.c_double),
)  # fmt: skip
_failures = threading.local()  # of the functions that this thread has called


def register_operation(
    name: str,
    function: Callable[..., NDArray[Any]],
    low: float = 0.0,
    high: float = 0.0,
    *,
    neutral: float | None = None,
    unit: str = "",
    random: bool = False,
) -> None:
    """Add an operation of your own to the table; it is then in the space `all`, and can be drawn and learned.

    It is known in this process alone: register it wherever views are made or a policy with it is opened. The same name
    again replaces it.

    Args:
        name: letters only.
        function: `f(image, value) -> image`. The image is an array (H, W, C) of uint8 or uint16, which may be changed;
            the result has the same shape and type.
        low: the smallest value.
        high: the largest value; the same as `low` for an operation without a strength.
        neutral: the value at which nothing changes, if there is one.
        unit: of the value, in texts.
        random: the function is `f(image, value, generator) -> image` and draws from NumPy's generator, which follows
            from the plan: equal plans give equal bytes.
    """
    if not isinstance(name, str) or not name.isalpha() or not name.isascii():
        raise CoviewsError(f"the name of an operation has letters only, such as Fade, not {name!r}")
    same = next((row for row in every_operation().values() if row.name.lower() == name.lower()), None)
    if same is not None and (same.function is None or same.name != name):
        raise CoviewsError(f"there is an operation {same.name} already: choose another name")
    if not callable(function):
        raise CoviewsError(f"the operation {name} needs a function of an image and a value, not {function!r}")
    numbers = [low, high] if neutral is None else [low, high, neutral]
    if not all(isinstance(n, int | float) and math.isfinite(n) for n in numbers) or low > high:
        raise CoviewsError(f"the operation {name} needs a range from low to high of finite numbers, not {numbers}")
    OPS[name] = Op(
        name, geometry.identity, plain_value, float(low), float(high), neutral, unit, function=function, random=random
    )


def function_address(row: Op, dtype: np.dtype[Any]) -> int:
    """Where C finds the function of an operation."""
    return ctypes.cast(_callback(row, dtype), ctypes.c_void_p).value or 0


@functools.cache  # it must live as long as its address is used
def _callback(row: Op, dtype: np.dtype[Any]) -> Any:
    """The function of an operation as one of C, with the arguments of a kernel.

    It never raises an error: the image stays as it is, and `raise_failure` tells what happened.
    """
    function, bytes_each = row.function, dtype.itemsize
    assert function is not None

    def called(src: int, dst: int, h: int, w: int, c: int, p: Any) -> None:
        size = h * w * c * bytes_each
        try:
            image = np.frombuffer(bytearray(ctypes.string_at(src, size)), dtype).reshape(h, w, c)
            generator = (_generator(p[PLACE], p[PLACE + 1]),) if row.random else ()
            result = np.ascontiguousarray(_checked(row.name, function(image, p[0], *generator), (h, w, c), dtype))
            ctypes.memmove(dst, result.ctypes.data, size)
        except BaseException as error:  # also an interrupt: no error may cross C
            ctypes.memmove(dst, src, size)
            if getattr(_failures, "first", None) is None:
                _failures.first = row.name, error

    return _KERNEL(called)


def raise_failure() -> None:
    """Raise the first error of a function that this thread has called since the last time."""
    failure = getattr(_failures, "first", None)
    if failure is None:
        return
    _failures.first = None
    name, error = failure
    if isinstance(error, CoviewsError) or not isinstance(error, Exception):
        raise error
    raise CoviewsError(f"the operation {name} failed: {type(error).__name__}: {one_line(str(error))}") from error


def _checked(name: str, result: Any, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The result of a function, if it is an image as it got."""
    if isinstance(result, np.ndarray) and result.shape == shape and result.dtype == dtype:
        return result
    kind = f"{result.dtype} {result.shape}" if isinstance(result, np.ndarray) else type(result).__name__
    raise CoviewsError(f"the operation {name} must give an image as it gets, {dtype} {shape}, not {kind}")


def _generator(x: float, y: float) -> np.random.Generator:
    """From the two random numbers of a step, in 0..1."""
    return np.random.default_rng([int(x * 2.0**53), int(y * 2.0**53)])
