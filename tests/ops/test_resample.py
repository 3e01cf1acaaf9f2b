"""Crops, sizes, flips and turns equal Pillow byte for byte, in both orders of its two passes."""

import numpy as np
import pytest
from PIL import Image

import pillow_reference
from coviews import Plan, make_views, space
from coviews.ops import engine, resample
from coviews.ops.space import SERIES, SPACES
from made_up_images import CONTENTS

OF_IMAGES = [name for name in SPACES if name != SERIES]
BILINEAR = Image.Resampling.BILINEAR


def random_case(rng, case):
    """Sizes, a box within the image, flips and turns; the usual and the extreme."""
    most = 225 if case % 10 == 0 else 60
    h, w, oh, ow = rng.integers(1, most, 4).tolist()
    match case % 6:
        case 0:
            oh = ow  # square views may be turned
        case 1:
            oh, ow = max(1, h // int(rng.integers(2, 12))), w  # the height shrinks much more than the width
        case 2:
            oh, ow = h, w
    left, top = int(rng.integers(0, w)), int(rng.integers(0, h))
    box = [left, top, int(rng.integers(left + 1, w + 1)), int(rng.integers(top + 1, h + 1))]
    if rng.random() < 0.3:
        box = [0, 0, w, h]
    flip, vertical = (bool(b) for b in rng.integers(0, 2, 2))
    turns = int(rng.integers(4)) if oh == ow else 2 * int(rng.integers(2))
    return (h, w), (oh, ow), box, flip, vertical, turns


def run_cases(n, pictures, steps):
    """Compare n random views with Pillow; returns how many were resampled rows first, shrunk, and enlarged."""
    rng = np.random.default_rng(11 + steps)
    rows_first = shrunk = enlarged = 0
    for case in range(n):
        size, view_size, box, flip, vertical, turns = random_case(rng, case)
        operations = space(OF_IMAGES[rng.integers(len(OF_IMAGES))])
        ops = rng.integers(len(operations.ops), size=steps) if steps else np.array([operations.identity])
        levels, spots = rng.integers(operations.levels, size=len(ops)), rng.random((len(ops), 2))
        fill = rng.integers(0, 256, 3).tolist()
        image = pictures.make(CONTENTS[rng.integers(len(CONTENTS))], *size, (1, 3)[case % 2], seed=case)
        plan = Plan(
            operations, size, [[ops]], [[levels]], [[box]], [[flip]], [[vertical]], [[turns]], [[spots]], (view_size,)
        )
        view = make_views(image[None], plan, fill=fill, threads=1)[0, 0]
        expected = image
        for op, level, spot in zip(ops, levels, spots, strict=True):
            expected = pillow_reference.apply(
                expected, operations.ops[op], operations.values[op, level], tuple(spot), fill
            )
        expected = pillow_reference.crop(expected, box, flip, vertical, turns, view_size)
        assert np.array_equal(view, expected), (case, image.shape, view_size, plan.texts())
        shrinks = box[2] - box[0] > view_size[1] or box[3] - box[1] > view_size[0]
        rows_first += resample.rows_first(size, view_size)
        shrunk, enlarged = shrunk + shrinks, enlarged + (not shrinks)
    print(f"{n} views with {steps} operations each: {shrunk} shrunk, {enlarged} not, {rows_first} rows first")
    return rows_first, shrunk, enlarged


def test_random_boxes_sizes_flips_and_turns_equal_pillow(pictures):
    rows_first, shrunk, enlarged = run_cases(2000, pictures, 0)
    assert shrunk > 500
    assert enlarged > 300
    assert rows_first > 100 or not resample._orders_by_size()


def test_operations_and_then_the_crop_equal_pillow(pictures):
    run_cases(500, pictures, 2)


@pytest.mark.slow
def test_twenty_thousand_random_views_equal_pillow(pictures):
    run_cases(10_000, pictures, 0)
    run_cases(10_000, pictures, 3)


@pytest.mark.parametrize(
    ("size", "view_size"), [((500, 500), (224, 224)), ((333, 700), (32, 31)), ((40, 41), (512, 9))]
)
def test_large_images_and_views_equal_pillow(pictures, size, view_size):
    rng = np.random.default_rng(0)
    big = np.asarray(Image.fromarray(pictures.photographs[0]).resize(size[::-1]))
    for c in (1, 3):
        image = np.ascontiguousarray(big[..., :c])
        for box in ((0, 0, size[1], size[0]), (3, 7, size[1] - 5, size[0] - 2), (8, 9, 20, 33)):
            view = placed(image, box, view_size, *(bool(b) for b in rng.integers(0, 2, 2)))
            assert np.array_equal(view[0], view[1]), (c, box)


def placed(image, box, view_size, flip=False, vertical=False, order=None):
    """The view as the kernel makes it, and as Pillow does; `order` overrides which pass is first."""
    h, w, c = image.shape
    rows = resample.rows_first((h, w), view_size) if order is None else order
    slots = np.array([*box, *view_size, flip, vertical, 0, rows], float)
    view = np.zeros((*view_size, c), np.uint8)
    engine._call_one(image[None], view[None], engine._address(resample.place), slots)
    return view, pillow_reference.crop(image, box, flip, vertical, 0, view_size)


def in_two_steps(image, view_size, rows_first):
    """A resize of the whole image as two of Pillow's, one for each direction: the order is then certain."""
    (oh, ow), (h, w) = view_size, image.shape[:2]
    picture = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    between = (w, oh) if rows_first else (ow, h)
    return np.asarray(picture.resize(between, BILINEAR).resize((ow, oh), BILINEAR)).reshape(oh, ow, -1)


@pytest.mark.parametrize("rows_first", [False, True])
def test_both_orders_equal_two_resizes(pictures, rows_first):
    rng = np.random.default_rng(5)
    for case in range(400):
        h, w, oh, ow = rng.integers(1, 80, 4).tolist()
        image = pictures.make(CONTENTS[case % len(CONTENTS)], h, w, (1, 3)[case % 2], seed=case)
        view, _ = placed(image, (0, 0, w, h), (oh, ow), order=rows_first)
        assert np.array_equal(view, in_two_steps(image, (oh, ow), rows_first)), (case, image.shape, oh, ow)


@pytest.mark.parametrize("by_size", [False, True])
def test_the_probe_sees_which_order_pillow_has(monkeypatch, by_size):
    """Pillow 13 chooses the order by the sizes, older ones start with columns: both are emulated."""
    real = Image.Image.resize

    def resize(picture, size, resample=BILINEAR, box=None):
        rows = by_size and picture.height > size[1] and picture.height - size[1] > 2 * (picture.width - size[0])
        between = (picture.width, size[1]) if rows else (size[0], picture.height)
        return real(real(picture, between, BILINEAR), size, BILINEAR)

    resample._orders_by_size.cache_clear()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Image.Image, "resize", resize)
            assert resample._orders_by_size() is by_size
            assert resample.rows_first((500, 224), (32, 224)) is by_size
        assert not resample.rows_first((500, 500), (224, 224))
    finally:
        resample._orders_by_size.cache_clear()


def test_views_follow_the_order_of_the_probe(monkeypatch, pictures):
    image = pictures.make("noise", 60, 20, 3)
    nothing = [[[space("all").identity]]]
    box = [[[0, 0, 20, 60]]]
    plan = Plan(space("all"), (60, 20), nothing, [[[0]]], box, [[0]], [[0]], [[0]], [[[[0, 0]]]], ((11, 19),))
    for by_size in (False, True):
        monkeypatch.setattr(resample, "_orders_by_size", lambda answer=by_size: answer)
        view = make_views(image[None], plan)[0, 0]
        assert np.array_equal(view, in_two_steps(image, (11, 19), by_size))
        assert not np.array_equal(view, in_two_steps(image, (11, 19), not by_size))
