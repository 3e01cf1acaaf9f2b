import numpy as np
import pytest
from PIL import Image

from coviews import CoviewsError
from coviews.data.shapes.draw import SHAPE_CLASSES, make_shapes
from coviews.data.shapes.outlines import OUTLINES
from coviews.data.shapes.patterns import PATTERNS

TRAIN, TEST = slice(0, 2000), slice(2000, 2600)


@pytest.fixture(scope="module")
def shapes() -> tuple[np.ndarray, np.ndarray]:
    return make_shapes(2600, seed=3)


def centroid_accuracy(features: np.ndarray, labels: np.ndarray) -> float:
    middles = np.stack([features[TRAIN][labels[TRAIN] == k].mean(0) for k in range(len(SHAPE_CLASSES))])
    nearest = ((features[TEST][:, None] - middles) ** 2).sum(-1).argmin(1)
    return float((nearest == labels[TEST]).mean())


def neighbour_accuracy(features: np.ndarray, labels: np.ndarray, k: int = 5) -> float:
    a, b = features[TEST], features[TRAIN]
    distance = (b**2).sum(1) - 2 * a @ b.T
    votes = labels[TRAIN][np.argpartition(distance, k, axis=1)[:, :k]]
    winners = np.array([np.bincount(v, minlength=len(SHAPE_CLASSES)).argmax() for v in votes])
    return float((winners == labels[TEST]).mean())


def outlines_of(images: np.ndarray) -> np.ndarray:
    """Edge strength by direction in 4 x 4 fields: what shape is there, and little of its colour."""
    down, across = np.gradient(images.mean(axis=3) / 255, axis=(1, 2))
    strength = np.hypot(across, down)
    direction = ((np.arctan2(down, across) % np.pi) / np.pi * 8).astype(int) % 8
    fields = [(strength * (direction == k)).reshape(-1, 4, 8, 4, 8).sum((2, 4)) for k in range(8)]
    features = np.stack(fields, -1).reshape(len(images), -1)
    return features / np.linalg.norm(features, axis=1, keepdims=True)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not():
    images, labels = make_shapes(300, 24, seed=5)
    again, labels_again = make_shapes(300, 24, seed=5)
    other, _ = make_shapes(300, 24, seed=6)
    assert images.dtype == np.uint8
    assert labels.dtype == np.int64
    assert images.tobytes() == again.tobytes()
    assert labels.tobytes() == labels_again.tobytes()
    assert (images != other).mean() > 0.9


@pytest.mark.parametrize("n", [1, 10, 1003])
def test_classes_are_balanced_and_mixed(n):
    _, labels = make_shapes(n, 8)
    counts = np.bincount(labels, minlength=len(SHAPE_CLASSES))
    assert counts.sum() == n
    assert np.ptp(counts) <= 1
    assert n < 1000 or 0.05 < np.mean(labels[1:] == labels[:-1]) < 0.15, "not in random order"


def test_at_least_ten_classes_in_many_textures():
    assert len(SHAPE_CLASSES) == len(set(SHAPE_CLASSES)) >= 10
    assert len(PATTERNS) >= 5


@pytest.mark.parametrize("size", [8, 33, (16, 40), (50, 20)])
def test_any_size(size):
    images, _ = make_shapes(12, size)
    height, width = (size, size) if isinstance(size, int) else size
    assert images.shape == (12, height, width, 3)
    assert all(len(np.unique(image)) > 20 for image in images)


def test_the_size_changes_how_finely_a_scene_is_drawn_but_not_the_scene():
    small, labels = make_shapes(40, 32, seed=1)
    large, labels_large = make_shapes(40, 128, seed=1)
    assert np.array_equal(labels, labels_large)
    shrunk = np.stack([np.asarray(Image.fromarray(i).resize((32, 32), Image.Resampling.BOX)) for i in large])
    difference = np.abs(shrunk.astype(float) - small).mean()
    mixed_up = np.abs(np.roll(shrunk, 1, axis=0).astype(float) - small).mean()
    assert difference < 12 < 40 < mixed_up


def test_colours_do_not_tell_the_class(shapes):
    images, labels = shapes
    codes = (images // 64).astype(int) @ np.array([16, 4, 1])
    histograms = np.stack([np.bincount(c.ravel(), minlength=64) for c in codes]) / codes[0].size
    moments = np.concatenate([images.mean((1, 2)), images.std((1, 2))], axis=1)
    for features in (np.sqrt(histograms), moments):
        assert neighbour_accuracy(features, labels) < 0.17
        assert centroid_accuracy(features, labels) < 0.17


def test_raw_pixels_hardly_tell_the_class(shapes):
    images, labels = shapes
    pixels = images.reshape(len(images), -1) / np.float32(255)
    assert centroid_accuracy(pixels, labels) < 0.2
    assert neighbour_accuracy(pixels, labels) < 0.4


def test_outlines_tell_the_class(shapes):
    images, labels = shapes
    assert neighbour_accuracy(outlines_of(images), labels) > 0.5


def test_every_class_varies_in_light_and_colour(shapes):
    images, labels = shapes
    for k, name in enumerate(SHAPE_CLASSES):
        of_class = images[labels == k]
        assert of_class.mean((1, 2, 3)).std() > 15, name  # from dark to bright
        assert of_class.mean((1, 2)).std(0).min() > 20, name  # in each of red, green and blue


def test_shapes_are_turned_and_placed_differently(shapes):
    images, labels = shapes
    squares = images[labels == SHAPE_CLASSES.index("square")].mean(axis=3)
    down, across = np.gradient(squares, axis=(1, 2))
    edges = (across + 1j * down) ** 4 / (np.hypot(across, down) ** 3 + 1e-9)  # four sides, one direction
    direction = edges.sum(axis=(1, 2))
    assert abs((direction / abs(direction)).mean()) < 0.3
    place = np.abs(edges).reshape(len(edges), -1).argmax(axis=1)  # where the sharpest edge is
    for at in np.unravel_index(place, squares.shape[1:]):
        assert np.std(at) > 6


def test_outlines_cover_the_same_area_around_the_middle():
    line = (np.arange(400, dtype=np.float32) - 199.5) / 150
    x, y = np.meshgrid(line, line)
    for name, outline in OUTLINES.items():
        distance = outline(x, y)
        assert distance.dtype == np.float32, name
        inside = distance < 0
        assert inside.sum() / 150**2 == pytest.approx(1.65, abs=0.1), name
        assert np.hypot(x, y)[inside].max() < 1.25, name
        assert np.hypot(x[inside].mean(), y[inside].mean()) < 0.2, name
        # near a straight edge it is a distance, which is what makes the edge of a drawing smooth
        slope = np.hypot(*np.gradient(distance, 1 / 150))[np.abs(distance) < 0.03]
        assert np.median(slope) == pytest.approx(1, abs=0.02), name


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"n": 0}, "at least 1"),
        ({"n": 5, "size": 7}, "at least 8 pixels"),
        ({"n": 1, "size": 2049}, "at most 2,048 pixels a side"),
        ({"n": 5, "size": (32, 4)}, "32 x 4"),
        ({"n": 5, "seed": -1}, "negative"),
    ],
)
def test_what_cannot_be_drawn_is_said(arguments, says):
    with pytest.raises(CoviewsError, match=says):
        make_shapes(**arguments)
