"""Images of 1 to 16 channels, of 8 and 16 bits: every operation and crop equals a reference that works by channel."""

import numpy as np
import pytest
from test_resample import random_case

import channel_reference
from coviews import CoviewsError, Plan, ViewSettings, apply_op, channel_statistics, make_views, space, view_source
from coviews.ops.space import SERIES, SPACES, standard_space
from made_up_images import CONTENTS

OF_IMAGES = [name for name in SPACES if name != SERIES]
DEPTHS = (np.uint8, np.uint16)


def picture(pictures, rng, case, size, c, dtype):
    """An image of two contents in turn; of 16 bits, the low bytes are noise."""
    one, other = (pictures.make(CONTENTS[rng.integers(len(CONTENTS))], *size, 3, seed=case + i) for i in range(2))
    image = np.concatenate([one, other] * 3, -1)[..., :c]
    if dtype == np.uint16:
        return (image.astype(np.uint16) << 8) + rng.integers(0, 256, image.shape, np.uint16)
    return np.ascontiguousarray(image)


def run_cases(n, pictures, steps, seed=0):
    """Random images, operations and crops; the number of cases of each depth."""
    rng = np.random.default_rng([n, steps, seed])
    counts = {np.uint8: 0, np.uint16: 0}
    for case in range(n):
        size, view_size, box, flip, vertical, turns = random_case(rng, case)
        c, dtype = int(rng.integers(1, 17)), DEPTHS[case % 2]
        operations = space(OF_IMAGES[rng.integers(len(OF_IMAGES))] if steps else "channels").fitting(c, dtype)
        ops = rng.integers(len(operations.ops), size=max(steps, 1)) if steps else np.array([operations.identity])
        levels, spots = rng.integers(operations.levels, size=len(ops)), rng.random((len(ops), 2))
        fill = rng.integers(0, np.iinfo(dtype).max + 1, c).tolist()
        image = picture(pictures, rng, case, size, c, dtype)
        plan = Plan(
            operations, size, [[ops]], [[levels]], [[box]], [[flip]], [[vertical]], [[turns]], [[spots]], (view_size,)
        )
        view = make_views(image[None], plan, fill=fill, threads=1)[0, 0]
        expected = image
        for op, level, spot in zip(ops, levels, spots, strict=True):
            value = operations.values[op, level]
            expected = channel_reference.apply(expected, operations.ops[op], value, tuple(spot), fill)
        expected = channel_reference.crop(expected, box, flip, vertical, turns, view_size)
        assert view.dtype == dtype
        assert np.array_equal(view, expected), (case, image.shape, image.dtype, view_size, plan.texts())
        counts[dtype] += 1
    print(f"{n} views with {steps} operations each: {counts}")


def test_random_crops_equal_the_reference(pictures):
    run_cases(800, pictures, 0)


def test_random_operations_and_crops_equal_the_reference(pictures):
    run_cases(1700, pictures, 2)


@pytest.mark.slow
def test_twenty_thousand_random_views_equal_the_reference(pictures):
    run_cases(5000, pictures, 0, seed=1)
    run_cases(15_000, pictures, 3, seed=1)


@pytest.mark.parametrize("dtype", DEPTHS)
def test_every_operation_and_level_of_the_space_channels(pictures, dtype):
    rng = np.random.default_rng(0)
    operations = space("channels")
    for case, (op, level) in enumerate(np.ndindex(operations.values.shape)):
        c = (2, 3, 4, 5, 16)[case % 5]
        image = picture(pictures, rng, case, (17, 23), c, dtype)
        fill, place = rng.integers(0, np.iinfo(dtype).max + 1, c).tolist(), tuple(rng.random(2))
        result = apply_op(image, operations.ops[op], level, space_name="channels", place=place, fill=fill)
        expected = channel_reference.apply(image, operations.ops[op], operations.values[op, level], place, fill)
        assert np.array_equal(result, expected), (operations.ops[op], level, c)


def test_spaces_are_left_as_they_are_for_the_usual_images_and_lose_what_does_not_fit_others():
    every = space("all")
    assert all(space(name).fitting(c, np.uint8) is space(name) for name in SPACES for c in (1, 3))
    assert every.unfit(6, np.uint8) == ("Color", "Hue", "Grayscale")
    assert every.unfit(3, np.uint16) == ("AutoContrast", "Equalize", "Posterize", "Hue")
    fitting = every.fitting(6, "uint16")
    assert fitting is every.fitting(6, "uint16")
    assert set(every.ops) - set(fitting.ops) == set(every.unfit(6, np.uint16))
    assert fitting.name not in SPACES
    for op in fitting.ops:
        assert np.array_equal(fitting.values[fitting.index(op)], every.values[every.index(op)])
    channels = space("channels")
    assert all(channels.fitting(c, dtype) is channels for c in (1, 2, 3, 16) for dtype in DEPTHS)
    assert {"Noise", "ChannelDrop", "ChannelGain"} == set(channels.ops) - set(every.ops)
    names = [standard_space(c, dtype) for c, dtype in ((1, np.uint8), (3, np.uint8), (4, np.uint8), (3, np.uint16))]
    assert names == ["all", "all", "channels", "channels"]
    assert standard_space(1, np.uint8, height=1) == standard_space(2, np.uint16, height=1) == SERIES


