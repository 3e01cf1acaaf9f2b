"""Each operation as Pillow does it, if Pillow has it: the reference that the kernels must equal byte for byte."""

import math

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

import random_reference
from coviews import OPS

AFFINE = Image.Transform.AFFINE


def apply(image: np.ndarray, name: str, value: float, place=(0.5, 0.5), fill=(128, 128, 128)) -> np.ndarray:
    """Operation `name` with `value` on (H, W, 1) or (H, W, 3)."""
    if name in random_reference.NAMES:
        return random_reference.apply(image, name, value, place, fill)
    grey = image.shape[2] == 1
    picture = Image.fromarray(image[..., 0] if grey else image)
    w, h = picture.size
    match name:
        case "ShearX":
            made = picture.transform((w, h), AFFINE, (1, value, 0, 0, 1, 0))
        case "ShearY":
            made = picture.transform((w, h), AFFINE, (1, 0, 0, value, 1, 0))
        case "TranslateX":
            made = picture.transform((w, h), AFFINE, (1, 0, value * w, 0, 1, 0))
        case "TranslateY":
            made = picture.transform((w, h), AFFINE, (1, 0, 0, 0, 1, value * h))
        case "ShiftX":
            made = picture.transform((w, h), AFFINE, (1, 0, -_whole(value * w), 0, 1, 0))
        case "ShiftY":
            made = picture.transform((w, h), AFFINE, (1, 0, 0, 0, 1, -_whole(value * h)))
        case "MoveX":
            made = picture.transform((w, h), AFFINE, (1, 0, -int(value), 0, 1, 0))
        case "MoveY":
            made = picture.transform((w, h), AFFINE, (1, 0, 0, 0, 1, -int(value)))
        case "Rotate":
            made = picture.rotate(value)
        case "AutoContrast":
            made = ImageOps.autocontrast(picture)
        case "Invert":
            made = ImageOps.invert(picture)
        case "Equalize":
            made = ImageOps.equalize(picture)
        case "Solarize":
            made = ImageOps.solarize(picture, value)
        case "Posterize":
            made = ImageOps.posterize(picture, int(value))
        case "Contrast" | "Color" | "Brightness" | "Sharpness":
            made = getattr(ImageEnhance, name)(picture).enhance(value)
        case "Saturation":
            made = ImageEnhance.Color(picture).enhance(value)
        case "Grayscale":
            made = picture.convert("L").convert(picture.mode)
        case "Blur":
            made = picture.filter(ImageFilter.GaussianBlur(float(value)))
        case "Identity":
            made = picture
        case "Hue":
            made = picture if grey else _hue(picture, value)
        case "Cutout":
            made = _cutout(picture, value, place, fill)
        case _:
            raise AssertionError(f"the reference does not know {name}; the table does: {list(OPS)}")
    return np.asarray(made).reshape(image.shape)


def _whole(pixels: float) -> int:
    return int(pixels + math.copysign(1e-6, pixels))


def _hue(picture: Image.Image, value: float) -> Image.Image:
    h, s, v = picture.convert("HSV").split()
    turned = np.asarray(h) + np.uint8(math.trunc(value * 255) % 256)
    return Image.merge("HSV", (Image.fromarray(turned), s, v)).convert("RGB")


def _cutout(picture: Image.Image, value: float, place, fill) -> Image.Image:
    """A filled square of a share of the shorter side, rounded, around a pixel, clipped by `paste`."""
    w, h = picture.size
    side = math.floor(value * min(w, h) + 0.5)
    left = min(int(place[0] * w), w - 1) - side // 2
    top = min(int(place[1] * h), h - 1) - side // 2
    made = picture.copy()
    if side:
        made.paste(tuple(fill) if picture.mode == "RGB" else fill[0], (left, top, left + side, top + side))
    return made


def crop(
    image: np.ndarray, box, flip: bool, vertical=False, turns=0, size: tuple[int, int] | None = None
) -> np.ndarray:
    """`resize` with a box, to the image's own size or another (height, width); then mirrored and turned."""
    grey = image.shape[2] == 1
    picture = Image.fromarray(image[..., 0] if grey else image)
    height, width = size or image.shape[:2]
    view = picture.resize((width, height), Image.Resampling.BILINEAR, box=tuple(box))
    kinds = Image.Transpose
    changes = [kinds.FLIP_LEFT_RIGHT] * bool(flip) + [kinds.FLIP_TOP_BOTTOM] * bool(vertical)
    changes += [(kinds.ROTATE_90, kinds.ROTATE_180, kinds.ROTATE_270)[turns - 1]] * bool(turns)
    for change in changes:
        view = view.transpose(change)
    return np.asarray(view).reshape(height, width, image.shape[2])
