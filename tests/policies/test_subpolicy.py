"""Subpolicies as arrays, as text and as JSON, both ways."""

import numpy as np
import pytest

from coviews import CoviewsError, Subpolicies, space, view_source
from coviews.ops.space import SPACES

PAPER = space("autoaugment")


def test_the_text_form_of_the_handbook():
    line = "Rotate -18 deg, Solarize 128 | Equalize, Cutout 0.1"
    result = Subpolicies.from_texts(line, PAPER)
    assert result.ops.shape == (1, 2, 2)
    assert result.levels[0].tolist() == [[2, 5], [0, 5]]
    assert result.texts() == [line]


@pytest.mark.parametrize("name", ["random", "uniform", "randaugment", "trivialaugment", "simclr"])
def test_text_and_json_both_ways(name):
    drawn = view_source(name).sample(500, np.random.default_rng(0))
    assert Subpolicies.from_json(drawn.to_json()) == drawn
    back = Subpolicies.from_texts(drawn.texts(), drawn.space, drawn.p)
    assert np.array_equal(back.ops, drawn.ops)
    meant = drawn.space.has_magnitude[drawn.ops]
    # several levels may share a value (Posterize): the value is what must come back
    assert np.array_equal(
        drawn.space.values[back.ops, back.levels][meant], drawn.space.values[drawn.ops, drawn.levels][meant]
    )


@pytest.mark.parametrize("name", SPACES)
def test_every_level_has_a_text_that_leads_back(name):
    for chosen in {space(name), *([space(name, levels=1001)] if space(name).levels == 11 else [])}:
        for op, values in enumerate(chosen.values):
            for level in range(chosen.levels if chosen.has_magnitude[op] else 0):
                back = Subpolicies.from_texts(chosen.describe(op, level), chosen)
                assert values[back.levels[0, 0, 0]] == values[level], chosen.describe(op, level)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Rotat 6 deg", "did you mean 'Rotate'"),
        ("Rotate", "needs a value"),
        ("Rotate 99 deg", "outside its range -30 .. 30"),
        ("Rotate; 6", "not a step"),
        ("Rotate 1.2.3", "not a step"),
        ("Rotate 6, Invert | Invert", "same number"),
    ],
)
def test_bad_texts_are_named(line, message):
    with pytest.raises(CoviewsError, match=message):
        Subpolicies.from_texts(line, PAPER)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"space": "autoaugment"}', '{"space": 3, "levels": 11, "p": 1, "subpolicies": []}',
     '{"space": "autoaugment", "levels": 11, "p": 1, "subpolicies": [[[["Rotate", 99]]]]}',
     '{"space": "autoaugment", "levels": 11, "p": 1, "subpolicies": [[[["Rotate", "a"]]]]}',
     '{"space": "autoaugment", "levels": 11, "p": 1, "subpolicies": [[[["Rotate", 1, 2]]]]}',
     '{"space": "autoaugment", "levels": 11, "p": 1, "subpolicies": [[[[3, 1]]]]}',
     '{"space": "autoaugment", "levels": 11, "p": 1, "subpolicies": [[[["Rotate", 1.7]]]]}',
     '{"space": "autoaugment", "levels": 11, "p": 1, "subpolicies": [[[["Rotate", 100000000000000000000]]]]}',
     '{"space": "autoaugment", "levels": 11, "p": 7, "subpolicies": [[[["Rotate", 1]]]]}',
     '{"space": "autoaugment", "levels": [1], "p": 1, "subpolicies": [[[["Rotate", 1]]]]}'],
)  # fmt: skip
def test_bad_json_is_refused(text):
    with pytest.raises(CoviewsError):
        Subpolicies.from_json(text)


def test_arrays_are_checked():
    good = np.zeros((3, 2, 2), np.int64)
    for ops, levels, message in [
        (good.astype(float), good, "integers"),
        (good[0], good[0], "batch, view, step"),
        (good + 16, good, r"0\.\.15"),
        (good, good - 1, r"0\.\.10"),
        (good, good[:2], "differ in shape"),
    ]:
        with pytest.raises(CoviewsError, match=message):
            Subpolicies(PAPER, ops, levels)
    with pytest.raises(CoviewsError, match="probability"):
        Subpolicies(PAPER, good, good, 1.1)


def test_what_was_checked_cannot_be_changed():
    """The kernels trust the arrays: a wrong operation there would be a crash."""
    given = np.zeros((2, 2, 2), np.int16)
    result = Subpolicies(PAPER, given, given)
    given[:] = 999
    assert result.ops.max() == 0
    with pytest.raises(ValueError, match="read-only"):
        result.ops[:] = 999


def test_indexing_picks_images():
    drawn = view_source("uniform").sample(10, np.random.default_rng(0))
    assert drawn[3].texts() == drawn.texts()[3:4]
    assert drawn[2:5].texts() == drawn.texts()[2:5]
    assert len(drawn[np.arange(10) % 2 == 0]) == 5
