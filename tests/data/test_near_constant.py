"""Images that show almost nothing are noticed when a run loads them."""

import numpy as np
import pytest

from coviews.data.imageset import ImageSet
from coviews.data.near_constant import near_constant_note
from coviews.training.setup import load_data
from small_runs import SMALL


def images(empty, total=200, dtype=np.uint8):
    rng = np.random.default_rng(0)
    top = np.iinfo(dtype).max
    pixels = rng.integers(0, top, (total, 8, 8, 3), dtype)
    pixels[:empty] = top // 2 + rng.integers(0, top // 100, (empty, 8, 8, 3), dtype)
    return ImageSet(pixels, names=tuple(f"{i}.png" for i in range(total)))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_they_are_counted_and_named(dtype):
    note = near_constant_note(images(5, dtype=dtype))
    assert note.startswith("5 of 200 images are nearly of one colour (0.png, 1.png, 2.png, ...)")
    assert near_constant_note(images(1, dtype=dtype)) is None  # one in two hundred does no harm
    assert near_constant_note(images(0, dtype=dtype)) is None


def test_of_many_images_some_are_looked_at():
    assert "of 1,000 images that were looked at" in near_constant_note(images(300, 3000))


def test_one_bright_channel_is_enough_to_show_something():
    grey = np.full((20, 8, 8, 3), 7, np.uint8)
    assert near_constant_note(ImageSet(grey)).startswith("20 of 20 images are nearly of one colour (item 0,")
    grey[:, :4, :, 1] = 90
    assert near_constant_note(ImageSet(grey)) is None


def test_a_run_warns():
    with pytest.warns(UserWarning, match="40 of 40 images are nearly of one colour"):
        load_data(SMALL, np.full((40, 16, 16, 3), 250, np.uint8), 1, False)
