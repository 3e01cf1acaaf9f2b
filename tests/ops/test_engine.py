"""Batches of views: the same bytes as one operation after the other, whatever the threads."""

import os
import re
import time

import numpy as np
import pytest

import pillow_reference
from coviews import (
    CoviewsError,
    ImageSet,
    Placement,
    Plan,
    Subpolicies,
    apply_op,
    make_view_groups,
    make_views,
    space,
    view_source,
)
from coviews.ops import engine

WHOLE = Placement("none", flip=0)
SOURCES = ("random", "uniform", "randaugment", "trivialaugment", "simclr")


def images(n=24, h=32, w=32, c=3, seed=0):
    rng = np.random.default_rng(seed)
    smooth = np.cumsum(np.cumsum(rng.normal(0, 2, (n, h, w, c)), 1), 2) + 128
    return np.clip(smooth, 0, 255).astype(np.uint8)


def plan_for(batch, source, seed=0, placement=None):
    return Plan.draw(source, len(batch), batch.shape[1:3], np.random.default_rng(seed), placement)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("c", [1, 3])
def test_views_equal_pillow_step_by_step(name, c):
    batch = images(48, 20, 27, c)
    drawn = plan_for(batch, view_source(name), 3, WHOLE)
    made = make_views(batch, drawn)
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


def test_crop_and_flip_come_after_the_operations_and_do_not_depend_on_them():
    batch = images(40, 30, 21)
    rotate = Subpolicies.from_texts(["Rotate 12 deg | Identity"] * 40, space("autoaugment"))
    plan = plan_for(batch, rotate, 5)
    views = make_views(batch, plan)
    for b in range(40):
        for v, source in enumerate((pillow_reference.apply(batch[b], "Rotate", 12.0), batch[b])):
            expected = pillow_reference.crop(source, plan.boxes[b, v].tolist(), plan.flips[b, v])
            assert np.array_equal(views[b, v], expected)
    assert 20 < plan.flips.sum() < 60
    nothing = plan_for(batch, Subpolicies.from_texts(["Invert | Blur 2"] * 40, space("all")), 5)
    assert np.array_equal(nothing.boxes, plan.boxes)
    assert np.array_equal(nothing.flips, plan.flips)


def test_cutout_is_one_square_of_the_fill_colour_at_random_places():
    batch = np.full((3000, 20, 20, 3), 7, np.uint8)
    cutout = Subpolicies.from_texts(["Cutout 0.2 | Identity"] * 3000, space("autoaugment"))
    made = make_views(batch, plan_for(batch, cutout, 0, WHOLE), fill=(200, 10, 90))
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
    plan = plan_for(batch, view_source(name), 9)
    first, *others = (make_views(batch, plan, threads=t) for t in (1, 2, 3, 16, None))
    assert all(np.array_equal(first, other) for other in others)


