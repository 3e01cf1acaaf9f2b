"""An encoder in the layout of the Hugging Face hub: config.json, model.safetensors and a model card."""

import json
from pathlib import Path
from typing import Any

import torch

from coviews.compat import import_torchvision
from coviews.encoders.architectures import timm_takes_size
from coviews.encoders.export_snippets import (
    SOURCE,
    library_of,
    small_resnet_source,
    timm_folder_snippet,
    weights_snippet,
)
from coviews.encoders.file import save_encoder
from coviews.encoders.model_card import model_card
from coviews.encoders.open import OpenedEncoder
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole

WEIGHTS = "model.safetensors"


def write_folder(
    folder: Path, model: OpenedEncoder, description: dict[str, Any], *, overwrite: bool
) -> tuple[list[Path], str]:
    """Write the folder; gives its files, and the Python that loads it."""
    architecture = _timm_architecture(model, description)
    names = ["config.json", WEIGHTS, "README.md", *([SOURCE] if library_of(model.name) == "coviews" else [])]
    files = [folder / name for name in names]
    if folder.is_file():
        raise CoviewsError(f"cannot write {folder}: it is a file, and --format huggingface writes a folder")
    for file in files:
        if file.exists() and not overwrite:
            raise CoviewsError(f"{file} is there already: choose another --out, or --overwrite")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CoviewsError(f"cannot write to {folder}: {error.strerror}") from error

    height, width = description["image_size"]
    save_encoder(
        files[1], model.encoder, name=model.name, image_size=(height, width), channels=description["channels"],
        mean=tuple(description["mean"]), std=tuple(description["std"]), depth=description["depth"],
        values=description["values"],
    )  # fmt: skip
    if architecture is None:
        config: dict[str, Any] = {"architecture": model.name, "num_features": description["features"]}
        snippet = weights_snippet(files[1], model.encoder, description)
    else:
        config = _timm_config(architecture, description)
        snippet = timm_folder_snippet(folder, description)
    write_whole(files[0], json.dumps({**config, "coviews": description}, indent=1).encode() + b"\n")
    if len(files) > 3:
        write_whole(files[3], small_resnet_source().encode())
    # in the card, paths are as seen from the folder: a repository has no other
    local = snippet.replace(json.dumps(f"local-dir:{folder}", ensure_ascii=False), '"local-dir:."')
    local = local.replace(json.dumps(str(files[1]), ensure_ascii=False), f'"{WEIGHTS}"')
    local = local.replace(json.dumps(str(folder), ensure_ascii=False), '"."')
    write_whole(files[2], model_card(model, description, local, timm=architecture is not None).encode())
    return files, snippet


def _timm_architecture(model: OpenedEncoder, description: dict[str, Any]) -> str | None:
    """The name that timm has for the encoder, if it has one: also for those of torchvision that are the same."""
    if model.name.startswith("timm/"):
        return model.name.removeprefix("timm/")
    import_torchvision()
    import timm

    if library_of(model.name) != "torchvision" or model.name not in timm.list_models():
        return None
    channels = description["channels"]
    theirs = timm.create_model(model.name, pretrained=False, num_classes=0, in_chans=channels)
    try:
        theirs.load_state_dict(model.encoder.state_dict())
    except RuntimeError:  # the stem for small images
        return None
    images = torch.randn(2, channels, *description["image_size"], generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        same = torch.allclose(theirs.eval()(images), model.encoder(images), rtol=1e-4, atol=1e-5)
    return model.name if same else None


def _timm_config(architecture: str, description: dict[str, Any]) -> dict[str, Any]:
    """What timm reads: the architecture, its arguments, and how images are prepared."""
    channels, (height, width) = description["channels"], description["image_size"]
    arguments: dict[str, Any] = {"in_chans": channels}
    takes_size = timm_takes_size(architecture, (height, width), channels)
    if takes_size:
        arguments["img_size"] = height if height == width else [height, width]
    return {
        "architecture": architecture,
        "num_classes": 0,
        "num_features": description["features"],
        "model_args": arguments,
        "pretrained_cfg": {
            "input_size": [channels, height, width],
            "fixed_input_size": takes_size,
            "mean": description["mean"],
            "std": description["std"],
            "interpolation": "bilinear",
            "crop_pct": 1.0,
            "num_classes": 0,
            "first_conv": None,  # the weights have these channels already
            "classifier": None,
        },
    }