def test_operations_that_do_not_fit_are_named():
    batch = np.zeros((50, 4, 4, 5), np.uint8)
    plan = Plan.draw(view_source("uniform"), 50, (4, 4), np.random.default_rng(0))
    with pytest.raises(CoviewsError, match=r"^Color, Hue, Grayscale: not for uint8 images with C = 5; draw") as error:
        make_views(batch, plan)
    assert "\n" not in str(error.value)
    with pytest.raises(CoviewsError, match="Posterize: not for uint16 images"):
        apply_op(batch[0].astype(np.uint16), "Posterize", 3)
    unfit = [plan.space.index(name) for name in plan.space.unfit(5, np.uint8)]
    without = ~np.isin(plan.ops, unfit).any((1, 2))  # a plan that does not use them is fine
    assert make_views(batch[without], plan[without]).shape == (without.sum(), 2, 4, 4, 5)


@pytest.mark.parametrize("dtype", DEPTHS)
def test_settings_and_statistics_of_many_channels(dtype):
    limit = np.iinfo(dtype).max
    images = np.random.default_rng(0).integers(0, limit + 1, (5, 6, 7, 4)).astype(dtype)
    images[..., 2] //= 3
    mean, std = channel_statistics(images)
    np.testing.assert_allclose(mean, images.mean((0, 1, 2)) / limit, atol=1e-9)
    np.testing.assert_allclose(std, images.std((0, 1, 2)) / limit, atol=1e-6)
    settings = ViewSettings.of(images)
    np.testing.assert_allclose(settings.fill, images.mean((0, 1, 2)), atol=0.6)
    plan = Plan.draw(view_source("uniform", space_name="channels"), 5, (6, 7), np.random.default_rng(0))
    assert np.array_equal(settings.make(images, plan), make_views(images, plan, fill=settings.fill, threads=3))
    with pytest.raises(CoviewsError, match=f"fill must be 4 whole numbers of 0..{limit}, one for each channel"):
        make_views(images, plan, fill=(1, 2, 3))


def test_grey_is_the_middle_unless_a_fill_is_given():
    cutout = {"name": "Cutout", "level": 10, "place": (0.5, 0.5)}
    for dtype, c in ((np.uint8, 3), (np.uint8, 7), (np.uint16, 2)):
        result = apply_op(np.zeros((10, 10, c), dtype), **cutout)
        assert result.max() == (np.iinfo(dtype).max + 1) // 2


@pytest.mark.parametrize("dtype", DEPTHS)
def test_noise_is_gaussian_of_its_level_and_differs_between_spots(dtype):
    limit = np.iinfo(dtype).max
    image = np.full((200, 200, 2), limit // 2, dtype)
    one, same, other = (
        apply_op(image, "Noise", 5, space_name="channels", place=place).astype(float) - limit // 2
        for place in ((0.3, 0.7), (0.3, 0.7), (0.3, 0.7000001))
    )
    assert np.array_equal(one, same)
    scaled = one / (0.05 * limit)
    assert abs(scaled.mean()) < 0.02
    assert abs(scaled.std() - 1) < 0.02
    beyond = [(np.abs(scaled) > deviations).mean() for deviations in (1, 2, 3)]
    np.testing.assert_allclose(beyond, (0.3173, 0.0455, 0.0017), rtol=0.2 if dtype == np.uint16 else 0.35)
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(one.ravel()[1:], one.ravel()[:-1])[0, 1]) < 0.02


def test_every_channel_is_dropped_sometimes_and_gains_differ():
    rng = np.random.default_rng(0)
    image = np.full((3, 3, 4), 100, np.uint8)
    dropped = [
        apply_op(image, "ChannelDrop", 0, space_name="channels", place=tuple(rng.random(2)), fill=(9, 8, 7, 6))
        for _ in range(60)
    ]
    assert {tuple(view[0, 0]) for view in dropped} == {
        (9, 100, 100, 100), (100, 8, 100, 100), (100, 100, 7, 100), (100, 100, 100, 6),
    }  # fmt: skip
    gains = [apply_op(image, "ChannelGain", 10, space_name="channels", place=tuple(rng.random(2))) for _ in range(200)]
    values = np.array([view[0, 0] for view in gains])
    assert values.min() in (70, 71)
    assert values.max() in (128, 129, 130)
    assert np.abs(np.corrcoef(values.T) - np.eye(4)).max() < 0.3
