"""The built-in images: ten shapes under varying colour, light, pose, texture and background."""

import numpy as np
from numpy.typing import NDArray

from coviews.data.shapes.outlines import OUTLINES
from coviews.data.shapes.patterns import CELLS, PATTERNS, TURN
from coviews.errors import CoviewsError

Array = NDArray[np.floating]  # float32 throughout, for speed

SHAPE_CLASSES = tuple(OUTLINES)
SMALLEST = 8  # pixels a side; in smaller images the shapes cannot be told apart
LARGEST = 2048  # pixels a side; one image of these takes 400 MB to be drawn
MUTED = 0.12  # the greatest saturation
_PIXELS_AT_ONCE = 1 << 17  # few enough that the planes of a chunk stay in the cache

_PAINT = np.dtype(
    [
        ("pattern", "i4"),
        ("colours", "f4", (2, 3)),
        ("angle", "f4"),
        ("frequency", "f4"),  # repeats of the pattern in one unit, which is half of the image's side
        ("phase", "f4", 2),
        ("lattice", "f4", CELLS * CELLS),
    ]
)
_SCENE = np.dtype(
    [
        ("shape", "i4"),
        ("centre", "f4", 2),
        ("scale", "f4"),
        ("angle", "f4"),
        ("shear", "f4"),
        ("stretch", "f4"),
        ("light", "f4"),  # the direction it comes from
        ("shading", "f4"),
        ("rim", "f4"),
        ("shadow", "f4"),
        ("highlight", "f4"),
        ("gradient", "f4", 2),  # brightness of the background
        ("exposure", "f4", 3),
        ("grain", "f4"),
        ("paint", _PAINT),
        ("ground", _PAINT),
    ]
)


