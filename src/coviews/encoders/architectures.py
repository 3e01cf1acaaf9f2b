"""Encoders by name; an encoder maps each image to a vector."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from coviews.compat import import_torchvision
from coviews.data.cache import in_words, memory_for_images
from coviews.encoders.frozen import evaluating
from coviews.encoders.series_network import SmallSeriesNet
from coviews.errors import CoviewsError, unknown

SMALL = 64  # below this many pixels a torchvision ResNet gets the small-image stem, as in the paper
WEIGHT_COPIES = 4  # of the weights, while they are trained: gradients, momentum, a checkpoint
_MAPS = 32  # feature maps of the size of the image, at least
_SEEN = 224  # pixels a side of the images that an encoder is tried on
_MOST_SEEN = 2**21  # pixels of the same for a model of timm
WIDTHS = {"resnet8": 64, "resnet8x2": 128, "series8": 64}  # our own small ones: channels after the stem
OF_SERIES = ("series8",)  # those of them that take images of one row


class SmallResNet(nn.Module):
    """A ResNet of eight layers for CPUs, which sees a quarter of the image's side from its first block on.

    At 32 pixels, width 64 is 13 M multiply-adds and 1.2 M parameters, width 128 four times that.
    """

    def __init__(self, channels: int = 3, width: int = 64) -> None:
        super().__init__()
        # two strides at once, then wide: learns more than half the width at twice the resolution, at the same cost
        self.stem = nn.Sequential(_conv(channels, width // 2, stride=2), _conv(width // 2, width, stride=2))
        self.blocks = nn.Sequential(
            _Block(width, width), _Block(width, 2 * width, stride=2), _Block(2 * width, 4 * width, stride=2)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, 4 * width)."""
        return self.blocks(self.stem(x)).mean((2, 3))


class _Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.first = _conv(inputs, outputs, stride)
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = (
            nn.Identity()
            if stride == 1 and inputs == outputs
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(self.first(x)) + self.shortcut(x))


