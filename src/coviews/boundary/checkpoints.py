"""Files of torch: read as data, never executed, and compared with their checksums first."""

import pickle
import zipfile
import zlib
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from coviews.boundary.regular import open_regular
from coviews.errors import CoviewsError


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


def is_plain_tensor(value: Any) -> bool:
    """Whether a value is a dense tensor that holds its numbers, all of which lie in its own memory."""
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and value.device.type == "cpu"
        and not value.is_quantized
        and value.numel() * value.element_size() <= value.untyped_storage().nbytes()
    )


def _check_archive(file: Any) -> None:
    """An error if a member is not as it was written (torch does not look), or is compressed, which torch never does."""
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > info.compress_size:
                raise ValueError(f"{info.filename[:80]} is compressed")
        try:
            broken = archive.testzip()
        except (EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
            raise ValueError(str(error)) from error
    if broken is not None:
        raise ValueError(f"{broken[:80]} is not as it was written")
