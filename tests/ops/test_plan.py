"""The plan: kept, shown, cut into parts, and carried out to the byte; what does not fit is refused."""

import contextlib
import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from coviews import (
    CoviewsError,
    Placement,
    Plan,
    Subpolicies,
    ViewSettings,
    make_view_groups,
    make_views,
    space,
    view_source,
)
from coviews.ops.plan import LARGEST_VIEW
from coviews.ops.space import SPACES

ARRAYS = ("ops", "levels", "boxes", "flips", "vertical_flips", "turns", "spots")
TURNING = Placement("joint", flip_vertical=0.5, quarter_turns=0.75)
IMAGES = np.random.default_rng(0).integers(0, 256, (24, 20, 26, 3), np.uint8)


def drawn(source="uniform", n=24, size=(20, 26), seed=0, placement=TURNING, sizes=((15, 15), (15, 15)), **options):
    return Plan.draw(view_source(source, **options), n, size, np.random.default_rng(seed), placement, sizes)


def simple(**changes):
    """One view of one image of 8 x 10 pixels, without any change."""
    operations = space("all")
    arrays = {
        "ops": [[[operations.identity]]], "levels": [[[0]]], "boxes": [[[0, 0, 10, 8]]], "flips": [[False]],
        "vertical_flips": [[False]], "turns": [[0]], "spots": [[[[0.5, 0.5]]]],
    }  # fmt: skip
    return Plan(**{"space": operations, "image_size": (8, 10), **arrays, **changes})


@pytest.mark.parametrize("source", ["random", "uniform", "randaugment", "trivialaugment", "simclr"])
def test_the_json_form_is_exact(source):
    plan = drawn(source)
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert again.texts() == plan.texts()
    for name in ARRAYS:
        assert getattr(again, name).dtype == getattr(plan, name).dtype
    assert np.array_equal(make_views(IMAGES, again), make_views(IMAGES, plan))


@pytest.mark.parametrize("name", SPACES)
def test_json_keeps_every_built_in_space(name):
    operations = space(name)
    nothing = np.full((3, 2, 1), operations.identity)
    plan = Plan.draw(Subpolicies(operations, nothing, 0 * nothing), 3, (5, 6), np.random.default_rng(0))
    assert Plan.from_json(plan.to_json()) == plan


