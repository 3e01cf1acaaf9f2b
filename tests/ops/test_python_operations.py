"""Operations in plain Python are drawn, applied, learned and saved as the others are."""

import warnings

import numpy as np
import pytest

import coviews
from coviews import CoviewsError, pretrain
from coviews.ops.operations import OPS, operations_table
from coviews.policies.learned import Policy
from small_runs import BY_TABLE, SMALL

IMAGES = np.random.default_rng(0).integers(0, 256, (120, 9, 7, 3), np.uint8)
WHOLE = coviews.Placement("none", flip=0)


def fade(image, value):
    """Every value moves towards the middle; v of the way is left."""
    middle = np.iinfo(image.dtype).max // 2
    return (middle + value * (image.astype(np.float64) - middle)).astype(image.dtype)


def speckle(image, value, generator):
    """A share v of the pixels is black."""
    image[generator.random(image.shape[:2]) < value] = 0
    return image


@pytest.fixture(autouse=True)
def own():
    before = dict(OPS)
    coviews.register_operation("Fade", fade, 0.5, 1.0, neutral=1.0, unit="x")
    coviews.register_operation("Speckle", speckle, 0.0, 0.4, neutral=0.0, random=True)
    yield
    OPS.clear()
    OPS.update(before)


def views_of(images, steps, threads=2, seed=3):
    space = coviews.Space.of("own", ("Fade", "Speckle", "Rotate"))
    generator = np.random.default_rng(seed)
    drawn = coviews.policies.fixed.Uniform(space, steps).sample(len(images), generator)
    plan = coviews.Plan.draw(drawn, len(images), images.shape[1:3], generator, WHOLE)
    return plan, coviews.make_views(images, plan, threads=threads)


def test_they_are_in_the_table_and_in_the_space_of_all_operations():
    every = coviews.space("all")
    assert every.ops[-2:] == ("Fade", "Speckle")
    assert every.values[-2].tolist() == pytest.approx(np.linspace(0.5, 1, 11))
    row = [*operations_table()[1][-2]]
    assert row == ["Fade", "0.5 .. 1 x", "Every value moves towards the middle; v of the way is left", "1", ""]
    assert coviews.Space.of("own", ("Fade",)).ops == ("Fade", "Identity")


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_a_function_makes_the_same_values_as_when_it_is_called(dtype, channels):
    image = np.random.default_rng(1).integers(0, np.iinfo(dtype).max, (6, 8, channels)).astype(dtype)
    kept = image.copy()
    for level, value in enumerate(coviews.space("all").values[-2].tolist()):
        assert np.array_equal(coviews.apply_op(image, "fade", level), fade(image, value))
    assert np.array_equal(image, kept)


def test_steps_of_python_and_of_kernels_follow_each_other():
    plan, views = views_of(IMAGES, steps=1)
    for i in range(len(IMAGES)):
        name = plan.space.ops[plan.ops[i, 0, 0]]
        value = plan.space.values[plan.ops[i, 0, 0], plan.levels[i, 0, 0]]
        if name == "Fade":
            assert np.array_equal(views[i, 0], fade(IMAGES[i], value))
        elif name == "Rotate":
            assert np.array_equal(views[i, 0], coviews.apply_op(IMAGES[i], "Rotate", int(plan.levels[i, 0, 0])))
    two, both = views_of(IMAGES, steps=2)
    i = next(i for i in range(len(IMAGES)) if [two.space.ops[o] for o in two.ops[i, 0]] == ["Rotate", "Fade"])
    turned = coviews.apply_op(IMAGES[i], "Rotate", int(two.levels[i, 0, 0]))
    assert np.array_equal(both[i, 0], fade(turned, two.space.values[two.ops[i, 0, 1], two.levels[i, 0, 1]]))


def test_random_numbers_follow_from_the_plan_whatever_the_threads():
    plan, views = views_of(IMAGES, steps=2, threads=1)
    assert np.array_equal(views, coviews.make_views(IMAGES, plan, threads=3))
    speckled = plan.ops == plan.space.index("Speckle")
    assert speckled.sum() > 20
    white = np.full((1, 40, 40, 1), 255, np.uint8)
    places = [coviews.apply_op(white[0], "Speckle", 10, place=place) for place in ((0.1, 0.2), (0.1, 0.2), (0.3, 0.2))]
    assert (places[0] == 0).mean() == pytest.approx(0.4, abs=0.05)
    assert np.array_equal(places[0], places[1])
    assert not np.array_equal(places[0], places[2])


