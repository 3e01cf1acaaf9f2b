"""Readers of the original files of CIFAR, SVHN and STL-10. No pickle is executed."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.boundary.regular import regular_file
from coviews.data.known.mat_file import read_mat
from coviews.errors import CoviewsError

Part = tuple[NDArray[np.uint8], NDArray[np.int64] | None]  # images (n, H, W, 3), and labels if there are any

_CIFAR_SIDE, _STL_SIDE = 32, 96
_NUMPY = ("numpy.core.multiarray", "numpy._core.multiarray")  # modules with the function that NumPy's pickles call
_GROWTH = 200  # times the bytes of a compressed file, its pixels must not be more
_LARGEST = 1 << 31  # bytes of a batch file; the largest, CIFAR-100's, has 155 MB


# ------------------------------------------------------------------------------------------------- CIFAR


class _Array:
    """Stands for an array while a pickle is read: it keeps the state of the array, and does nothing else."""

    def __init__(self, *_: object) -> None:
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Type:
    """Stands for the type of an array's elements."""

    def __init__(self, name: object = None, *_: object) -> None:
        self.name = name

    def __setstate__(self, state: object) -> None:
        pass


def _encoded(text: str, encoding: str) -> bytes:
    """Bytes, as Python 3 writes them into an old pickle."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"bytes written as {encoding!r}")
    return text.encode("latin-1")


class _DataOnly(pickle._Unpickler):
    """Reads numbers, texts, lists, dictionaries and arrays; any other name in a pickle is refused, not imported.

    It is the one of Python's two that is written in Python: the other allocates as much memory as a pickle asks for.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module in _NUMPY and name == "_reconstruct") or (module, name) == ("numpy", "ndarray"):
            return _Array
        if (module, name) == ("numpy", "dtype"):
            return _Type
        if (module, name) == ("_codecs", "encode"):
            return _encoded
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not data")


def read_cifar(path: Path, key: str) -> Part:
    """The images of a batch file of CIFAR, and the labels under this key."""
    batch = _read_pickle(path)
    labels = batch.get(key)
    try:
        if not isinstance(labels, list) or not all(type(label) is int for label in labels):
            raise TypeError("not a list of whole numbers")
        images = _pixels(batch["data"]).reshape(len(labels), 3, _CIFAR_SIDE, _CIFAR_SIDE)
        return images.transpose(0, 2, 3, 1), np.array(labels, np.int64)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CoviewsError(f"{path} is not a batch of CIFAR with 'data' and {key!r}, or it is damaged") from error


def read_cifar_classes(path: Path, key: str) -> tuple[str, ...]:
    """The names of CIFAR's classes, from its meta file."""
    names = _read_pickle(path).get(key)
    if not isinstance(names, list) or not names:
        raise CoviewsError(f"{path} has no list {key!r}, or it is damaged")
    return tuple(_text(name) for name in names)


def _read_pickle(path: Path) -> dict[str, Any]:
    """The dictionary in a pickle that contains only data."""
    if path.stat().st_size > _LARGEST:
        raise CoviewsError(f"{path} is far too large for a file of CIFAR")
    try:
        with regular_file(path) as file:
            content = _DataOnly(file, encoding="bytes").load()
        return {_text(key): value for key, value in content.items()}
    except OSError as error:
        raise CoviewsError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:  # a damaged pickle raises anything
        raise CoviewsError(f"cannot read {path}: not a file of CIFAR, or damaged ({_short(error)})") from error


def _pixels(array: Any) -> NDArray[np.uint8]:
    """The pixels of an array in a pickle, whose state is (version, shape, type, by columns, bytes)."""
    if not isinstance(array, _Array) or not isinstance(array.state, tuple) or len(array.state) != 5:
        raise TypeError("not an array")
    _, shape, kind, by_columns, content = array.state
    if not isinstance(kind, _Type) or kind.name not in ("u1", b"u1") or not isinstance(content, bytes):
        raise TypeError("not an array of bytes")
    return np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_columns else "C")


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


# -------------------------------------------------------------------------------------------------- SVHN


def read_svhn(path: Path) -> Part:
    """The images and labels of a file of SVHN: X (32, 32, 3, n) and y (n, 1), where 10 stands for the digit 0."""
    try:
        with regular_file(path) as file:
            content = read_mat(file, _GROWTH * path.stat().st_size)
        pixels, labels = content["X"], content["y"].reshape(-1).astype(np.int64)
    except OSError as error:
        raise CoviewsError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError) as error:
        raise CoviewsError(f"cannot read {path}: not a file of SVHN, or damaged ({_short(error)})") from error
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[2:] != (3, len(labels)):
        raise CoviewsError(f"{path} is not a file of SVHN: X is {pixels.dtype} {pixels.shape}, y has {len(labels)}")
    if not np.isin(labels, range(11)).all():
        raise CoviewsError(f"{path} is not a file of SVHN: it has other labels than 1 to 10")
    return pixels.astype(np.uint8, copy=False).transpose(3, 0, 1, 2), labels % 10


# ------------------------------------------------------------------------------------------------ STL-10


def read_stl(images: Path, labels: Path | None) -> Part:
    """The images and labels of files of STL-10: bytes (n, 3, width, height), mapped and not read; labels from 1."""
    size = images.stat().st_size
    if size == 0 or size % (3 * _STL_SIDE**2):
        raise CoviewsError(f"{images} is not a whole number of images of STL-10: it has {size} bytes")
    pixels = np.memmap(images, np.uint8, "r").reshape(-1, 3, _STL_SIDE, _STL_SIDE).transpose(0, 3, 2, 1)
    if labels is None:
        return pixels, None
    values = np.fromfile(labels, np.uint8).astype(np.int64) - 1
    if len(values) != len(pixels):
        raise CoviewsError(f"{images} has {len(pixels)} images, but {labels} has {len(values)} labels")
    return pixels, values