def _conv(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


def make_encoder(name: str, image_size: int | tuple[int, int] = 32, channels: int = 3) -> nn.Module:
    """A backbone by name, with its number of features as `feature_count`, checked for this size of images.

    Args:
        name: `resnet8`, `resnet8x2`, `series8` for images of one row, a torchvision ResNet such as `resnet50`, or
            `timm/NAME` for a model of timm.
        image_size: one side for square images, or height and width. Below 64 pixels a torchvision ResNet gets a
            3x3 stem without stride and pooling; timm's models keep their own stem.
        channels: of the images.
    """
    size = (image_size, image_size) if isinstance(image_size, int) else image_size
    outline = _outline(name, size, channels)
    need = WEIGHT_COPIES * sum(p.numel() * p.element_size() for p in outline.parameters())
    memory = memory_for_images()
    if memory is not None and need > memory:
        raise CoviewsError(
            f"the encoder {name!r} needs {in_words(need)} of memory, and {in_words(memory)} are "
            "free for it: choose a smaller one"
        )
    check_maps(name, size, channels)
    encoder: Any = _bare_encoder(name, size, channels)
    # not `features`: some of timm's models have layers of that name
    encoder.feature_count = check_encoder(encoder, _seen(name, size), channels, name)
    return encoder


def _seen(name: str, size: tuple[int, int]) -> tuple[int, int]:
    """The size of the images that an encoder is tried on: its features are as many for larger ones, but for timm's."""
    return size if name.startswith("timm/") else (min(size[0], _SEEN), min(size[1], _SEEN))


def encoder_of_shapes(
    name: str, size: tuple[int, int], channels: int, shapes: Mapping[str, tuple[int, ...]], file: Path
) -> nn.Module:
    """A backbone whose weights are in a file: no memory is allocated before they are known to be of these shapes."""
    outline = _outline(name, size, channels)
    check_shapes({k: tuple(v.shape) for k, v in outline.state_dict().items()}, shapes, name, file)
    encoder: Any = _bare_encoder(name, size, channels)
    seen = _seen(name, size)
    if size[0] * size[1] > _MOST_SEEN and seen == size:
        raise CoviewsError(f"{file} is of {name} for images of {size[0]:,} x {size[1]:,} pixels, which are too large")
    encoder.feature_count = check_encoder(encoder, seen, channels, name)
    return encoder


def check_shapes(
    own: Mapping[str, tuple[int, ...]], shapes: Mapping[str, tuple[int, ...]], name: str, file: Path
) -> None:
    """An error if the weights of a file are not those of an encoder."""
    missing, extra = [k for k in own if k not in shapes], [k for k in shapes if k not in own]
    wrong = [k for k in own if k in shapes and own[k] != shapes[k]]
    if not (missing or extra or wrong):
        return
    reason = (
        f"{len(missing)} weights are missing, such as {missing[0]}"
        if missing
        else f"{wrong[0]} has the shape {shapes[wrong[0]]}, not {own[wrong[0]]}"
        if wrong
        else f"{extra[0]} is not one of its weights"
    )
    raise CoviewsError(f"{file} is not of the encoder {name}: {reason}")


def _outline(name: str, size: tuple[int, int], channels: int) -> nn.Module:
    """The encoder without memory for its weights: their names and shapes."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        return _bare_encoder(name, size, channels)


def _bare_encoder(name: str, size: tuple[int, int], channels: int) -> nn.Module:
    if name in OF_SERIES:
        return SmallSeriesNet(channels, WIDTHS[name])
    if name in WIDTHS:
        return SmallResNet(channels, WIDTHS[name])
    if name.startswith("timm/"):
        return _timm_model(name, size, channels)
    return _torchvision_resnet(name, size, channels)


def check_maps(name: str, image_size: tuple[int, int], channels: int) -> str:
    """An error if the feature maps of two images do not fit into memory; the beginning of other refusals."""
    height, width = image_size
    refusal = f"the encoder {name!r} cannot take images of {height}x{width}x{channels}"
    need, memory = 2 * 4 * height * width * max(channels, _MAPS), memory_for_images()
    if memory is not None and need > memory:
        raise CoviewsError(f"{refusal}: they need about {in_words(need)} of memory; --size makes them smaller")
    return refusal


def check_encoder(encoder: nn.Module, image_size: tuple[int, int], channels: int, name: str | None = None) -> int:
    """The number of features that an encoder gives for images of this size; an error if it cannot take them."""
    height, width = image_size
    name = name or type(encoder).__name__
    refusal = check_maps(name, image_size, channels)
    weight = next(encoder.parameters(), torch.empty(0))
    images = torch.zeros(2, channels, height, width, device=weight.device, dtype=weight.dtype)
    try:
        with evaluating(encoder):  # its BatchNorm statistics must not change
            out = encoder(images)
    except Exception as error:  # libraries raise anything
        raise CoviewsError(f"{refusal}: {_first_line(error)}") from error
    if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != 2 or out.shape[1] < 1:
        raise CoviewsError(
            f"the encoder {name!r} must give a vector for each image, (2, D) for two, but gives {described(out)}"
        )
    if not out.isfinite().all():  # the mean of an empty feature map, for one
        raise CoviewsError(f"{refusal}: its features are not finite; larger images or another encoder may help")
    return out.shape[1]


def described(output: Any) -> str:
    """What an encoder gave, for an error; for several tensors, what to do about it."""
    if isinstance(output, Tensor):
        return str(tuple(output.shape))
    names = ", ".join(map(str, output)) if isinstance(output, Mapping) else ""
    kind = f"{type(output).__name__}{f' ({names})' if names else ''}"
    return f"{kind}: wrap it in a module whose forward returns one tensor of it"


def _torchvision_resnet(name: str, size: tuple[int, int], channels: int) -> nn.Module:
    models = import_torchvision().models
    names = [n for n in models.list_models() if n.startswith(("resnet", "wide_resnet", "resnext"))]
    if name not in names:
        raise _unknown_encoder(name, names)
    model = models.get_model(name, weights=None)
    first = model.conv1
    if min(size) < SMALL:
        model.conv1 = nn.Conv2d(channels, first.out_channels, 3, 1, 1, bias=False)
        model.maxpool = nn.Identity()
    elif channels != first.in_channels:
        model.conv1 = nn.Conv2d(channels, first.out_channels, 7, 2, 3, bias=False)
    model.fc = nn.Identity()
    return model


def _timm_model(name: str, size: tuple[int, int], channels: int) -> nn.Module:
    import_torchvision()  # timm imports it
    import timm

    short = name.removeprefix("timm/")
    if short not in timm.list_models():  # names with a tag or of a hub would download weights
        raise _unknown_encoder(name, [])
    plain: dict[str, Any] = {"pretrained": False, "num_classes": 0, "in_chans": channels}
    try:
        try:
            # one number for square images: some models accept nothing else
            return timm.create_model(short, img_size=size[0] if size[0] == size[1] else size, **plain)
        except TypeError as error:  # most convolutional networks take every size, and no such argument
            if "img_size" not in str(error):
                raise
            return timm.create_model(short, **plain)
    except Exception as error:
        raise CoviewsError(
            f"timm cannot make {short!r} for images of {size[0]}x{size[1]}x{channels}: {_first_line(error)}"
        ) from error


def timm_takes_size(name: str, size: tuple[int, int], channels: int) -> bool:
    """Whether a model of timm is made for images of one size; most convolutional networks take every size."""
    import_torchvision()
    import timm

    try:
        img_size = size[0] if size[0] == size[1] else size
        timm.create_model(name, pretrained=False, num_classes=0, in_chans=channels, img_size=img_size)
    except TypeError:
        return False
    return True


def _unknown_encoder(name: str, torchvision_names: list[str]) -> CoviewsError:
    import_torchvision()
    import timm

    ours = [*WIDTHS, *torchvision_names]
    all_names = [*ours, *(f"timm/{n}" for n in timm.list_models())]
    if difflib.get_close_matches(name.lower(), all_names, n=1, cutoff=0.5):
        return unknown("encoder", name, all_names)
    return CoviewsError(f"unknown encoder {name!r}: there are {', '.join(ours)}, and timm/NAME for timm.list_models()")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
