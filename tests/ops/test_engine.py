"""Batches of views: the same bytes as one operation after the other, whatever the threads."""

import os
import re
import time

import numpy as np
import pytest

import pillow_reference
from coviews import CoviewsError, ImageSet, Subpolicies, apply_op, make_views, space, view_source
from coviews.ops import engine

SOURCES = ("random", "uniform", "randaugment", "trivialaugment", "simclr")


def images(n=24, h=32, w=32, c=3, seed=0):
    rng = np.random.default_rng(seed)
    smooth = np.cumsum(np.cumsum(rng.normal(0, 2, (n, h, w, c)), 1), 2) + 128
    return np.clip(smooth, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("c", [1, 3])
def test_views_equal_pillow_step_by_step(name, c):
    batch = images(48, 20, 27, c)
    drawn = view_source(name).sample(len(batch), np.random.default_rng(1)).applied(np.random.default_rng(2))
    made = make_views(batch, drawn, np.random.default_rng(3), crop=None, flip=0)
    assert made.shape == (48, 2, 20, 27, c)
    for b in range(len(batch)):
        for v in range(2):
            wanted = batch[b]
            pairs = zip(drawn.ops[b, v], drawn.levels[b, v], strict=True)
            steps = [(drawn.space.ops[o], k) for o, k in pairs]
            if any(op == "Cutout" for op, _ in steps):
                continue  # its place is random: see the test below
            for op, level in steps:
                wanted = pillow_reference.apply(wanted, op, drawn.space.values[drawn.space.index(op), level])
            assert np.array_equal(made[b, v], wanted), steps


def test_crop_and_flip_come_after_the_subpolicy_and_do_not_depend_on_it():
    batch = images(40, 30, 21)
    rotate = Subpolicies.from_texts(["Rotate 12 deg | Identity"] * 40, space("autoaugment"))
    made = make_views(batch, rotate, np.random.default_rng(5))
    # the engine's own seeds, drawn as it draws them
    seeds = np.random.default_rng(5).integers(0, 2**64, (40, 2), np.uint64)
    settings = engine._crop_settings((0.2, 1.0), (3 / 4, 4 / 3), 0.5)
    flips = 0
    for b in range(40):
        for v, source in enumerate((pillow_reference.apply(batch[b], "Rotate", 12.0), batch[b])):
            box = engine._choose_crop(seeds[b, v], 30, 21, settings)
            flip = bool(engine._uniform(seeds[b, v], 0) < 0.5)
            flips += flip
            wanted = pillow_reference.crop(source, box, flip)
            assert np.array_equal(made[b, v], wanted)
    assert 20 < flips < 60


def test_crop_boxes_have_the_asked_area_and_aspect():
    settings = engine._crop_settings((0.2, 1.0), (3 / 4, 4 / 3), 0.5)
    seeds = np.random.default_rng(0).integers(0, 2**64, 4000, np.uint64)
    left, top, right, bottom = np.array([engine._choose_crop(seed, 224, 224, settings) for seed in seeds]).T
    area = (right - left) * (bottom - top) / 224**2
    aspect = (right - left) / (bottom - top)
    assert left.min() >= 0
    assert right.max() <= 224
    assert top.min() >= 0
    assert bottom.max() <= 224
    assert 0.19 < area.min() < 0.22
    assert area.max() > 0.95
    # nearly even over the area (large boxes of extreme aspect do not fit), and on both sides of a square
    assert 0.5 < np.mean(area < 0.6) < 0.65
    assert 0.74 < aspect.min() < 0.78
    assert 1.28 < aspect.max() < 1.35
    assert abs(np.mean(aspect > 1) - 0.5) < 0.05


def test_a_very_long_image_gets_the_largest_crop_that_fits():
    settings = engine._crop_settings((0.9, 1.0), (3 / 4, 4 / 3), 0.5)
    left, top, right, bottom = engine._choose_crop(np.uint64(3), 4, 400, settings)
    assert (right - left, bottom - top) == (5, 4)
    assert (left, top) == (197, 0)


def test_cutout_is_one_square_of_the_fill_colour_at_random_places():
    batch = np.full((3000, 20, 20, 3), 7, np.uint8)
    cutout = Subpolicies.from_texts(["Cutout 0.2 | Identity"] * 3000, space("autoaugment"))
    made = make_views(batch, cutout, np.random.default_rng(0), crop=None, flip=0, fill=(200, 10, 90))
    assert np.array_equal(made[:, 1], batch)
    changed = (made[:, 0] == (200, 10, 90)).all(-1)
    assert ((made[:, 0] == 7).all(-1) | changed).all()
    areas = changed.sum((1, 2))
    assert areas.max() == 16  # 0.2 of 20 pixels a side
    assert areas.min() < 16  # clipped at the border
    assert changed.any(0).all()  # every pixel was hit at least once


@pytest.mark.parametrize("name", SOURCES)
def test_the_number_of_threads_changes_nothing(name):
    batch = images(101)
    drawn = view_source(name).sample(101, np.random.default_rng(1))
    made = [make_views(batch, drawn, np.random.default_rng(9), threads=t) for t in (1, 2, 3, 16, None)]
    assert all(np.array_equal(made[0], other) for other in made[1:])


def test_the_seed_decides():
    batch = images(16)
    drawn = view_source("uniform").sample(16, np.random.default_rng(1))
    a, b, c = (make_views(batch, drawn, np.random.default_rng(s)) for s in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_steps_are_applied_with_their_probability():
    lines = ["Invert, Identity | Identity, Invert"] * 2000
    invert = Subpolicies.from_texts(lines, space("autoaugment"), p=0.8)
    black = np.zeros((2000, 1, 1, 3), np.uint8)
    made = make_views(black, invert, np.random.default_rng(0), crop=None, flip=0)
    assert abs((made == 255).mean() - 0.8) < 0.02


def test_steps_that_do_nothing_do_not_disturb_the_others():
    batch = images(4)
    gaps = "Identity, Rotate 12 deg, Identity, Rotate -6 deg, Identity, ShearY 0.3, Identity"
    none = "Rotate 12 deg, Rotate -6 deg, ShearY 0.3, Identity, Identity, Identity, Identity"
    drawn = Subpolicies.from_texts([f"{gaps} | {none}"] * 4, space("autoaugment"))
    for crop in ((1.0, 1.0), None):
        made = make_views(batch, drawn, np.random.default_rng(0), crop=crop, ratio=(1, 1), flip=0)
        assert np.array_equal(made[:, 0], made[:, 1])


def test_grey_batches_without_a_channel_axis_and_other_layouts():
    batch = images(8, 9, 13, 1)
    drawn = view_source("uniform").sample(8, np.random.default_rng(1))
    plain = make_views(batch[..., 0], drawn, np.random.default_rng(2))
    assert plain.shape == (8, 2, 9, 13)
    assert np.array_equal(plain[..., None], make_views(batch, drawn, np.random.default_rng(2)))
    reverse = images(8, 9, 13, 3)[:, ::-1]
    assert np.array_equal(
        make_views(reverse, drawn, np.random.default_rng(2)),
        make_views(reverse.copy(), drawn, np.random.default_rng(2)),
    )


def test_read_only_images_are_fine_and_stay_as_they_are():
    batch = images(8)
    batch.flags.writeable = False
    before = batch.copy()
    out = np.empty((8, 2, 32, 32, 3), np.uint8)
    drawn = view_source("random").sample(8, np.random.default_rng(1))
    made = make_views(batch, drawn, np.random.default_rng(2), out=out)
    assert made is out
    assert np.array_equal(batch, before)


def test_more_than_two_views_and_any_number_of_steps():
    batch = images(6)
    drawn = view_source("uniform", views=5, steps=7).sample(6, np.random.default_rng(1))
    assert make_views(batch, drawn, np.random.default_rng(2)).shape == (6, 5, 32, 32, 3)


READ_ONLY = np.frombuffer(bytes(768), np.uint8).reshape(2, 2, 8, 8, 3)


def drawn_for(n):
    return view_source("uniform").sample(n, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("batch", "n", "options", "message"),
    [
        (np.zeros((2, 8, 8, 3), np.float32), 2, {}, "uint8 array, not float32"),
        ([[1]], 1, {}, "uint8 array, not list"),
        (ImageSet(np.zeros((1, 8, 8, 3), np.uint8)), 1, {}, "give its .images"),
        (np.zeros((8, 8), np.uint8), 1, {}, "not of shape (8, 8)"),
        (np.zeros((2, 8, 8, 4), np.uint8), 2, {}, "not of shape (2, 8, 8, 4)"),
        (np.zeros((0, 8, 8, 3), np.uint8), 0, {}, "no image"),
        (np.zeros((2, 8, 0, 3), np.uint8), 2, {}, "no image"),
        (np.zeros((3, 8, 8, 3), np.uint8), 2, {}, "2 subpolicies for 3 images"),
        (np.zeros((1, 1, 20000, 3), np.uint8), 1, {}, "too large"),
        (np.zeros((2, 8, 8, 3), np.uint8), 2, {"crop": (0, 1)}, "crop's area"),
        (np.zeros((2, 8, 8, 3), np.uint8), 2, {"crop": (0.5, 0.2)}, "crop's area"),
        (np.zeros((2, 8, 8, 3), np.uint8), 2, {"ratio": (0, 1)}, "aspect"),
        (np.zeros((2, 8, 8, 3), np.uint8), 2, {"flip": 1.5}, "flip"),
        (np.zeros((2, 8, 8, 3), np.uint8), 2, {"fill": (1, 2)}, "fill"),
        (np.zeros((2, 8, 8, 3), np.uint8), 2, {"fill": (0.4, 0.5, 0.6)}, "fill"),
        (np.zeros((2, 8, 8, 3), np.uint8), 2, {"fill": (300, 0, 0)}, "fill"),
        (
            np.zeros((2, 8, 8, 3), np.uint8),
            2,
            {"out": np.frombuffer(bytes(768), np.uint8).reshape(2, 2, 8, 8, 3)},
            "writ",
        ),
        (np.zeros((2, 8, 8, 3), np.uint8), 2, {"threads": -1}, "threads"),
        (np.zeros((2, 8, 8, 3), np.uint8), 2, {"out": np.zeros((2, 2, 8, 8), np.uint8)}, "out must be"),
    ],
)
def test_bad_batches_are_named(batch, n, options, message):
    generator = np.random.default_rng(0)
    with pytest.raises(CoviewsError, match=re.escape(message)):
        make_views(batch, drawn_for(n), generator, **options)
    assert generator.random() == np.random.default_rng(0).random()  # nothing was drawn for it


def test_views_are_not_written_over_their_images():
    memory = np.zeros((8, 8, 8, 3), np.uint8)
    with pytest.raises(CoviewsError, match="share"):
        make_views(memory[:4], drawn_for(4), np.random.default_rng(0), out=memory.reshape(4, 2, 8, 8, 3))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_after_threads_were_used_does_not_hang():
    batch = images(64)
    before = make_views(batch, drawn_for(64), np.random.default_rng(0), threads=2)
    child = os.fork()
    if child == 0:
        same = np.array_equal(before, make_views(batch, drawn_for(64), np.random.default_rng(0), threads=2))
        os._exit(0 if same else 1)
    for _ in range(200):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.05)
    else:
        os.kill(child, 9)
    assert done == child
    assert os.waitstatus_to_exitcode(status) == 0


def test_bad_operations_and_levels_are_named():
    image = np.zeros((8, 8, 3), np.uint8)
    with pytest.raises(CoviewsError, match="did you mean 'Rotate'"):
        apply_op(image, "Rotat", 3)
    with pytest.raises(CoviewsError, match=r"0\.\.10, not 11"):
        apply_op(image, "Rotate", 11)
    with pytest.raises(CoviewsError, match=r"0\.\.10, not 2\.5"):
        apply_op(image, "Rotate", 2.5)
    with pytest.raises(CoviewsError, match="did you mean 'simclr'"):
        apply_op(image, "Hue", 1, space_name="simcrl")


@pytest.mark.parametrize("shape", [(9, 12, 10, 3), (5, 33, 32), (4, 16, 16, 1)])
@pytest.mark.parametrize("area", [(0.2, 1.0), None])
def test_random_crops_are_views_without_operations(shape, area):
    batch = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    nothing = np.full((len(batch), 2, 1), space("autoaugment").identity)
    identity = Subpolicies(space("autoaugment"), nothing, 0 * nothing)
    expected = make_views(batch, identity, np.random.default_rng(5), crop=area, flip=0.5)
    crops = engine.random_crops(batch, np.random.default_rng(5), area=area, flip=0.5, views=2)
    np.testing.assert_array_equal(crops, expected)
