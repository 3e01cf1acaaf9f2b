"""Operations and crops of images of any number of channels and either depth, one channel at a time.

8-bit channels are grey images of Pillow's. Of 16 bits, Pillow moves the high and the low bytes, and resamples; the rest
is NumPy.
"""

import numpy as np
from PIL import Image

import pillow_reference
import random_reference
from coviews import OPS

MOVES = ("ShearX", "ShearY", "TranslateX", "TranslateY", "ShiftX", "ShiftY", "MoveX", "MoveY", "Rotate")
JOINT = ("Contrast", "Color", "Saturation", "Grayscale")  # not by channel

f32 = np.float32


def apply(image: np.ndarray, name: str, value: float, place, fill) -> np.ndarray:
    """Operation `name` with `value` on (H, W, C)."""
    c, eight_bits = image.shape[2], image.dtype == np.uint8
    if name in random_reference.NAMES:
        return random_reference.apply(image, name, value, place, fill)
    if eight_bits and c in (1, 3):
        return pillow_reference.apply(image, name, value, place, fill)
    if name in JOINT:
        return _joint(image, name, value)
    channels = [image[..., k : k + 1] for k in range(c)]
    if eight_bits:
        results = [pillow_reference.apply(a, name, value, place, fill[k : k + 1]) for k, a in enumerate(channels)]
    elif name in (*MOVES, "Cutout"):
        results = []
        for k, a in enumerate(channels):
            high, low = (
                pillow_reference.apply(part.astype(np.uint8), name, value, place, (part_fill,)).astype(np.uint16)
                for part, part_fill in ((a >> 8, fill[k] >> 8), (a & 255, fill[k] & 255))
            )
            results.append((high << 8) + low)
    else:
        results = [_deep(a, name, value) for a in channels]
    return np.concatenate(results, -1)


def crop(image: np.ndarray, box, flip: bool, vertical: bool, turns: int, size: tuple[int, int]) -> np.ndarray:
    """`resize` of each channel with a box, mirrored and turned."""
    height, width = size
    channels = []
    for k in range(image.shape[2]):
        picture = Image.fromarray(np.ascontiguousarray(image[..., k]))
        channels.append(np.asarray(picture.resize((width, height), Image.Resampling.BILINEAR, box=tuple(box))))
    view = np.stack(channels, -1)
    view = view[:, ::-1] if flip else view
    view = view[::-1] if vertical else view
    return np.rot90(view, turns)


def _blend(base: np.ndarray | float, image: np.ndarray, value: float) -> np.ndarray:
    mixed = f32(base) + f32(value) * (image.astype(f32) - f32(base))
    return np.clip(mixed, 0, np.iinfo(image.dtype).max).astype(image.dtype)


def _luma(image: np.ndarray) -> np.ndarray:
    """(H, W, 1): the weights that Pillow has, in 16 bits after the point."""
    return ((image.astype(np.int64) * (19595, 38470, 7471)).sum(-1, keepdims=True) + 32768) >> 16


def _joint(image: np.ndarray, name: str, value: float) -> np.ndarray:
    rgb = image.shape[2] == 3
    if name == "Contrast":
        return _blend(int((_luma(image) if rgb else image).mean(dtype=np.float64) + 0.5), image, value)
    if not rgb:
        return image
    return _blend(_luma(image), image, 0.0 if name == "Grayscale" else value)


def _deep(image: np.ndarray, name: str, value: float) -> np.ndarray:
    """One channel of 16 bits."""
    match name:
        case "Identity":
            return image
        case "Invert":
            return 65535 - image
        case "Solarize":
            return np.where(image < value * 257, image, 65535 - image).astype(np.uint16)
        case "Brightness":
            return _blend(0, image, value)
        case "Sharpness":
            return _blend(_smoothed(image), image, value)
        case "Blur":
            reach, near, far = (int(v) for v in OPS["Blur"].parameters(value, 1, 1))
            for axis in (1, 1, 1, 0, 0, 0):
                image = _box(image, axis, reach, near, far)
            return image
    raise AssertionError(name)


def _smoothed(image: np.ndarray) -> np.ndarray:
    """The mean of 3 x 3 pixels, of which the middle one counts five times; the border stays as it is."""
    h, w = image.shape[:2]
    smooth, wide = image.astype(np.int64), image.astype(np.int64)
    if h > 2 and w > 2:
        total = 4 * wide[1:-1, 1:-1]
        for y in range(3):
            for x in range(3):
                total = total + wide[y : h - 2 + y, x : w - 2 + x]
        smooth[1:-1, 1:-1] = (2 * total + 13) // 26
    return smooth


def _box(image: np.ndarray, axis: int, reach: int, near: int, far: int) -> np.ndarray:
    """Pixels at a distance up to `reach` weigh near / 2^24, the next on either side far / 2^24."""
    n, wide = image.shape[axis], image.astype(np.int64)
    total = np.full(image.shape, 1 << 23, np.int64)
    for offset in range(-reach - 1, reach + 2):
        weight = far if abs(offset) > reach else near
        total += weight * np.take(wide, np.clip(np.arange(n) + offset, 0, n - 1), axis)
    return (total >> 24).astype(np.uint16)
