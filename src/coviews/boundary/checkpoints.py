"""Files of torch: read as data, never executed, and compared with their checksums first."""

import pickle
import zipfile
import zlib
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from coviews.boundary.archives import open_zip
from coviews.boundary.regular import open_regular
from coviews.errors import CoviewsError

_DEEPEST = 16  # lists and mappings within each other
_MOST_VALUES = 1_000_000


def read_pickled(path: Path, kind: str) -> Any:
    """The content of a file that `torch.save` wrote: tensors and plain values; nothing in it is executed.

    kind: what the file is, for errors.
    """
    try:
        with open_regular(path, kind) as file:
            if zipfile.is_zipfile(file):
                _check_archive(file)
            file.seek(0)
            return torch.load(file, map_location="cpu", weights_only=True)
    except CoviewsError:
        raise
    except pickle.UnpicklingError as error:
        raise CoviewsError(f"the {kind} {path} is damaged, or holds more than weights, which is not loaded") from error
    except Exception as error:  # torch raises anything for damaged files
        reason = " ".join(str(error).split())[:150] or type(error).__name__
        raise CoviewsError(f"the {kind} {path} is damaged: {reason}") from error


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """All tensors of a safetensors file."""
    open_regular(path, "file of weights").close()
    try:
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise CoviewsError(f"{path} is no file of weights, or is damaged: {error}") from error
    except MemoryError as error:
        raise CoviewsError(f"the file of weights {path} does not fit into memory") from error


def is_plain_tensor(value: Any) -> bool:
    """Whether a value is a dense tensor that holds its numbers, all of which lie in its own memory."""
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and value.device.type == "cpu"
        and not value.is_quantized
        and value.numel() * value.element_size() <= value.untyped_storage().nbytes()
    )


def check_plain(content: Any, where: str) -> None:
    """An error unless a value is made of numbers, texts and plain tensors, in lists and mappings a few levels deep.

    Values that contain themselves, or each other many times over, are counted as often as they would be read.

    where: what the value is from, for the error.
    """
    waiting, count = [(content, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        count += 1
        if depth > _DEEPEST or count > _MOST_VALUES:
            raise CoviewsError(f"{where} is wrong: it has too many values, or they lie too deep within each other")
        if isinstance(value, dict):
            if not all(isinstance(key, str | int) for key in value):
                raise CoviewsError(f"{where} is wrong: it has a key that is neither a text nor a whole number")
            waiting += [(v, depth + 1) for v in value.values()]
        elif isinstance(value, list | tuple):
            waiting += [(v, depth + 1) for v in value]
        elif value is not None and not isinstance(value, str | int | float) and not is_plain_tensor(value):
            raise CoviewsError(f"{where} is wrong: it holds a {type(value).__name__} that is not made of plain numbers")


def _check_archive(file: Any) -> None:
    """An error if a member is not as it was written (torch does not look), or is compressed, which torch never does."""
    with open_zip(file) as archive:
        for info in archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > info.compress_size:
                raise ValueError(f"{info.filename[:80]} is compressed")
        try:
            broken = archive.testzip()
        except (EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
            raise ValueError(str(error)) from error
    if broken is not None:
        raise ValueError(f"{broken[:80]} is not as it was written")
