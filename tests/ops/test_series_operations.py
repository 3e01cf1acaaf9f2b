"""The operations of series against their definitions in NumPy."""

import numpy as np
import pytest

import coviews
from coviews import CoviewsError
from coviews.ops.operations import OPS
from coviews.ops.series_operations import SERIES_OPS
from coviews.policies.limits import view_limits

LENGTH, FILL = 101, (20_000, 30_000)


def some(length=LENGTH, channels=2, height=1, dtype=np.uint16):
    values = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, (height, length, channels))
    return values.astype(dtype)


def applied(series, name, level, place=(0.3, 0.8)):
    return coviews.apply_op(series, name, level, space_name="series", place=place, fill=FILL[: series.shape[2]])


def value_of(name, level):
    space = coviews.space("series")
    return space.values[space.index(name), level]


@pytest.mark.parametrize("name", SERIES_OPS)
def test_the_neutral_value_changes_nothing(name):
    levels = [level for level in range(11) if value_of(name, level) == SERIES_OPS[name].neutral]
    assert levels
    for series in (some(), some(1), some(3, 1, 4)):
        assert np.array_equal(applied(series, name, levels[0]), series)


@pytest.mark.parametrize("name", SERIES_OPS)
def test_they_change_series_of_any_length_and_rows_alike(name):
    for length in (1, 2, 7, 1000):
        applied(some(length), name, 10)
    rows = np.repeat(some(), 3, 0)
    changed = applied(rows, name, 10)
    assert (changed != rows).any()
    if name != "Jitter":
        assert (changed == changed[:1]).all()


def test_scaling_multiplies_the_distance_from_the_mean():
    series = some()
    for level in (0, 10):
        exact = np.array(FILL) + value_of("Scaling", level) * (series.astype(float) - np.array(FILL))
        assert np.array_equal(applied(series, "Scaling", level), np.floor(np.clip(exact + 0.5, 0, 65535)))


def test_time_warp_is_an_interpolation_at_moved_times():
    series, phase = some(), 2 * np.pi * 0.3
    time = np.linspace(0, 1, LENGTH)
    v = value_of("TimeWarp", 10)
    moved = time + v * (np.sin(2 * np.pi * time + phase) - np.sin(phase)) / (2 * np.pi)
    assert (np.diff(moved) > 0).all()
    assert (moved[0], moved[-1]) == pytest.approx((0, 1))
    speed = np.diff(moved) * (LENGTH - 1)
    assert (speed.min(), speed.max()) == pytest.approx((1 - v, 1 + v), abs=0.01)
    expected = np.stack([np.interp(moved, time, series[0, :, k]) for k in range(2)], -1)
    assert np.abs(applied(series, "TimeWarp", 10)[0] - expected).max() <= 0.51


def test_permutation_moves_whole_parts():
    series = np.arange(LENGTH, dtype=np.uint16).reshape(1, LENGTH, 1)
    orders = set()
    for seed in range(40):
        parts = applied(series, "Permutation", 10, (seed / 40, 0.5))[0, :, 0].astype(int)
        assert np.array_equal(np.sort(parts), np.arange(LENGTH))
        starts = [int(p) for p, before in zip(parts, [-5, *parts[:-1]], strict=True) if p != before + 1]
        assert set(starts) <= {k * LENGTH // 6 for k in range(6)}
        orders.add(tuple(starts))
    assert len(orders) > 30


def test_masking_fills_a_window():
    series = some()
    places = set()
    for x in np.linspace(0, 1, 30):
        changed = (applied(series, "Masking", 10, (x, 0.5)) != series).any(2)[0]
        window = np.flatnonzero(changed)
        assert np.array_equal(window, np.arange(window[0], window[0] + 40))  # 0.4 of 101 values
        assert (applied(series, "Masking", 10, (x, 0.5))[0, window] == FILL).all()
        places.add(int(window[0]))
    assert (min(places), max(places)) == (0, LENGTH - 40)


def test_they_have_a_table_of_their_own():
    assert not SERIES_OPS.keys() & OPS.keys()
    assert set(coviews.space("series").ops) == {*SERIES_OPS, "Identity"}
    assert not SERIES_OPS.keys() & set(coviews.space("all").ops)
    mixed = coviews.Space.of("mixed", ["Jitter", "Blur"])
    assert mixed.ops == ("Jitter", "Blur", "Identity")
    left = view_limits(forbid="jitter", cap="Masking=0.1").space(coviews.space("series"))
    assert "Jitter" not in left.ops
    assert left.values[left.index("Masking")].max() == pytest.approx(0.1)
    with pytest.raises(CoviewsError, match="there is an operation Jitter already"):
        coviews.register_operation("Jitter", lambda image, value: image)


def test_a_crop_of_a_series_is_a_part_of_its_length():
    boxes = coviews.Placement().draw(500, 2, 1, (1, 200), np.random.default_rng(0)).boxes
    assert (boxes[..., 1] == 0).all()
    assert (boxes[..., 3] == 1).all()
    lengths = boxes[..., 2] - boxes[..., 0]
    assert 40 <= lengths.min() < 50
    assert 190 < lengths.max() <= 200
    assert np.median(lengths) == pytest.approx(120, abs=8)
