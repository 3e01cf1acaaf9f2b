"""A chain of pointwise operations is one lookup: the same bytes as one operation after the other, and as Pillow's."""

from dataclasses import replace

import numpy as np
import pytest

import pillow_reference
from coviews import OPS, Plan, apply_op, make_views, space
from coviews.ops import engine
from coviews.ops.kernels import lookup
from made_up_images import CONTENTS

CHAINED = [name for name, row in OPS.items() if row.pointwise or row.table]


@pytest.fixture(params=[True, False], ids=["lookups", "one after the other"])
def by_lookup(request, monkeypatch):
    """Whether the engine makes tables: every processor has to give the same bytes."""
    monkeypatch.setattr(engine, "CHAINS", request.param)
    engine._kernels.cache_clear()
    yield request.param
    engine._kernels.cache_clear()


def test_random_chains(pictures, by_lookup):
    rng = np.random.default_rng(3)
    operations = space("all")
    pointwise = [operations.index(name) for name in CHAINED]
    for case in range(400):
        h, w = np.minimum(rng.geometric(1 / 15, 2), 100).tolist()
        steps = int(rng.integers(1, 7))
        ops = rng.choice(pointwise, steps)
        if case % 3 == 0:  # with others and gaps in between
            ops = np.where(rng.random(steps) < 0.3, rng.integers(len(operations.ops), size=steps), ops)
            ops[rng.random(steps) < 0.2] = operations.identity
        levels = rng.integers(operations.levels, size=steps)
        image = pictures.make(CONTENTS[case % len(CONTENTS)], h, w, (1, 3)[case % 2], seed=case)
        plan = replace(whole(operations, (h, w), steps), ops=[[ops]], levels=[[levels]])
        view = make_views(image[None], plan, threads=1)[0, 0]
        by_pillow, by_steps = image, image
        for op, level in zip(ops, levels, strict=True):
            name, value = operations.ops[op], operations.values[op, level]
            by_pillow = pillow_reference.apply(by_pillow, name, value, (0.0, 0.0))
            by_steps = apply_op(by_steps, name, level, place=(0.0, 0.0))
        assert np.array_equal(view, by_pillow), (case, image.shape, plan.texts())
        assert np.array_equal(view, by_steps), (case, image.shape, plan.texts())


def whole(operations, size, steps):
    """A plan of one view, the whole image, of one image."""
    nothing = np.zeros((1, 1, steps), np.int16)
    box = [[[0, 0, size[1], size[0]]]]
    return Plan(operations, size, nothing, nothing, box, [[0]], [[0]], [[0]], np.zeros((1, 1, steps, 2)))


@pytest.mark.parametrize("c", [1, 2, 3, 5])
@pytest.mark.parametrize("pixels", [1, 63, 64, 65, 191, 192, 193, 1000])
def test_lookups_of_any_length_and_number_of_tables(c, pixels):
    rng = np.random.default_rng([c, pixels])
    image = rng.integers(0, 256, (1, 1, pixels, c), np.uint8)
    for tables in (rng.integers(0, 256, (c, 256), np.uint8), np.repeat(rng.integers(0, 256, (1, 256), np.uint8), c, 0)):
        result = np.empty_like(image)
        engine._call_one(image, result, engine._address(lookup.look_up), tables.view(np.float64))
        expected = np.stack([tables[k][image[..., k]] for k in range(c)], -1)
        assert np.array_equal(result, expected)