def make_shapes(n: int, size: int | tuple[int, int] = 32, seed: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Draw n images (n, H, W, 3) of shapes, equally many of each class, and their labels.

    Args:
        n: the number of images.
        size: their side, or (height, width), in pixels; the scenes do not depend on it.
        seed: the same n, size and seed give the same bytes.
    """
    height, width = (size, size) if isinstance(size, int | np.integer) else size
    if n < 1:
        raise CoviewsError(f"the number of shapes must be at least 1, not {n}")
    if min(height, width) < SMALLEST:
        raise CoviewsError(f"shapes need at least {SMALLEST} pixels a side, not {height} x {width}")
    if max(height, width) > LARGEST:
        raise CoviewsError(f"the built-in shapes have at most {LARGEST:,} pixels a side, not {height} x {width}")
    if seed < 0:
        raise CoviewsError(f"the seed must not be negative, but is {seed}")
    generator = np.random.default_rng(seed)
    scenes = _draw_scenes(n, generator)
    (grains,) = generator.spawn(1)  # a generator of its own: the scenes must not depend on the number of pixels
    images = np.empty((n, height, width, 3), np.uint8)
    step = max(1, _PIXELS_AT_ONCE // (height * width))
    for first in range(0, n, step):
        images[first : first + step] = _render(scenes[first : first + step], height, width, grains)
    return images, scenes["shape"].astype(np.int64)


# ----------------------------------------------------------------------------------------- scenes


def _draw_scenes(n: int, generator: np.random.Generator) -> NDArray[np.void]:
    """Random scenes: the class determines the outline and the texture, and nothing else.

    Colours are muted and backgrounds plain: otherwise an encoder would tell images apart by these alone.
    """

    def uniform(low: float, high: float, *shape: int) -> NDArray[np.float64]:
        return generator.uniform(low, high, (n, *shape))

    scenes = np.zeros(n, _SCENE)
    scenes["shape"] = generator.permutation(np.arange(n) % len(SHAPE_CLASSES))
    scenes["scale"] = uniform(0.75, 1.05)
    scenes["centre"] = uniform(-1, 1, 2) * (1.2 - scenes["scale"])[:, None]
    scenes["angle"] = uniform(-0.7, 0.7)
    scenes["shear"] = uniform(-0.2, 0.2)
    scenes["stretch"] = np.exp(uniform(-0.12, 0.12))
    scenes["light"] = uniform(-np.pi, np.pi)
    scenes["shading"] = uniform(0.05, 0.4)
    scenes["rim"] = uniform(0, 0.35) * (uniform(0, 1) < 0.6)
    scenes["shadow"] = uniform(0.2, 0.6) * (uniform(0, 1) < 0.6)
    scenes["highlight"] = uniform(0.15, 0.6) * (uniform(0, 1) < 0.5)
    scenes["gradient"] = uniform(-0.25, 0.25, 2)
    scenes["exposure"] = uniform(0.75, 1.15, 1) * uniform(0.92, 1.08, 3)
    scenes["grain"] = uniform(0, 0.05) * (uniform(0, 1) < 0.7)

    # the shape is lighter or darker than the background, so that it shows in grey images too
    gap = uniform(0.34, 0.58)
    middle = 0.1 + gap / 2 + uniform(0, 1) * (0.8 - gap)
    side = np.where(uniform(0, 1) < 0.5, 0.5, -0.5)
    lightness = {"paint": middle + side * gap, "ground": middle - side * gap}
    for name, level in lightness.items():
        part = scenes[name]
        textured = name == "paint"
        part["pattern"] = scenes["shape"] % len(PATTERNS) if textured else 0
        apart = (uniform(0.25, 0.4) if textured else uniform(0.04, 0.1)) * np.where(level < 0.5, 1, -1)
        part["colours"][:, 0] = _colour(uniform(0, 1), uniform(0, MUTED), level)
        part["colours"][:, 1] = _colour(uniform(0, 1), uniform(0, MUTED), level + apart)
        part["angle"] = uniform(-np.pi, np.pi)
        part["frequency"] = np.exp(uniform(np.log(1.7), np.log(2.6)))
        part["phase"] = uniform(0, 8, 2)
        part["lattice"] = uniform(0, 1, CELLS * CELLS)
    return scenes


def _colour(hue: NDArray[np.float64], saturation: NDArray[np.float64], lightness: NDArray[np.float64]) -> Array:
    """A colour (n, 3) of this lightness: the pure hue, mixed with grey, then with black or white."""
    lightness = np.clip(lightness, 0.03, 0.97)[:, None]
    pure = np.clip(np.abs((hue[:, None] * 6 + np.array([0, 4, 2])) % 6 - 3) - 1, 0, 1)
    mixed = 1 - saturation[:, None] * (1 - pure)
    own = mixed @ np.array([[0.299], [0.587], [0.114]])
    darker, whiter = mixed * (lightness / own), mixed + (1 - mixed) * (lightness - own) / (1 - own + 1e-6)
    return np.where(lightness < own, darker, whiter).astype(np.float32)


# ----------------------------------------------------------------------------------------- painting


def _render(scenes: NDArray[np.void], height: int, width: int, grains: np.random.Generator) -> NDArray[np.uint8]:
    """Paint scenes as images (n, H, W, 3); until then planes are (n, H * W), coloured ones (3, n, H * W)."""
    pixel = 2 / min(height, width)  # the shorter side reaches from -1 to 1
    across = (np.arange(width, dtype=np.float32) + (0.5 - width / 2)) * pixel
    down = (np.arange(height, dtype=np.float32) + (0.5 - height / 2)) * pixel
    x, y = (plane.reshape(1, -1) for plane in np.meshgrid(across, down))
    right, below = x - _column(scenes["centre"][:, 0]), y - _column(scenes["centre"][:, 1])
    u, v = _into_shape(scenes, right, below)
    distance = _distance(scenes, u, v)

    image = _painted(scenes["ground"], x, y, pixel)
    image *= _light_on_ground(scenes, x, y, right, below)
    paint = _painted(scenes["paint"], u, v, pixel / _column(scenes["scale"]))
    _light_shape(paint, scenes, right, below, distance)
    image += np.clip(0.5 - distance / pixel, 0, 1) * (paint - image)
    image *= scenes["exposure"].T[:, :, None]
    image += _column(scenes["grain"]) * grains.standard_normal(image.shape, np.float32)
    pixels = np.clip(image * 255 + 0.5, 0, 255).astype(np.uint8)
    return pixels.transpose(1, 2, 0).reshape(len(scenes), height, width, 3)


def _light_on_ground(scenes: NDArray[np.void], x: Array, y: Array, right: Array, below: Array) -> Array:
    """How bright the background is: a gradient, and the shape's soft shadow on the far side of the light."""
    brightness = 1 + _column(scenes["gradient"][:, 0]) * x + _column(scenes["gradient"][:, 1]) * y
    light_x, light_y = _light(scenes, 0.2)
    shadow = _distance(scenes, *_into_shape(scenes, right + light_x, below + light_y))
    return brightness * (1 - _column(scenes["shadow"]) * np.clip(0.5 - shadow / 0.16, 0, 1))


def _light_shape(paint: Array, scenes: NDArray[np.void], right: Array, below: Array, distance: Array) -> None:
    """Make the shape's colours brighter towards the light, darker at the rim, and add a highlight."""
    scale = _column(scenes["scale"])
    light_x, light_y = _light(scenes, 0.3)
    towards = (right * light_x + below * light_y) / (0.3 * scale**2)
    depth = np.clip(-distance / (0.22 * scale), 0, 1)
    paint *= (1 + _column(scenes["shading"]) * towards) * (1 - _column(scenes["rim"]) * (1 - depth) ** 2)
    apart = (right - light_x) ** 2 + (below - light_y) ** 2
    paint += _column(scenes["highlight"]) * np.exp(apart / (-0.054 * scale**2)) * (1 - paint)


def _light(scenes: NDArray[np.void], reach: float) -> tuple[Array, Array]:
    """A step towards the light, in shares of the shape's scale."""
    step, angle = reach * _column(scenes["scale"]), _column(scenes["light"])
    return step * np.cos(angle), step * np.sin(angle)


def _column(values: Array) -> Array:
    return np.ascontiguousarray(values, np.float32)[:, None]


def _into_shape(scenes: NDArray[np.void], right: Array, below: Array) -> tuple[Array, Array]:
    """Image coordinates in the shape's own coordinates: rotated, sheared and scaled back."""
    cos, sin = np.cos(_column(scenes["angle"])), np.sin(_column(scenes["angle"]))
    scale, stretch = _column(scenes["scale"]), _column(scenes["stretch"])
    u, v = (cos * right + sin * below) / scale, (cos * below - sin * right) / scale
    return (u + _column(scenes["shear"]) * v) * stretch, v / stretch


def _distance(scenes: NDArray[np.void], u: Array, v: Array) -> Array:
    """The distance of each pixel from the edge of its image's shape, in the image's units."""
    distance = np.empty_like(u)
    for i, outline in enumerate(OUTLINES.values()):
        rows = np.flatnonzero(scenes["shape"] == i)
        if rows.size:
            distance[rows] = outline(u[rows], v[rows])
    return distance * _column(scenes["scale"])


def _painted(paint: NDArray[np.void], x: Array, y: Array, pixel: Array | float) -> Array:
    """Two colours mixed by a pattern: (3, n, P); `pixel` is the width of a pixel in x and y."""
    frequency = _column(paint["frequency"])
    cos, sin = np.cos(_column(paint["angle"])) * frequency, np.sin(_column(paint["angle"])) * frequency
    phase = paint["phase"]
    u, v = cos * x + sin * y + _column(phase[:, 0]), cos * y - sin * x + _column(phase[:, 1])
    mix = np.empty_like(u)
    sharpness = 1 / (TURN * frequency * pixel)
    for i, pattern in enumerate(PATTERNS.values()):
        rows = np.flatnonzero(paint["pattern"] == i)
        if rows.size:
            mix[rows] = pattern(u[rows], v[rows], sharpness[rows], paint["lattice"][rows])
    first, second = paint["colours"].transpose(1, 2, 0)[..., None]  # each (3, n, 1)
    return first + (second - first) * mix
