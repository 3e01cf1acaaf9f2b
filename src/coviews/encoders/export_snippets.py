"""Python code that loads an exported encoder without coviews, and the source of the small encoders."""

import inspect
import json
from pathlib import Path
from typing import Any

from torch import nn

from coviews.encoders import architectures as encoders
from coviews.encoders import series_network
from coviews.encoders.architectures import OF_SERIES, WIDTHS, timm_takes_size

SOURCE = "small_resnet.py"


def library_of(name: str) -> str:
    """The library that defines an encoder of this name: coviews, timm or torchvision."""
    return "coviews" if name in WIDTHS else "timm" if name.startswith("timm/") else "torchvision"


def weights_snippet(file: Path, encoder: nn.Module, description: dict[str, Any]) -> str:
    """Code that builds the encoder, loads its weights, and defines `features`."""
    name, channels = description["encoder"], description["channels"]
    imports, more_imports, build = ["import torch"], [], []
    if file.suffix == ".safetensors":
        imports = ["import safetensors.torch", "import torch"]
        weights = f"safetensors.torch.load_file({_quoted(file)})"
    else:
        weights = f"torch.load({_quoted(file)}, weights_only=True)"
    if library_of(name) == "coviews":
        imports, kind = ["import sys", "", *imports], "SmallSeriesNet" if name in OF_SERIES else "SmallResNet"
        more_imports = [
            "",
            f"sys.path.append({_quoted(file.parent)})  # where {SOURCE} is: the encoder in plain PyTorch",
            f"from {Path(SOURCE).stem} import {kind}",
        ]
        build = [f"encoder = {kind}(channels={channels}, width={WIDTHS[name]})"]
    elif library_of(name) == "timm":
        imports = sorted([*imports, "import timm"])
        build = [_timm_line(name.removeprefix("timm/"), tuple(description["image_size"]), channels)]
    else:
        imports = [*imports, "import torchvision"]
        build = _torchvision_lines(name, encoder)
    build += [f"encoder.load_state_dict({weights})", "encoder.eval()"]
    return "\n".join([*imports, *more_imports, "", *build, "", "", *_feeding(description), ""])


def timm_folder_snippet(folder: Path, description: dict[str, Any]) -> str:
    """Code that loads a folder in the layout of the Hugging Face hub with timm, and defines `features`."""
    build = f"encoder = timm.create_model({_quoted(f'local-dir:{folder}')}, pretrained=True).eval()"
    return "\n".join(["import timm", "import torch", "", build, "", "", *_feeding(description), ""])


def _feeding(description: dict[str, Any]) -> list[str]:
    return [
        f"def features(images):  # {_kind_of_images(description)}",
        *_scaling(description, "torch"),
        f"    mean = torch.tensor({description['mean']}).view(-1, 1, 1)",
        f"    std = torch.tensor({description['std']}).view(-1, 1, 1)",
        "    with torch.no_grad():",
        "        return encoder((images - mean) / std)",
    ]


def onnx_snippet(file: Path, description: dict[str, Any]) -> str:
    """Code that opens an ONNX file, and defines `features`."""
    lines = [
        "import numpy as np",
        "import onnxruntime",
        "",
        f'session = onnxruntime.InferenceSession({_quoted(file)}, providers=["CPUExecutionProvider"])',
        "",
        "",
        f"def features(images):  # {_kind_of_images(description)}",
        *_scaling(description, "numpy"),
        f"    mean = np.array({description['mean']}, np.float32).reshape(-1, 1, 1)",
        f"    std = np.array({description['std']}, np.float32).reshape(-1, 1, 1)",
        '    return session.run(None, {"images": (images - mean) / std})[0]',
        "",
    ]
    return "\n".join(lines)


def small_resnet_source() -> str:
    """The source of a module with the small encoders, which needs only torch."""
    of_series = (series_network.SmallSeriesNet, series_network._SeriesBlock, series_network._conv1d)
    parts = (encoders.SmallResNet, encoders._Block, encoders._conv, *of_series)
    head = '"""The encoders resnet8 (width 64), resnet8x2 (width 128) and series8 of coviews, in plain PyTorch."""'
    source = "\n\n\n".join(inspect.getsource(part).rstrip() for part in parts)
    return f"{head}\n\nimport torch\nfrom torch import Tensor, nn\n\n\n{source}\n"


def _torchvision_lines(name: str, encoder: Any) -> list[str]:
    lines = [f"encoder = torchvision.models.{name}(weights=None)"]
    first = encoder.conv1
    kernel, stride, padding = first.kernel_size[0], first.stride[0], first.padding[0]
    shape = f"{first.in_channels}, {first.out_channels}, {kernel}, {stride}, {padding}, bias=False"
    if kernel == 3:
        lines += [
            f"encoder.conv1 = torch.nn.Conv2d({shape})  # the stem for small images: no stride and no pooling",
            "encoder.maxpool = torch.nn.Identity()",
        ]
    elif first.in_channels != 3:
        lines.append(f"encoder.conv1 = torch.nn.Conv2d({shape})  # for other channels than red, green and blue")
    return [*lines, "encoder.fc = torch.nn.Identity()  # features instead of classes"]


def _timm_line(name: str, size: tuple[int, int], channels: int) -> str:
    options = f"{_quoted(name)}, pretrained=False, num_classes=0"
    options += f", in_chans={channels}" if channels != 3 else ""
    if timm_takes_size(name, size, channels):
        options += f", img_size={size[0] if size[0] == size[1] else size}"
    return f"encoder = timm.create_model({options})"


def _quoted(text: object) -> str:
    """A text as a Python literal in double quotes."""
    return json.dumps(str(text), ensure_ascii=False)


def _kind_of_images(description: dict[str, Any]) -> str:
    height, width = description["image_size"]
    channels = description["channels"]
    colours = {1: "grey", 3: "red, green and blue"}.get(channels, f"{channels} channels")
    shape = f"(N, {channels}, {height}, {width})"
    levels = "the file's own values" if description["values"] is not None else f"{colours} from 0 to 1"
    return f"float32 {shape}, {levels} -> (N, {description['features']})"


def _scaling(description: dict[str, Any], library: str) -> list[str]:
    """Lines that scale values to 0..1, as in training; none if they are from 0 to 1 already."""
    if description["values"] is None:
        return []
    low, high = ([pair[i] for pair in description["values"]] for i in (0, 1))
    span = [b - a if b > a else 1.0 for a, b in zip(low, high, strict=True)]
    if library == "torch":
        return [
            f"    low = torch.tensor({low}).view(-1, 1, 1)  # the values that became 0 in training",
            f"    span = torch.tensor({span}).view(-1, 1, 1)  # and from there to those that became 1",
            "    images = ((images - low) / span).clamp(0, 1)",
        ]
    return [
        f"    low = np.array({low}, np.float32).reshape(-1, 1, 1)  # the values that became 0 in training",
        f"    span = np.array({span}, np.float32).reshape(-1, 1, 1)  # and from there to those that became 1",
        "    images = ((images - low) / span).clip(0, 1)",
    ]
