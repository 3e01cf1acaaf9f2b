"""An encoder as one file: its weights, its architecture, and the size and normalisation of its images."""

import json
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import nn

from coviews.data.levels import MOST_CHANNELS, ValueRange, checked_range
from coviews.encoders.architectures import make_encoder
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole

FORMAT = 1


def save_encoder(
    path: Path,
    encoder: nn.Module,
    *,
    name: str | None,
    image_size: tuple[int, int],
    channels: int,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    depth: int = 8,
    values: ValueRange | None = None,
) -> None:
    """Write the encoder, complete or not at all; without a name it can be loaded only into a module like it.

    Args:
        path: the file.
        encoder: its weights are written.
        name: of the architecture.
        image_size: height and width of the images that it was trained on.
        channels: of these images.
        mean: of each channel in 0..1.
        std: the same for the standard deviation.
        depth: bits of a level of the images, 8 or 16.
        values: for each channel the values that became the lowest and highest level, if images were scaled.
    """
    description = {"format": FORMAT, "encoder": name, "image_size": image_size, "channels": channels}
    deep = {"depth": depth, "values": values} if (depth, values) != (8, None) else {}
    text = json.dumps({**description, **deep, "mean": mean, "std": std}, sort_keys=True)
    weights = {
        k: v.detach().cpu().clone(memory_format=torch.contiguous_format) for k, v in encoder.state_dict().items()
    }
    write_whole(path, safetensors.torch.save(weights, {"coviews": text}))


def load_encoder(path: str | Path, into: nn.Module | None = None) -> nn.Module:
    """The encoder of a run, in eval mode, with its `normalisation` (mean and standard deviation of each channel).

    Args:
        path: the run's folder, or its `encoder.safetensors`; no code in it is executed.
        into: a module of your own to load the weights into, for a run that trained one.
    """
    file = Path(path)
    file = file / "encoder.safetensors" if file.is_dir() else file
    description = describe_encoder(file)
    name, (height, width) = description["encoder"], description["image_size"]
    if into is None and name is None:
        raise CoviewsError(f"{file} was made from a module of yours: give it as load_encoder(..., into=module)")
    encoder = into if into is not None else make_encoder(name, (height, width), description["channels"])
    try:
        encoder.load_state_dict(safetensors.torch.load_file(file))
    except (RuntimeError, safetensors.SafetensorError) as error:
        lines = str(error).splitlines()
        raise CoviewsError(
            f"{file} does not fit {name or type(encoder).__name__}: {lines[min(1, len(lines) - 1)].strip()[:200]}"
        ) from error
    encoder.normalisation = (tuple(description["mean"]), tuple(description["std"]))  # type: ignore[assignment]
    return encoder.eval()


def describe_encoder(file: Path) -> dict[str, Any]:
    """The description in an encoder file: encoder, image_size, channels, depth, values, mean, std."""
    try:
        with safetensors.safe_open(file, framework="numpy") as content:
            metadata = content.metadata() or {}
        if "coviews" not in metadata:
            raise CoviewsError(f"{file} holds weights, but does not say of which encoder")
        description = json.loads(metadata["coviews"])
        if description["format"] != FORMAT:
            raise CoviewsError(f"{file} has the format {description['format']!r}, this version reads {FORMAT}")
        height, width = description["image_size"]
        channels = int(description["channels"])
        description = {"depth": 8, "values": None, **description}
        if not (
            int(height) > 0 and int(width) > 0 and 1 <= channels <= MOST_CHANNELS and description["depth"] in (8, 16)
        ):
            raise CoviewsError(f"{file}: its description is wrong")
        if description["values"] is not None:
            description["values"] = checked_range(description["values"], channels)
        [float(x) for x in (*description["mean"], *description["std"])]
    except FileNotFoundError as error:
        raise CoviewsError(f"there is no encoder file {file}; a run has one when its training has ended") from error
    except CoviewsError:
        raise
    except (OSError, safetensors.SafetensorError) as error:
        raise CoviewsError(f"{file} is not an encoder file, or is damaged: {error}") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CoviewsError(f"{file}: its description is wrong ({error!r})") from error
    return description
