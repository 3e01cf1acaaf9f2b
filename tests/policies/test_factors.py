"""Families of views: text, files, the recipe, placements, locks."""

import contextlib
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coviews import CoviewsError, Family, Plan, make_views, read_family, view_source
from coviews.policies.factors import (
    CROP_AREAS,
    FACTORS,
    KEEPS,
    PLAIN,
    RECIPE,
    TOPICS,
    VIEW_FACTORS,
    factors_table,
    family,
    is_family,
    locked,
    named_family,
    with_locks,
)

PLAIN_TEXT = "crop small, mirror, light, colour, grey, plain"
SWITCHES = [name for name in FACTORS if name not in ("crop", "keep")]
any_family = st.builds(
    Family, crop=st.sampled_from(sorted(CROP_AREAS)), keep=st.sampled_from(KEEPS),
    **{name: st.booleans() for name in SWITCHES},
)  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(any_family)
def test_a_line_gives_the_family_back(some):
    assert family(some.text) == some
    assert is_family(some.text)
    assert some.sentence.endswith(".")


@settings(deadline=None, max_examples=40)
@given(any_family, st.text(max_size=30))
def test_a_file_gives_the_family_back(tmp_path_factory, some, note):
    path = tmp_path_factory.mktemp("family") / "views.yaml"
    some.write(path, note)
    assert read_family(path) == some
    assert named_family(str(path)) == some


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "expected object, got null"),
        (b"\xff\xfe", "not text in UTF-8"),
        (b"a: [", "as YAML"),
        (b"format: 2\nviews: {}", "format 2, and this version of coviews reads 1"),
        (b"format: 1\nviews: [crop]", "views: expected object, got array"),
        (b"format: 1\nviews: {crop: huge}", "unknown crop 'huge'"),
        (b"format: 1\nviews: {crop: [small]}", "expected bool . str, got array|expected str . bool, got array"),
        (b"format: 1\nviews: {mirror: maybe}", "the factor mirror is on .true. or off"),
        (b"format: 1\nviews: {miror: true}", "did you mean 'mirror'"),
        (b"format: 1\nviews: {[1]: true}", "as a name"),
        (b"format: 1\nviews: {1: true}", "unknown factor"),
        (b"format: 1\nviews: !!python/object/apply:os.system ['true']", "tags are not read"),
        (b"x" * 270_000, "too large"),
        (b"a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n"
         b"d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\n"
         b"g: &g [*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g]\nformat: 1\nviews: {mirror: *h}",
         "an anchor or an alias"),
    ],
)  # fmt: skip
def test_damaged_files_are_refused(tmp_path, content, said):
    path = tmp_path / "views.yaml"
    path.write_bytes(content)
    with pytest.raises(CoviewsError, match=said):
        read_family(path)


@settings(deadline=None, max_examples=40)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_family_or_an_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "views.yaml"
    path.write_bytes(b"format: 1\nviews: " + content)
    with contextlib.suppress(CoviewsError):
        assert isinstance(read_family(path), Family)


@pytest.mark.parametrize("text", ["", ",", "mirror,", "crop", "crop small large", "mirror on", "colours", "crop huge"])
def test_bad_lines_are_refused(text):
    with pytest.raises(CoviewsError):
        family(text)


@pytest.mark.parametrize(("keep", "family"), [("true", Family(keep="some")), ("false", Family())])
def test_files_of_earlier_versions_say_whether_there_is_a_head(tmp_path, keep, family):
    Family().write(tmp_path / "views.yaml")
    text = (tmp_path / "views.yaml").read_text()
    (tmp_path / "views.yaml").write_text(re.sub("keep: .*", f"keep: {keep}", text))
    assert read_family(tmp_path / "views.yaml") == family


def test_how_much_to_keep_in_a_line():
    assert named_family("crop small, keep").keep == named_family("crop small, keep some").keep == "some"
    assert named_family("crop small, keep much").text == "crop small, keep much"
    with pytest.raises(CoviewsError, match="unknown keep 'all': there are: off, some, much"):
        named_family("crop small, keep all")


def test_a_quarter_of_the_pairs_are_plain():
    """Both views of a plain pair are unchanged; all others are drawn as without plain pairs."""
    whole, some = (family(text).source().sample(20_000, np.random.default_rng(4)) for text in ("recipe", PLAIN_TEXT))
    unchanged = (some.ops == some.space.identity).all(2)  # (n, 2)
    plain = (some.ops != whole.ops).any((1, 2))
    assert unchanged[plain].all()
    assert abs(unchanged.all(1).mean() - PLAIN - (1 - PLAIN) * (0.2 * 0.8) ** 2) < 0.01  # jitter 0.8, grey 0.2
    np.testing.assert_array_equal(some.levels, whole.levels)
    assert "A quarter of the pairs get no operations." in named_family(PLAIN_TEXT).sentence


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(CoviewsError, match="there is no file of views"):
        read_family(tmp_path / "gone.yaml")


