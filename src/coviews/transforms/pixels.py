"""One image of any library as the levels that the engine takes."""

from typing import Any

import numpy as np
import torch
from PIL import Image

from coviews.data.picture_reader import converted, header_of
from coviews.errors import CoviewsError
from coviews.ops.images import Images


def image_levels(image: Any) -> Images:
    """A Pillow image, an array (H, W, C) or a tensor (C, H, W) as levels (H, W, C) in uint8 or uint16.

    Tensors and arrays of floats are from 0 to 1, as `torchvision.transforms.ToTensor` gives them.
    """
    if isinstance(image, Image.Image):
        pixels = _picture_levels(image)
    elif isinstance(image, torch.Tensor):
        pixels = image.detach().cpu().numpy()
        pixels = np.moveaxis(pixels, 0, -1) if image.ndim == 3 else pixels
    elif isinstance(image, np.ndarray):
        pixels = image
    else:
        raise CoviewsError(f"views are made of Pillow images, arrays or tensors, not of {type(image).__name__}")
    if pixels.ndim not in (2, 3) or 0 in pixels.shape:
        raise CoviewsError(f"an image is (C, H, W) as a tensor and (H, W, C) as an array, not {tuple(image.shape)}")
    if isinstance(image, torch.Tensor) and image.ndim == 3 and image.shape[0] > 16 >= image.shape[2]:
        raise CoviewsError(f"a tensor is (C, H, W), not {tuple(image.shape)}: give image.permute(2, 0, 1)")
    if pixels.dtype.kind == "f":
        if not (pixels.min() >= 0 and pixels.max() <= 1):  # nan is neither
            raise CoviewsError(
                "an image of floats must be from 0 to 1: make views before you normalise, and divide levels by 255"
            )
        pixels = np.rint(pixels * 255).astype(np.uint8)
    if pixels.dtype not in (np.uint8, np.uint16):
        raise CoviewsError(f"an image must be uint8, uint16 or floats from 0 to 1, not {pixels.dtype}")
    return np.ascontiguousarray(pixels.reshape(*pixels.shape[:2], -1))


def _picture_levels(picture: Image.Image) -> Images:
    if picture.mode.startswith("I;16"):
        return np.asarray(picture).astype(np.uint16)
    if picture.mode in ("I", "F"):
        raise CoviewsError(f"a Pillow image of mode {picture.mode} has no range: scale it to uint8 or uint16 first")
    return np.asarray(converted(picture, header_of(picture).channels))
