"""AutoAugment's published policies: what torchvision has, byte for byte."""

import itertools
from collections import Counter

import numpy as np
import pytest

from coviews import CoviewsError, Subpolicies, make_views, space, view_source
from coviews.compat import import_torchvision
from coviews.ops.placement import Placement
from coviews.ops.plan import Plan
from coviews.policies.limits import view_limits
from coviews.policies.published import AUTOAUGMENT, MIDDLE, AutoAugment, published_policy

import_torchvision()
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

BINS = space("autoaugment-bins")
SIGNED = {"ShearX", "ShearY", "ShiftX", "ShiftY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness"}


def peer(dataset):
    return v2.AutoAugment(v2.AutoAugmentPolicy[dataset.upper()])


@pytest.mark.parametrize("dataset", AUTOAUGMENT)
def test_the_tables_are_those_of_torchvision(dataset):
    theirs = [
        tuple((op.replace("Translate", "Shift"), p, m or 0) for op, p, m in pair) for pair in peer(dataset)._policies
    ]
    assert [tuple((s.op, s.probability, s.bin) for s in pair) for pair in published_policy(dataset)] == theirs


def outcomes(dataset):
    """Everything that can come of a policy: the subpolicy, which steps are applied, and the sign of each."""
    for row, pair in enumerate(published_policy(dataset)):
        for applied in itertools.product((True, False), repeat=2):
            yield from (
                (row, pair, applied, signs)
                for signs in itertools.product((1, -1), repeat=2)
                if all(sign == 1 or (on and s.op in SIGNED) for s, on, sign in zip(pair, applied, signs, strict=True))
            )


def scripted(monkeypatch, row, pair, applied, signs):
    """Let torchvision draw this outcome."""
    draws = []
    for step, on, sign in zip(pair, applied, signs, strict=True):
        draws.append(-1.0 if on else 2.0)
        if on and step.op in SIGNED:
            draws.append(0.25 if sign < 0 else 0.75)
    numbers = iter(draws)
    monkeypatch.setattr(torch, "randint", lambda *_: torch.tensor(row))
    monkeypatch.setattr(torch, "rand", lambda *_: torch.tensor(next(numbers)))
    return numbers


@pytest.mark.parametrize("dataset", AUTOAUGMENT)
def test_views_equal_torchvisions_on_pillow_images(pictures, monkeypatch, dataset):
    transform, every = peer(dataset), list(outcomes(dataset))
    names = [[s.op if on else "Identity" for s, on in zip(pair, applied, strict=True)] for _, pair, applied, _ in every]
    ops = np.array([[[BINS.index(op) for op in pair]] for pair in names])
    signed = [[k * s.bin for s, k in zip(pair, signs, strict=True)] for _, pair, _, signs in every]
    subpolicies = Subpolicies(BINS, ops, MIDDLE + np.array(signed)[:, None])
    placement, generator = Placement("none", flip=0.0), np.random.default_rng(0)
    for kind, h, w in [("photograph", 32, 32), ("noise", 17, 40)]:
        image = pictures.make(kind, h, w, 3)
        batch = np.repeat(image[None], len(every), 0)
        views = make_views(batch, Plan.draw(subpolicies, len(every), (h, w), generator, placement))[:, 0]
        for outcome, view in zip(every, views, strict=True):
            left = scripted(monkeypatch, *outcome)
            assert np.array_equal(view, np.asarray(transform(Image.fromarray(image)))), (outcome, h, w)
            assert next(left, None) is None  # all that was scripted was drawn


def test_translations_are_torchvisions_whole_pixels_in_images_of_any_size():
    sides = list(range(1, 700))
    for side in sides:
        theirs = [int(float(x)) for x in torch.linspace(0.0, 150.0 / 331.0 * side, 10)]
        across = BINS.parameters(1, side)[BINS.index("ShiftX"), MIDDLE:, 2]
        assert (-across).astype(int).tolist() == theirs, side


@pytest.mark.parametrize("dataset", AUTOAUGMENT)
def test_subpolicies_are_drawn_as_often_as_published(dataset):
    n = 40_000
    drawn = view_source(f"autoaugment:{dataset}").sample(n, np.random.default_rng(0))
    assert drawn.ops.shape == (n, 2, 2)
    expected = Counter()
    for _, pair, applied, signs in outcomes(dataset):
        share, key = 1 / 25, []
        for step, on, sign in zip(pair, applied, signs, strict=True):
            share *= step.probability if on else 1 - step.probability
            share *= 0.5 if on and step.op in SIGNED else 1.0
            key.append((step.op, sign * step.bin) if on else ("Identity", 0))
        expected[tuple(key)] += share
    ops, levels = drawn.ops.reshape(-1, 2).tolist(), drawn.levels.reshape(-1, 2).tolist()
    observed = Counter(
        tuple((BINS.ops[o], k - MIDDLE if o != BINS.identity else 0) for o, k in zip(a, b, strict=True))
        for a, b in zip(ops, levels, strict=True)
    )
    assert set(observed) <= {key for key, share in expected.items() if share > 0}
    for key, share in expected.items():
        assert abs(observed[key] / (2 * n) - share) < 5 * (share / (2 * n)) ** 0.5 + 1e-9, key


def test_limits_leave_operations_out_and_keep_the_others_as_strong():
    limited = view_limits(forbid="Equalize,Invert", cap="Brightness=1.3").source(view_source("autoaugment:cifar10"))
    assert isinstance(limited, AutoAugment)
    drawn = limited.sample(2000, np.random.default_rng(0))
    assert not {"Equalize", "Invert"} & set(drawn.space.ops)
    rotate, brightness = (drawn.space.values[drawn.space.index(op)] for op in ("Rotate", "Brightness"))
    assert np.array_equal(rotate, BINS.values[BINS.index("Rotate")])
    assert (brightness.min(), brightness.max()) == pytest.approx((0.7, 1.3))


def test_an_unknown_policy_is_named():
    with pytest.raises(CoviewsError, match="did you mean 'autoaugment:"):
        view_source("autoaugment")
    with pytest.raises(CoviewsError, match=r"there are: cifar10, svhn, imagenet"):
        AutoAugment("mnist")