def test_the_seed_decides():
    batch = images(16)
    subpolicies = view_source("uniform").sample(16, np.random.default_rng(1))
    a, b, c = (make_views(batch, plan_for(batch, subpolicies, seed)) for seed in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_steps_are_applied_with_their_probability():
    lines = ["Invert, Identity | Identity, Invert"] * 2000
    invert = Subpolicies.from_texts(lines, space("autoaugment"), p=0.8)
    black = np.zeros((2000, 1, 1, 3), np.uint8)
    made = make_views(black, plan_for(black, invert, 0, WHOLE))
    assert abs((made == 255).mean() - 0.8) < 0.02


def test_steps_that_do_nothing_do_not_disturb_the_others():
    batch = images(4)
    gaps = "Identity, Rotate 12 deg, Identity, Rotate -6 deg, Identity, ShearY 0.3, Identity"
    none = "Rotate 12 deg, Rotate -6 deg, ShearY 0.3, Identity, Identity, Identity, Identity"
    drawn = Subpolicies.from_texts([f"{gaps} | {none}"] * 4, space("autoaugment"))
    for placement in (Placement(area=(1.0, 1.0), ratio=(1, 1), flip=0), WHOLE):
        made = make_views(batch, plan_for(batch, drawn, 0, placement))
        assert np.array_equal(made[:, 0], made[:, 1])


def test_grey_batches_without_a_channel_axis_and_other_layouts():
    batch = images(8, 9, 13, 1)
    plan = plan_for(batch, view_source("uniform"), 2)
    plain = make_views(batch[..., 0], plan)
    assert plain.shape == (8, 2, 9, 13)
    assert np.array_equal(plain[..., None], make_views(batch, plan))
    reverse = images(8, 9, 13, 3)[:, ::-1]
    assert np.array_equal(make_views(reverse, plan), make_views(reverse.copy(), plan))


def test_read_only_images_are_fine_and_stay_as_they_are():
    batch = images(8)
    batch.flags.writeable = False
    before = batch.copy()
    out = np.empty((8, 2, 32, 32, 3), np.uint8)
    assert make_views(batch, plan_for(batch, view_source("random")), out=out) is out
    assert np.array_equal(batch, before)


def test_more_than_two_views_and_any_number_of_steps():
    batch = images(6)
    plan = plan_for(batch, view_source("uniform", views=5, steps=7))
    assert make_views(batch, plan).shape == (6, 5, 32, 32, 3)


READ_ONLY = np.frombuffer(bytes(768), np.uint8).reshape(2, 2, 8, 8, 3)


def plan_of(n, size=(8, 8)):
    return Plan.draw(view_source("uniform"), n, size, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("batch", "n", "options", "message"),
    [
        (np.zeros((2, 8, 8, 3), np.float32), 2, {}, "uint8 or uint16 array (B, H, W, C), not float32"),
        ([[1]], 1, {}, "uint8 or uint16 array (B, H, W, C), not list"),
        (ImageSet(np.zeros((1, 8, 8, 3), np.uint8)), 1, {}, "give its .images"),
        (np.zeros((8, 8), np.uint8), 1, {}, "not of shape (8, 8)"),
        (np.zeros((2, 8, 8, 17), np.uint8), 2, {}, "1 to 16 channels, not of shape (2, 8, 8, 17)"),
        (np.zeros((2, 8, 8, 3), ">u2"), 2, {}, "uint8 or uint16 array (B, H, W, C), not >u2"),
        (np.zeros((0, 8, 8, 3), np.uint8), 0, {}, "no image"),
        (np.zeros((2, 8, 0, 3), np.uint8), 2, {}, "no image"),
        (np.zeros((2, 9, 8, 3), np.uint8), 2, {}, "images of (8, 8) (height, width), and these have (9, 8)"),
        (np.zeros((3, 8, 8, 3), np.uint8), 2, {}, "a plan for 2 images, and 3 images"),
        (np.zeros((1, 1, 20000, 3), np.uint8), 1, {}, "too large"),
        (np.zeros((2, 8, 8, 3), np.uint8), 2, {"fill": (1, 2)}, "fill"),
        (np.zeros((2, 8, 8, 3), np.uint8), 2, {"fill": (0.4, 0.5, 0.6)}, "fill"),
        (np.zeros((2, 8, 8, 3), np.uint8), 2, {"fill": (300, 0, 0)}, "fill"),
        (np.zeros((2, 8, 8, 3), np.uint8), 2, {"out": READ_ONLY}, "writ"),
        (np.zeros((2, 8, 8, 3), np.uint8), 2, {"threads": -1}, "threads"),
        (np.zeros((2, 8, 8, 3), np.uint8), 2, {"out": np.zeros((2, 2, 8, 8), np.uint8)}, "out must be"),
    ],
)
def test_bad_batches_are_named(batch, n, options, message):
    with pytest.raises(CoviewsError, match=re.escape(message)):
        make_views(batch, plan_of(n), **options)


def test_views_of_several_sizes_come_in_groups():
    batch = images(6, 12, 10)
    sizes = ((8, 8), (8, 8), (5, 7), (5, 7), (5, 7), (8, 8))
    source = view_source("uniform", views=6)
    plan = Plan.draw(source, 6, (12, 10), np.random.default_rng(0), sizes=sizes)
    groups = make_view_groups(batch, plan)
    assert [g.shape for g in groups] == [(6, 2, 8, 8, 3), (6, 3, 5, 7, 3), (6, 1, 8, 8, 3)]
    views = [group[:, v] for group in groups for v in range(group.shape[1])]
    for v, view in enumerate(views):
        assert np.array_equal(make_views(batch, plan.of_views(v, v + 1))[:, 0], view)
    with pytest.raises(CoviewsError, match="several sizes: use make_view_groups"):
        make_views(batch, plan)


def test_views_are_not_written_over_their_images():
    memory = np.zeros((8, 8, 8, 3), np.uint8)
    with pytest.raises(CoviewsError, match="share"):
        make_views(memory[:4], plan_of(4), out=memory.reshape(4, 2, 8, 8, 3))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_after_threads_were_used_does_not_hang():
    batch = images(64)
    plan = plan_of(64, (32, 32))
    before = make_views(batch, plan, threads=2)
    child = os.fork()
    if child == 0:
        same = np.array_equal(before, make_views(batch, plan, threads=2))
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
    placement = Placement("none") if area is None else Placement(area=area)
    expected = make_views(batch, plan_for(batch, identity, 5, placement))
    crops = engine.random_crops(batch, np.random.default_rng(5), area=area, flip=0.5, views=2)
    np.testing.assert_array_equal(crops, expected)
