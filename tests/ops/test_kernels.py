"""Every operation equals Pillow byte for byte: every level, many sizes, every content. No tolerance."""

import itertools

import numpy as np
import pytest
from PIL import Image

import pillow_reference
from coviews import OPS, apply_op, space
from coviews.ops import engine
from coviews.ops.kernels import color
from coviews.ops.kernels.layout import SLOTS
from coviews.ops.space import SERIES, SPACES
from made_up_images import CONTENTS

OF_IMAGES = [name for name in SPACES if name != SERIES]
SIZES = [(1, 1), (1, 5), (2, 2), (3, 3), (7, 4), (17, 31), (32, 32), (33, 64), (96, 96), (224, 224)]
SIZES += [(224, 161)]
PAIRS = [(name, op) for name in OF_IMAGES for op in space(name).ops]


@pytest.mark.parametrize(("name", "op"), PAIRS)
def test_every_level_size_and_content_equals_pillow(pictures, name, op):
    operations = space(name)
    values = operations.values[operations.index(op)]
    levels = range(operations.levels) if OPS[op].magnitude else [0]
    for (h, w), c in itertools.product(SIZES, (1, 3)):
        few = levels if h * w < 5000 or operations.levels == 11 else list(levels)[:: max(1, len(levels) // 11)]
        for content, level in itertools.product(CONTENTS, few):
            image = pictures.make(content, h, w, c)
            result = apply_op(image, op, level, space_name=name)
            expected = pillow_reference.apply(image, op, values[level])
            assert np.array_equal(result, expected), (content, h, w, c, level)


@pytest.mark.parametrize("cases", [8_000, pytest.param(40_000, marks=pytest.mark.slow)])
def test_random_search_finds_no_differing_byte(pictures, cases):
    rng = np.random.default_rng(cases)
    for case in range(cases):
        operations = space(OF_IMAGES[rng.integers(len(OF_IMAGES))])
        h, w = np.minimum(rng.geometric(1 / 20, 2), 224).tolist()
        c = int(rng.choice([1, 3]))
        op, level = int(rng.integers(len(operations.ops))), int(rng.integers(operations.levels))
        content = CONTENTS[rng.integers(len(CONTENTS))]
        image = pictures.make(content, h, w, c, seed=case)
        place, fill = tuple(rng.random(2).tolist()), rng.integers(0, 256, 3).tolist()
        result = apply_op(image, operations.ops[op], level, space_name=operations.name, place=place, fill=fill)
        expected = pillow_reference.apply(image, operations.ops[op], operations.values[op, level], place, fill)
        assert np.array_equal(result, expected), (case, operations.name, operations.ops[op], level, content, h, w, c)


@pytest.mark.parametrize("shift", [77, *(pytest.param(s, marks=pytest.mark.slow) for s in (0, 1, 128, 255))])
def test_hue_of_every_colour_there_is(shift):
    colours = np.arange(1 << 24, dtype=np.uint32)
    image = np.stack([colours >> 16, (colours >> 8) & 255, colours & 255], -1).astype(np.uint8)
    image = image.reshape(4096, 4096, 3)
    slots = np.zeros(SLOTS)
    slots[0] = shift
    result = np.empty_like(image)
    engine._call_one(image[None], result[None], engine._address(color.hue), slots)
    h, s, v = Image.fromarray(image).convert("HSV").split()
    turned = Image.fromarray(np.asarray(h) + np.uint8(shift))
    assert np.array_equal(result, np.asarray(Image.merge("HSV", (turned, s, v)).convert("RGB")))


def is_neutral(operations, op, level):
    neutral = OPS[operations.ops[op]].neutral
    return neutral is not None and abs(operations.values[op, level] - neutral) < 1e-12


@pytest.mark.parametrize("name", ["autoaugment", "simclr", "simclr-wide", "all"])
def test_the_neutral_level_changes_nothing_and_others_do(pictures, name):
    operations = space(name)
    image = pictures.make("photograph", 64, 64, 3)
    for op, level in itertools.product(range(len(operations.ops)), range(operations.levels)):
        row = OPS[operations.ops[op]]
        if not row.magnitude:
            continue
        same = np.array_equal(apply_op(image, row.name, level, space_name=name), image)
        assert same == is_neutral(operations, op, level), (row.name, level)
    levels = itertools.product(range(len(operations.ops)), range(operations.levels))
    neutral = {operations.ops[o] for o, k in levels if is_neutral(operations, o, k)}
    assert neutral == {o for o in operations.ops if OPS[o].magnitude} - {"Hue", "Blur"}


def test_the_joined_space_has_every_operation_once():
    every = space("all").ops
    assert every == (*space("autoaugment").ops, "Hue", "Grayscale", "Blur")
    assert {"Color" if op == "Saturation" else op for op in space("simclr").ops} <= set(every)


def test_the_papers_levels():
    operations = space("autoaugment")
    assert len(operations.ops) == 16
    assert operations.levels == 11
    assert operations.values[operations.index("Rotate")].tolist() == [-30 + 6 * k for k in range(11)]
    for op in ("Contrast", "Color", "Brightness", "Sharpness"):
        assert operations.values[operations.index(op), 5] == 1.0
    without = [o for o in operations.ops if not OPS[o].magnitude]
    assert without == ["AutoContrast", "Invert", "Equalize", "Identity"]
