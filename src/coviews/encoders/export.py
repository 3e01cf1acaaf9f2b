"""`export`: an encoder in files that need no coviews, and the lines of Python that load them."""

import hashlib
import importlib.metadata
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from coviews.console.progress import waiting
from coviews.encoders.architectures import check_encoder
from coviews.encoders.export_snippets import SOURCE, library_of, onnx_snippet, small_resnet_source, weights_snippet
from coviews.encoders.file import describe_encoder, save_encoder
from coviews.encoders.onnx_file import check_onnx, largest_difference, onnx_bytes
from coviews.encoders.open import OpenedEncoder, open_encoder
from coviews.errors import CoviewsError, unknown
from coviews.files.atomic import write_whole

FORMATS = ("torchvision", "timm", "state-dict", "onnx")
_WEIGHTS = (".safetensors", ".pt", ".pth")


@dataclass(frozen=True)
class Exported:
    """What `export` wrote."""

    path: Path
    files: tuple[Path, ...]  # all of them: the encoder, its description, and its source where there is one
    snippet: str  # Python that loads it and gives `features(images)`
    difference: float | None  # of ONNX from torch, relative to the largest feature


def export(
    run: str | Path,
    format: str | None = None,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> Exported:
    """Write the encoder of a run for use elsewhere, without coviews.

    Args:
        run: the folder of a run, finished or not, or its encoder.safetensors.
        format: "torchvision" or "timm" for an encoder of that library, "state-dict" for any, or "onnx"; by default
            the library's.
        out: the file to write: .safetensors, .pt or .pth, and for ONNX .onnx; its description comes beside it as JSON.
        overwrite: replace files that are there.
        progress: say so if it takes long.
    """
    if format is not None and format not in FORMATS:
        raise unknown("format", format, FORMATS)
    opened = _opened(run)
    format = format or {"coviews": "state-dict"}.get(library_of(opened.name), library_of(opened.name))
    _check_format(opened, format)
    path = Path(out) if out is not None else _default_path(run, opened, format)
    source = small_resnet_source().encode() if library_of(opened.name) == "coviews" and format != "onnx" else None
    files = [path, path.with_name(f"{path.name}.json"), *([path.with_name(SOURCE)] if source is not None else [])]
    _check_files(files, format, source, overwrite)

    described, difference = _described(opened, format), None
    if format == "onnx":
        with waiting("exporting to ONNX" if progress else ""):
            content = onnx_bytes(opened.encoder, _size(opened), described["channels"], _texts(described))
            difference = largest_difference(content, opened.encoder, _size(opened), described["channels"])
        write_whole(path, content)
        snippet = onnx_snippet(path, described)
    else:
        _write_weights(path, opened, described)
        snippet = weights_snippet(path, opened.encoder, described)
    if source is not None:
        write_whole(files[2], source)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    text = json.dumps({**described, "file": path.name, "sha256": digest, "snippet": snippet.splitlines()}, indent=1)
    write_whole(files[1], text.encode() + b"\n")
    return Exported(path, tuple(files), snippet, difference)


def _opened(run: str | Path) -> OpenedEncoder:
    path = Path(run)
    if not path.exists():
        raise CoviewsError(f"there is no run or file {run}")
    if path.is_file():
        describe_encoder(path)  # says what is wrong with a file that is not of a run
    opened = open_encoder(path)
    if opened.epoch is not None:
        warnings.warn(
            f"the run {run} has not ended: this is the encoder of its last checkpoint, after {opened.epoch} epochs",
            stacklevel=3,
        )
    return opened


def _check_format(opened: OpenedEncoder, format: str) -> None:
    library = library_of(opened.name)
    if format in ("torchvision", "timm") and format != library:
        other = "state-dict" if library == "coviews" else library
        raise CoviewsError(
            f"the encoder {opened.name} is not one of {format} but of {library}: take --format {other}, or onnx"
        )
    if format == "onnx":
        check_onnx()


def _check_files(files: list[Path], format: str, source: bytes | None, overwrite: bool) -> None:
    path = files[0]
    suffixes = (".onnx",) if format == "onnx" else _WEIGHTS
    if path.suffix not in suffixes:
        raise CoviewsError(f"cannot write --format {format} as {str(path)!r}: name it {' or '.join(suffixes)}")
    for file in files:
        if file.is_dir():
            raise CoviewsError(f"cannot write {file}: it is a folder")
        same = source is not None and file.name == SOURCE and file.exists() and file.read_bytes() == source
        if file.exists() and not overwrite and not same:
            raise CoviewsError(f"{file} is there already: choose another --out, or --overwrite")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CoviewsError(f"cannot write to {path.parent}: {error.strerror}") from error


def _described(opened: OpenedEncoder, format: str) -> dict[str, Any]:
    """What someone must know who uses the encoder."""
    assert opened.channels is not None
    assert opened.normalisation is not None
    mean, std = opened.normalisation
    return {
        "format": format,
        "encoder": opened.name,
        "features": check_encoder(opened.encoder, _size(opened), opened.channels, opened.name),
        "image_size": list(_size(opened)),
        "channels": opened.channels,
        "mean": list(mean),
        "std": list(std),
        "coviews": importlib.metadata.version("coviews"),
    }


def _write_weights(path: Path, opened: OpenedEncoder, described: dict[str, Any]) -> None:
    if path.suffix == ".safetensors":
        save_encoder(
            path, opened.encoder, name=opened.name, image_size=_size(opened), channels=described["channels"],
            mean=tuple(described["mean"]), std=tuple(described["std"]),
        )  # fmt: skip
    else:
        write_whole(path, lambda file: torch.save(opened.encoder.state_dict(), file))


def _texts(described: dict[str, Any]) -> dict[str, str]:
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in described.items()}


def _size(opened: OpenedEncoder) -> tuple[int, int]:
    assert opened.size is not None  # a run knows it
    return opened.size


def _default_path(run: str | Path, opened: OpenedEncoder, format: str) -> Path:
    """In the current folder, called by the run and the encoder."""
    folder = Path(run).resolve()
    folder = folder if folder.is_dir() else folder.parent
    suffix = ".onnx" if format == "onnx" else ".safetensors"
    return Path(f"{folder.name}-{opened.name.removeprefix('timm/')}{suffix}")
