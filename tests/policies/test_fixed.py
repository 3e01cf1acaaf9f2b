"""The fixed view sources draw what they say."""

import numpy as np
import pytest

from coviews import OPS, CoviewsError, apply_op, view_source
from coviews.compat import import_torchvision

import_torchvision()
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

N = 40_000


def even(counts, tolerance=0.06):
    return np.abs(counts / counts.mean() - 1).max() < tolerance


@pytest.mark.parametrize(("name", "levels", "p"), [("random", 1001, 1.0), ("uniform", 11, 0.8)])
def test_uniform_sources_are_uniform(name, levels, p):
    drawn = view_source(name).sample(N, np.random.default_rng(0))
    assert drawn.ops.shape == (N, 2, 2)
    assert drawn.p == p
    assert drawn.space.levels == levels
    assert even(np.bincount(drawn.ops.ravel(), minlength=16))
    assert even(np.bincount(drawn.levels.ravel() * 11 // levels, minlength=11))
    assert abs(np.corrcoef(drawn.ops[:, 0, 0], drawn.ops[:, 1, 0])[0, 1]) < 0.02


@pytest.mark.parametrize("magnitude", [9, 15, 27])
def test_randaugment_has_one_magnitude_of_either_sign(magnitude):
    drawn = view_source("randaugment", magnitude=magnitude).sample(N, np.random.default_rng(0))
    assert even(np.bincount(drawn.ops.ravel(), minlength=14))
    assert set(np.unique(np.abs(drawn.levels - 30))) == {magnitude}
    rotations = drawn.levels[drawn.ops == drawn.space.index("Rotate")]
    assert abs((rotations > 30).mean() - 0.5) < 0.02


def test_trivialaugment_is_one_step_of_any_strength():
    drawn = view_source("trivialaugment").sample(N, np.random.default_rng(0))
    assert drawn.steps == 1
    assert even(np.bincount(np.abs(drawn.levels.ravel() - 30), minlength=31), 0.1)


def test_simclr_jitters_in_any_order_or_not_at_all():
    drawn = view_source("simclr").sample(N, np.random.default_rng(0))
    identity = drawn.space.identity
    jittered = (drawn.ops[..., :4] != identity).all(-1)
    assert (jittered == (drawn.ops[..., :4] != identity).any(-1)).all()
    assert abs(jittered.mean() - 0.8) < 0.01
    assert abs((drawn.ops[..., 4] != identity).mean() - 0.2) < 0.01
    orders = drawn.ops[jittered][:, :4]
    assert (np.sort(orders, 1) == np.arange(4)).all()
    assert even(np.bincount(orders[:, 0]))
    brightness = drawn.space.values[drawn.space.index("Brightness")]
    assert (brightness.min(), brightness.max()) == (0.6, 1.4)


PEERS = [("randaugment", v2.RandAugment), ("trivialaugment", v2.TrivialAugmentWide)]


@pytest.mark.parametrize(("name", "transform"), PEERS)
def test_operations_equal_torchvisions_on_pillow_images(pictures, name, transform):
    peer = transform()
    chosen = view_source(name).space
    theirs = {ours: ours.replace("Shift", "Translate").replace("Move", "Translate") for ours in chosen.ops}
    assert sorted(theirs.values()) == sorted(peer._AUGMENTATION_SPACE)
    for h, w in [(32, 32), (17, 40), (96, 96), (331, 224), (331, 331)]:
        image = pictures.make("photograph", h, w, 3)
        for op in chosen.ops:
            magnitudes, signed = peer._AUGMENTATION_SPACE[theirs[op]]
            bins = magnitudes(31, h, w)
            for m in range(31) if bins is not None else [0]:
                for sign in (-1, 1) if signed else (1,):
                    value = 0.0 if bins is None else sign * float(bins[m])
                    expected = peer._apply_image_or_video_transform(
                        Image.fromarray(image), theirs[op], value, v2.InterpolationMode.NEAREST, peer._fill
                    )
                    result = apply_op(image, op, 30 + sign * m, space_name=name)
                    assert np.array_equal(result, np.asarray(expected)), (op, m, sign, h, w)


def test_simclrs_colours_equal_torchvisions_on_pillow_images(pictures):
    image = pictures.make("photograph", 40, 40, 3)
    picture = Image.fromarray(image)
    f = v2.functional
    for op, peer in [("Brightness", f.adjust_brightness), ("Contrast", f.adjust_contrast),
                     ("Saturation", f.adjust_saturation), ("Hue", f.adjust_hue)]:  # fmt: skip
        for name in ("simclr", "simclr-wide"):
            chosen = view_source("uniform", space_name=name).space
            for level, value in enumerate(chosen.values[chosen.index(op)].tolist()):
                result = apply_op(image, op, level, space_name=name)
                assert np.array_equal(result, np.asarray(peer(picture, value))), (op, value)
    grey = np.asarray(f.rgb_to_grayscale(picture, num_output_channels=3))
    assert np.array_equal(apply_op(image, "Grayscale", space_name="simclr"), grey)


def test_sampling_is_repeatable_and_leaves_torch_alone():
    state = torch.random.get_rng_state()
    for name in ("random", "uniform", "randaugment", "trivialaugment", "simclr"):
        a, b = (view_source(name).sample(50, np.random.default_rng(4)) for _ in range(2))
        assert a == b
        assert a != view_source(name).sample(50, np.random.default_rng(5))
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_table_is_covered_by_the_spaces():
    from coviews.ops.series_operations import SERIES_OPS
    from coviews.ops.space import SPACES, space

    assert {op for name in SPACES for op in space(name).ops} == {*OPS, *SERIES_OPS}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("radnom", {}, "did you mean 'random'"),
        ("zzz", {}, "there are: random, uniform"),
        ("randaugment", {"magnitud": 3}, "did you mean 'magnitude'"),
        ("randaugment", {"magnitude": 31}, r"0\.\.30"),
        ("randaugment", {"magnitude": 9.5}, r"0\.\.30, not 9\.5"),
        ("uniform", {"steps": 0}, "a whole number from 1"),
        ("uniform", {"views": 2.0}, "a whole number from 1"),
        ("uniform", {"p": 2}, "a probability"),
        ("simclr", {"jitter": -1}, "a probability"),
        ("uniform", {"space_name": "autoaug"}, "did you mean 'autoaugment'"),
    ],
)
def test_bad_names_and_options_are_named(name, options, message):
    with pytest.raises(CoviewsError, match=message):
        view_source(name, **options)