def test_a_policy_over_them_can_be_saved_and_loaded(tmp_path):
    policy = Policy.untrained(coviews.space("all"), np.random.default_rng(0))
    policy.save(tmp_path / "policy.safetensors")
    drawn = coviews.load_policy(tmp_path / "policy.safetensors").sample(500, np.random.default_rng(1))
    assert any("Fade" in text and "Speckle" in text for text in drawn.texts())
    assert coviews.Subpolicies.from_texts(drawn.texts(), drawn.space).texts() == drawn.texts()
    del OPS["Fade"]
    with pytest.raises(CoviewsError, match="unknown operation 'Fade'"):
        coviews.load_policy(tmp_path / "policy.safetensors")


def test_a_search_learns_policies_with_them(tmp_path):
    settings = SMALL.replaced(epochs=2, knn_every=0, space=None, search=BY_TABLE, forbid="Rotate", cap="Fade=0.8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = pretrain(settings=settings.replaced(out=tmp_path / "run", keep=1.0), progress=False)
    assert {"Fade", "Speckle"} <= set(done.policy.space.ops)
    fades = done.policy.space.values[done.policy.space.index("Fade")]
    assert (fades.min(), fades.max()) == pytest.approx((0.8, 1.0))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda image, value: image * 1.0, r"operation Bad must give .*uint8 \(9, 7, 3\), not float64 \(9, 7, 3\)"),
        (lambda image, value: image[:, :, 0], r"operation Bad must give .*uint8 \(9, 7, 3\), not uint8 \(9, 7\)"),
        (lambda image, value: None, r"operation Bad must give .*, not NoneType"),
        (lambda image, value: image[99, 99], r"operation Bad failed: IndexError: index 99"),
        (lambda image: image, r"operation Bad failed: TypeError: .*positional argument"),
    ],
)
def test_what_is_wrong_with_a_function_is_one_line(function, message):
    coviews.register_operation("Bad", function, 0.0, 1.0)
    bad = coviews.Space.of("bad", ("Bad", "Fade"))
    drawn = coviews.policies.fixed.Uniform(bad, 2).sample(len(IMAGES), np.random.default_rng(0))
    plan = coviews.Plan.draw(drawn, len(IMAGES), (9, 7), np.random.default_rng(0))
    for threads in (1, 3):
        with pytest.raises(CoviewsError, match=message) as caught:
            coviews.make_views(IMAGES, plan, threads=threads)
        assert "\n" not in str(caught.value)
    with pytest.raises(CoviewsError, match=message):
        coviews.apply_op(IMAGES[0], "Bad", 3)
    assert np.array_equal(coviews.apply_op(IMAGES[0], "Fade", 10), IMAGES[0])  # nothing is left of the error


def test_an_interrupt_in_a_function_is_an_interrupt():
    def interrupted(image, value):
        raise KeyboardInterrupt

    coviews.register_operation("Bad", interrupted)
    with pytest.raises(KeyboardInterrupt):
        coviews.apply_op(IMAGES[0], "Bad")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("Fade-out", fade), "letters only"),
        (("Rotate", fade), "there is an operation Rotate already"),
        (("FADE", fade), "there is an operation Fade already"),
        (("Dim", 3), "needs a function of an image and a value"),
        (("Dim", fade, 1.0, 0.0), "a range from low to high"),
        (("Dim", fade, 0.0, float("nan")), "a range from low to high"),
    ],
)
def test_a_wrong_registration_is_named(wrong, message):
    with pytest.raises(CoviewsError, match=message):
        coviews.register_operation(*wrong)
    assert wrong[0] not in OPS or wrong[0] == "Rotate"


def test_the_same_name_again_replaces_it():
    coviews.register_operation("Fade", lambda image, value: image // 2, 0.5, 1.0)
    assert np.array_equal(coviews.apply_op(IMAGES[0], "Fade", 0), IMAGES[0] // 2)