def test_a_plan_of_no_image_and_of_views_of_several_sizes():
    plan = drawn(views=3, sizes=((15, 15), (9, 9), (7, 8)), placement=Placement())
    assert Plan.from_json(plan.to_json()) == plan
    assert Plan.from_json(plan[:0].to_json()) == plan[:0]
    assert len(plan[:0]) == 0
    assert plan[:0].texts() == []


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", '{"space": "all"}', "{" * 10_000])
def test_what_is_no_json_of_a_plan_is_refused(text):
    with pytest.raises(CoviewsError, match="the JSON form of a plan is"):
        Plan.from_json(text)


def test_a_damaged_json_form_is_refused():
    rng = np.random.default_rng(0)
    data = json.loads(drawn(n=2).to_json())
    del data["steps"]  # matters without images alone
    for name in data:
        defaults = () if name in ("sizes", "number_of_levels") else (None, [], {})
        for value in ("x", -1, [[]], 1e99, [[1, 2]], 10**30, *defaults):
            with pytest.raises(CoviewsError) as error:
                Plan.from_json(json.dumps({**data, name: value}))
            assert len(str(error.value)) < 500
    text = drawn(n=2).to_json()
    for _ in range(300):
        at = int(rng.integers(len(text)))
        changed = text[:at] + chr(int(rng.integers(32, 127))) + text[at + 1 :]
        with contextlib.suppress(CoviewsError):
            Plan.from_json(changed)  # another plan, or an error of ours


def test_the_text_says_what_is_done():
    texts = ["Rotate -18 deg, Identity | Equalize, Solarize 128"]
    subpolicies = Subpolicies.from_texts(texts, space("autoaugment"))
    plan = Plan.draw(subpolicies, 1, (20, 26), np.random.default_rng(0), Placement("none", flip=0))
    assert plan.texts() == texts
    plan = replace(
        plan, boxes=[[[3, 5, 20, 19], [0, 0, 26, 20]]], flips=[[True, False]], vertical_flips=[[True, False]],
        turns=[[0, 3]], sizes=((9, 9), (9, 9)),
    )  # fmt: skip
    first, second = plan.texts()[0].split(" | ")
    assert first == "Rotate -18 deg, Identity, crop 3 5 20 19, mirrored, upside down"
    assert second == "Equalize, Solarize 128, turned 270 deg"


def test_parts_of_a_plan_are_parts_of_its_views():
    plan = drawn(views=3, sizes=((15, 15),) * 3)
    views = make_views(IMAGES, plan)
    assert len(plan) == 24
    assert (plan.views, plan.steps) == (3, 2)
    rng = np.random.default_rng(1)
    for index in (slice(3, 11), slice(None, None, -2), rng.permutation(24)[:7], rng.random(24) < 0.5, [4, 4, 4]):
        assert np.array_equal(make_views(IMAGES[index], plan[index]), views[index])
    for first, last in ((0, 1), (1, 3), (0, 3)):
        assert np.array_equal(make_views(IMAGES, plan.of_views(first, last)), views[:, first:last])
    assert plan.at_size((15, 15)) == plan
    small = plan.at_size((8, 8))
    assert make_views(IMAGES, small).shape == (24, 3, 8, 8, 3)
    assert np.array_equal(small.boxes, plan.boxes)
    assert small != plan
    assert plan[1:] != plan
    assert plan != "plan"


def test_equal_seeds_give_equal_plans_and_bytes_on_any_number_of_threads():
    for source in ("random", "simclr"):
        plan = drawn(source, seed=4)
        assert drawn(source, seed=4) == plan
        assert drawn(source, seed=5) != plan
        views = make_views(IMAGES, plan, threads=1)
        for threads in (2, 3, 16, None):
            assert np.array_equal(make_views(IMAGES, plan, threads=threads), views)


def test_another_process_makes_the_same_views(tmp_path):
    plan = drawn(seed=6)
    (tmp_path / "plan.json").write_text(plan.to_json())
    np.save(tmp_path / "images.npy", IMAGES)
    code = (
        "import numpy as np, coviews; plan = coviews.Plan.from_json(open('plan.json').read());"
        "source, placement = coviews.view_source('uniform'), coviews.Placement('joint', flip_vertical=0.5,"
        "quarter_turns=0.75);"
        "again = coviews.Plan.draw(source, 24, (20, 26), np.random.default_rng(6), placement, ((15, 15), (15, 15)));"
        "assert again == plan; np.save('views.npy', coviews.make_views(np.load('images.npy'), plan))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert np.array_equal(np.load(tmp_path / "views.npy"), make_views(IMAGES, plan))


def test_making_views_draws_nothing():
    plan = drawn()
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    views = make_views(IMAGES, plan)
    assert np.array_equal(make_views(IMAGES, plan), views)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_the_arrays_are_copies_that_cannot_be_written():
    boxes = np.array([[[0, 0, 5, 5]]], np.int32)
    plan = simple(boxes=boxes)
    boxes[...] = 1000
    assert plan.boxes.tolist() == [[[0, 0, 5, 5]]]
    for name in ARRAYS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(plan, name)[...] = 0


def test_view_settings_draw_and_carry_out_the_same():
    settings = ViewSettings(TURNING, ((15, 15), (9, 9)), fill=(1, 2, 3), threads=1)
    plan = settings.plan(view_source("uniform"), 24, (20, 26), np.random.default_rng(0))
    assert plan == drawn(sizes=((15, 15), (9, 9)))
    groups = make_view_groups(IMAGES, plan, fill=(1, 2, 3))
    assert all(np.array_equal(a, b) for a, b in zip(settings.make_groups(IMAGES, plan), groups, strict=True))
    first = plan.of_views(0, 1)
    assert np.array_equal(settings.make(IMAGES, first), groups[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"boxes": [[[0, 0, 11, 8]]]}, "(left, top, right, bottom) is not within the image, 10 x 8"),
        ({"boxes": [[[-1, 0, 10, 8]]]}, "the crop [-1, 0, 10, 8]"),
        ({"boxes": [[[0, 0, 10, 9]]]}, "not within the image"),
        ({"boxes": [[[4, 0, 4, 8]]]}, "the crop [4, 0, 4, 8]"),
        ({"boxes": [[[0, 6, 10, 2]]]}, "the crop [0, 6, 10, 2]"),
        ({"boxes": [[[0, 0, 10]]]}, "the plan's boxes have the shape (1, 1, 3)"),
        ({"boxes": [[[0.5, 0, 10, 8]]]}, "the plan's boxes must be whole numbers"),
        ({"boxes": [[[0, 0, 2**40, 8]]]}, "the plan's boxes"),
        ({"sizes": ((LARGEST_VIEW + 1, 8),)}, "1 to 4096 pixels a side, not 4097 x 8"),
        ({"sizes": ((8, 0),)}, "1 to 4096 pixels a side, not 8 x 0"),
        ({"sizes": ((8, 8), (8, 8))}, "the plan has 1 views of each image, and 2 sizes"),
        ({"sizes": (8,)}, "sizes"),
        ({"turns": [[1]]}, "only square views can be turned"),
        ({"turns": [[4]], "sizes": ((8, 8),)}, "the plan's turns must be 0..3, not 4 to 4"),
        ({"ops": [[[99]]]}, "the plan's ops must be 0..18, not 99 to 99"),
        ({"levels": [[[-1]]]}, "the plan's levels must be 0..10, not -1 to -1"),
        ({"levels": [[[0, 1]]]}, "the plan's levels have the shape (1, 1, 2)"),
        ({"flips": [[True], [False]]}, "the plan's flips have the shape (2, 1)"),
        ({"spots": [[[[0.5, 0.5, 0.5]]]]}, "the plan's spots have the shape (1, 1, 1, 3)"),
        ({"spots": [[[[0.5, 1.5]]]]}, "the plan's spots must be in 0..1"),
        ({"spots": [[[[0.5, float("nan")]]]]}, "the plan's spots must be in 0..1"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(changes, message):
    with pytest.raises(CoviewsError, match=re.escape(message)) as error:
        simple(**changes)
    assert str(error.value).count("\n") < 2


def test_half_turns_of_views_that_are_not_square_are_fine():
    image = IMAGES[:1, :8, :10]
    assert np.array_equal(make_views(image, simple(turns=[[2]]))[0, 0], image[0, ::-1, ::-1])


def test_a_plan_for_other_images_is_refused():
    plan = drawn()
    with pytest.raises(CoviewsError, match=r"for images of \(20, 26\) \(height, width\), and these have \(26, 20\)"):
        make_views(IMAGES.transpose(0, 2, 1, 3), plan)
    with pytest.raises(CoviewsError, match="a plan for 24 images, and 23 images: one for each is needed"):
        make_views(IMAGES[1:], plan)
    with pytest.raises(CoviewsError, match="24 subpolicies for 23 images"):
        Plan.draw(view_source("uniform").sample(24, np.random.default_rng(0)), 23, (20, 26), np.random.default_rng(0))
