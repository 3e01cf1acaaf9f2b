"""An operation from outside the package is one kernel and one row: nothing else has to know it."""

import numpy as np
import pytest
from numba import carray

import coviews
from coviews.cli import main
from coviews.ops.kernels.layout import SLOTS
from coviews.ops.operations import OPS, Op, operations_table
from coviews.policies.learned import Policy


def halve(src, dst, h, w, c, p):
    """Every byte times v, rounded down."""
    a, b, factor = carray(src, h * w * c), carray(dst, h * w * c), carray(p, SLOTS)[0]
    for i in range(a.size):
        b[i] = int(a[i] * factor)


@pytest.fixture
def halving(monkeypatch):
    monkeypatch.setitem(OPS, "Halve", Op("Halve", halve, lambda v, h, w: (v,), 0.5, 1.0, neutral=1.0, unit="x"))


IMAGES = np.random.default_rng(0).integers(0, 256, (200, 9, 7, 3), np.uint8)


def test_it_is_in_the_space_of_all_operations(halving):
    every = coviews.space("all")
    assert every.ops[-1] == "Halve"
    assert every.values[-1].tolist() == pytest.approx(np.linspace(0.5, 1, 11))
    assert "Halve" not in coviews.space("autoaugment").ops


def test_it_is_applied(halving):
    assert np.array_equal(coviews.apply_op(IMAGES[0], "Halve", 0), IMAGES[0] // 2)
    assert np.array_equal(coviews.apply_op(IMAGES[0], "halve", 10), IMAGES[0])


def test_it_is_drawn_and_its_views_are_made(halving):
    generator = np.random.default_rng(1)
    drawn = coviews.view_source("uniform", steps=1).sample(len(IMAGES), generator).applied(generator)
    whole = coviews.Placement("none", flip=0)
    views = coviews.make_views(IMAGES, coviews.Plan.draw(drawn, len(IMAGES), (9, 7), generator, whole))
    image, view = np.nonzero(drawn.ops[:, :, 0] == drawn.space.index("Halve"))
    assert len(image) > 5
    for i, v in zip(image, view, strict=True):
        factor = drawn.space.values[-1, drawn.levels[i, v, 0]]
        assert np.array_equal(views[i, v], (IMAGES[i] * factor).astype(np.uint8))
    assert coviews.Subpolicies.from_texts(drawn.texts(), drawn.space).texts() == drawn.texts()


def test_a_policy_over_it_can_be_drawn_from_saved_and_loaded(halving, tmp_path):
    policy = Policy.untrained(coviews.space("all"), np.random.default_rng(0))
    policy.save(tmp_path / "policy.safetensors")
    drawn = coviews.load_policy(tmp_path / "policy.safetensors").sample(500, np.random.default_rng(1))
    assert any("Halve" in text for text in drawn.texts())


def test_it_is_in_the_help_and_in_the_table_of_the_docs(halving, capsys):
    with pytest.raises(SystemExit):
        main(["preview", "--help-all"])
    assert "Halve" in capsys.readouterr().out
    assert operations_table()[1][-1] == ["Halve", "0.5 .. 1 x", "Every byte times v, rounded down", "1", ""]


def test_another_kernel_of_the_same_name_takes_its_place(halving, monkeypatch):
    before = coviews.apply_op(IMAGES[0], "Halve", 0)
    monkeypatch.setitem(OPS, "Halve", Op("Halve", halve, lambda v, h, w: (v / 2,), 0.5, 1.0))
    assert np.array_equal(coviews.apply_op(IMAGES[0], "Halve", 0), IMAGES[0] // 4)
    assert not np.array_equal(before, IMAGES[0] // 4)


def test_it_is_gone_when_its_row_is(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(OPS, "Halve", Op("Halve", halve, lambda v, h, w: (v,), 0.5, 1.0))
        assert "Halve" in coviews.space("all").ops
    assert "Halve" not in coviews.space("all").ops
    with pytest.raises(coviews.CoviewsError, match="unknown operation 'Halve'"):
        coviews.apply_op(IMAGES[0], "Halve", 0)