def frequencies(source, n=40_000):
    """How often a view gets each operation, and the mean value of each."""
    drawn = source.sample(n, np.random.default_rng(0))
    applied = np.where(np.random.default_rng(1).random(drawn.ops.shape) < drawn.p, drawn.ops, drawn.space.identity)
    shares, means = {}, {}
    for i, op in enumerate(drawn.space.ops):
        if op != "Identity":
            where = applied == i
            shares[op] = where.any(2).mean()
            means[op] = drawn.space.values[i][drawn.levels[where]].mean() if where.any() else 0.0
    return shares, means


def test_the_recipe_draws_what_simclr_draws():
    ours, our_means = frequencies(RECIPE.source())
    theirs, their_means = frequencies(view_source("simclr"))
    for op, share in theirs.items():
        assert abs(ours[op] - share) < 0.01, op
        assert abs(our_means[op] - their_means[op]) < 0.02, op
    assert all(share == 0 for op, share in ours.items() if op not in theirs)
    # the jitter comes as one: all four or none, in any order, then grey
    drawn = RECIPE.source().sample(5000, np.random.default_rng(2))
    names = np.array(drawn.space.ops)[drawn.ops]  # (n, 2, 5)
    jitter = {"Brightness", "Contrast", "Saturation", "Hue"}
    assert {frozenset(row) for row in names[..., :4].reshape(-1, 4)} == {frozenset(jitter), frozenset(["Identity"])}
    assert set(np.unique(names[..., 4])) == {"Grayscale", "Identity"}
    assert len({tuple(row) for row in names[..., :4].reshape(-1, 4)}) == 25  # 24 orders, and none


@pytest.mark.parametrize("name", [n for n, f in FACTORS.items() if f.ops])
def test_a_factor_draws_its_operations_and_no_others(name):
    shares, _ = frequencies(family(f"crop small, {name}").source(), 20_000)
    factor = FACTORS[name]
    together = name in ("light", "colour")
    for op, share in shares.items():
        expected = factor.p / (1 if together else len(factor.ops)) if op in factor.ops else 0.0
        assert abs(share - expected) < 0.015, op


@settings(deadline=None, max_examples=40)
@given(any_family)
def test_placement(some):
    p = some.placement
    assert (p.crop == "none") == (some.crop == "whole")
    assert some.crop == "whole" or p.area == (CROP_AREAS[some.crop], 1.0)
    assert (p.flip, p.flip_vertical > 0, p.quarter_turns > 0) == (0.5 * some.mirror, some.turns, some.turns)


@settings(deadline=None, max_examples=40)
@given(any_family, st.dictionaries(st.sampled_from(list(FACTORS)), st.booleans()))
def test_locks_hold_and_change_nothing_else(start, locks):
    some = with_locks(start, locks)
    for name in FACTORS:
        if name in locks:
            assert some.is_on(name) == locks[name]
        else:
            assert getattr(some, name) == getattr(start, name)


def test_topics_lock_several_factors():
    assert locked(["orientation"], ["detail"]) == {"mirror": False, "turns": False, "tilt": False, "blur": True}
    assert set(locked(TOPICS, [])) | {"cutout"} == set(VIEW_FACTORS)
    with pytest.raises(CoviewsError, match="unknown factor for --matters 'keep'"):
        locked(["keep"], [])
    with pytest.raises(CoviewsError, match="light cannot both matter and be ignored"):
        locked(["brightness"], ["light"])


def test_grey_images_have_a_family_too():
    grey = RECIPE.without_colour()
    assert grey == family("crop small, mirror, light")
    images, generator = np.full((50, 8, 8, 1), 90, np.uint8), np.random.default_rng(0)
    for some in (grey, family("crop tiny, " + ", ".join(SWITCHES))):  # with colours on, they stay grey
        plan = Plan.draw(some.source(), 50, (8, 8), generator, some.placement)
        assert make_views(images, plan).shape == (50, 2, 8, 8, 1)


def test_every_factor_asks_a_question():
    heads, rows = factors_table()
    assert len(rows) == len(FACTORS)
    assert all(len(row) == len(heads) for row in rows)
    assert all(f.question.endswith("?") for f in FACTORS.values())


def test_ignoring_a_topic_does_not_turn_strong_changes_on():
    assert locked([], ["colour"]) == {"colour": True, "grey": True}
    assert locked(["colour"], []) == {"colour": False, "tone": False, "grey": False}
    assert locked([], ["tone"]) == {"tone": True}
