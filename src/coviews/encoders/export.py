"""`export`: an encoder in files that can be used without coviews, and the Python code that loads them."""

import hashlib
import importlib.metadata
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from coviews.console.option_types import ExportKeywords
from coviews.console.options import replaced
from coviews.console.progress import waiting
from coviews.encoders.architectures import check_encoder
from coviews.encoders.encoder_options import ExportOptions
from coviews.encoders.export_snippets import SOURCE, library_of, onnx_snippet, small_resnet_source, weights_snippet
from coviews.encoders.file import describe_encoder, save_encoder
from coviews.encoders.hugging_face import write_folder
from coviews.encoders.onnx_file import check_onnx, largest_difference, onnx_bytes
from coviews.encoders.open import OpenedEncoder, open_encoder
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole, writing
from coviews.runs.folder import torch_writer

HUGGING_FACE = "huggingface"
_WEIGHTS = (".safetensors", ".pt", ".pth")


@dataclass(frozen=True)
class Exported:
    """What `export` wrote."""

    path: Path
    files: tuple[Path, ...]  # all of them: the encoder, its description, and its source where there is one
    snippet: str  # Python that loads it and gives `features(images)`
    difference: float | None  # of ONNX from torch, relative to the largest feature

    def __repr__(self) -> str:
        return f"Exported({', '.join(map(str, self.files))})"


def export(
    run: str | Path,
    format: str | None = None,
    *,
    options: ExportOptions | None = None,
    **changes: Unpack[ExportKeywords],
) -> Exported:
    """Write the encoder of a run for use elsewhere, without coviews.

    Args:
        run: the folder of a run, finished or not, or its encoder.safetensors.
        format: torchvision, timm, state-dict, onnx or huggingface; by default the library of the encoder.
        options: all options; by default those of `ExportOptions`.
        changes: single options, such as `out="encoder.onnx"`.
    """
    options = replaced(options or ExportOptions(), {**changes, **({} if format is None else {"format": format})})
    model = _open_run(run)
    library = library_of(model.name)
    format = options.format or ("state-dict" if library == "coviews" else library)
    _check_format(model, format)
    path = Path(options.out) if options.out is not None else _default_path(run, model, format)
    if format == HUGGING_FACE:
        written, snippet = write_folder(path, model, _description(model, format), overwrite=options.overwrite)
        return Exported(path, tuple(written), snippet, None)
    source = small_resnet_source().encode() if library == "coviews" and format != "onnx" else None
    files = [path, path.with_name(f"{path.name}.json"), *([path.with_name(SOURCE)] if source is not None else [])]
    _check_files(files, format, source, options.overwrite)

    description, difference = _description(model, format), None
    if format == "onnx":
        with waiting("exporting to ONNX" if options.progress else ""):
            content = onnx_bytes(model.encoder, _size(model), description["channels"], _texts(description))
            difference = largest_difference(content, model.encoder, _size(model), description["channels"])
        write_whole(path, content)
        snippet = onnx_snippet(path, description)
    else:
        _write_weights(path, model, description)
        snippet = weights_snippet(path, model.encoder, description)
    if source is not None:
        write_whole(files[2], source)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    text = json.dumps({**description, "file": path.name, "sha256": digest, "snippet": snippet.splitlines()}, indent=1)
    write_whole(files[1], text.encode() + b"\n")
    return Exported(path, tuple(files), snippet, difference)


def _open_run(run: str | Path) -> OpenedEncoder:
    path = Path(run)
    if not path.exists():
        raise CoviewsError(f"there is no run or file {run}")
    if path.is_file():
        describe_encoder(path)  # raises an error if the file is not an encoder of a run
    model = open_encoder(path)
    if model.epoch is not None:
        warnings.warn(
            f"the run {run} has not ended: this is the encoder of its last checkpoint, after {model.epoch} epochs",
            stacklevel=3,
        )
    return model


def _check_format(model: OpenedEncoder, format: str) -> None:
    library = library_of(model.name)
    if format in ("torchvision", "timm") and format != library:
        other = "state-dict" if library == "coviews" else library
        raise CoviewsError(
            f"the encoder {model.name} is not one of {format} but of {library}: take --format {other}, or onnx"
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
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)


def _description(model: OpenedEncoder, format: str) -> dict[str, Any]:
    """What a user of the encoder has to know."""
    assert model.channels is not None
    assert model.normalisation is not None
    mean, std = model.normalisation
    return {
        "format": format,
        "encoder": model.name,
        "features": _feature_count(model),
        "image_size": list(_size(model)),
        "channels": model.channels,
        "depth": model.depth,
        "values": model.values,
        "mean": list(mean),
        "std": list(std),
        "coviews": importlib.metadata.version("coviews"),
    }


def _feature_count(model: OpenedEncoder) -> int:
    assert model.channels is not None
    known = getattr(model.encoder, "feature_count", None)
    return known or check_encoder(model.encoder, _size(model), model.channels, model.name)


def _write_weights(path: Path, model: OpenedEncoder, description: dict[str, Any]) -> None:
    if path.suffix == ".safetensors":
        save_encoder(
            path, model.encoder, name=model.name, image_size=_size(model), channels=description["channels"],
            mean=tuple(description["mean"]), std=tuple(description["std"]), depth=description["depth"],
            values=description["values"],
        )  # fmt: skip
    else:
        write_whole(path, torch_writer(model.encoder.state_dict()))


def _texts(description: dict[str, Any]) -> dict[str, str]:
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in description.items()}


def _size(model: OpenedEncoder) -> tuple[int, int]:
    assert model.size is not None  # the size of its training is known
    return model.size


def _default_path(run: str | Path, model: OpenedEncoder, format: str) -> Path:
    """A file in the current folder, named after the run and the encoder."""
    folder = Path(run).resolve()
    folder = folder if folder.is_dir() else folder.parent
    suffix = {"onnx": ".onnx", HUGGING_FACE: ""}.get(format, ".safetensors")
    return Path(f"{folder.name}-{model.name.removeprefix('timm/')}{suffix}")
