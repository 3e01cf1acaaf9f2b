"""What can be told without labels."""

import numpy as np
import pytest

from coviews.choosing.signals import alike_in_colour, mirrored


def pictures(colours, generator):
    """Five shapes of ten images each, all shifted in brightness; colours: of each image."""
    shapes = generator.random((5, 12, 12, 1))
    looks = shapes[np.arange(50) % 5] + 0.05 * generator.random((50, 12, 12, 1))
    return np.clip(255 * (0.2 + 0.4 * looks + 0.4 * colours[:, None, None, :]), 0, 255).astype(np.uint8)


@pytest.mark.parametrize(("dtype", "scale"), [(np.uint8, 1), (np.uint16, 257)])
def test_images_that_look_alike_are_alike_in_colour_where_colour_belongs_to_things(dtype, scale):
    generator = np.random.default_rng(0)
    of_things, by_chance = generator.random((5, 3))[np.arange(50) % 5], generator.random((50, 3))
    assert alike_in_colour(pictures(of_things, generator).astype(dtype) * scale) > 0.95
    assert abs(alike_in_colour(pictures(by_chance, generator).astype(dtype) * scale)) < 0.4
    assert alike_in_colour(np.full((4, 8, 8, 3), 7, dtype)) == 1  # no image differs


def test_it_equals_a_slow_comparison():
    images = np.random.default_rng(1).integers(0, 256, (20, 5, 6, 3)).astype(np.uint8)
    grey = [i.astype(float).mean(2).ravel() for i in images]
    colours = np.array([[r - g, (r + g) / 2 - b] for r, g, b in (i.reshape(-1, 3).mean(0) for i in images)])
    apart = []
    for i in range(20):
        others = [j for j in range(20) if j != i]
        nearest = max(others, key=lambda j: np.corrcoef(grey[i], grey[j])[0, 1])
        apart.append(((colours[i] - colours[nearest]) ** 2).sum())
    at_random = ((colours[:, None] - colours[None]) ** 2).sum(2).mean()
    assert alike_in_colour(images) == pytest.approx(1 - np.mean(apart) / at_random, abs=1e-4)


def handed(n, generator):
    """Features of images that have a handedness, and of their mirror images: four things, each seen from many sides."""
    things = 3 * generator.standard_normal((4, 20))[np.arange(n) % 4] + generator.standard_normal((n, 20))
    hand = np.zeros((n, 20))
    hand[:, 0] = 1
    return things + hand, things - hand


def test_mirror_images_are_told_apart_by_what_all_images_have_in_common():
    generator = np.random.default_rng(0)
    features, of_mirrored = handed(200, generator)
    order = generator.permutation(200)
    told = mirrored(features, of_mirrored)
    assert told > 70
    assert mirrored(features[order], of_mirrored[order]) == pytest.approx(told)  # whatever the order
    noise = generator.standard_normal((2, 200, 20))
    assert 40 < mirrored(*noise) < 60


def test_mirror_images_of_known_things_are_not_remembered():
    """Each thing has a handedness of its own: whoever saw it tells it, and nobody else does."""
    generator = np.random.default_rng(1)
    which = np.arange(400) % 2
    things = np.where(which[:, None], 1, -1) * (np.arange(20) < 15) + 0.3 * generator.standard_normal((400, 20))
    own = np.where(which[:, None], np.eye(20)[19], -np.eye(20)[19])
    assert mirrored(things + own, things - own) < 20
