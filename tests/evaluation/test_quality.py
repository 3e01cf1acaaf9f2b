"""Quality without labels against values by hand and slow loops, and results against loops."""

import math

import numpy as np
import pytest

from coviews.errors import CoviewsError
from coviews.evaluation import quality
from coviews.evaluation.labels import accuracy, check_labels, confusion, match_classes, per_class
from coviews.evaluation.quality import alignment, feature_spread, rankme, uniformity


def random(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def test_rankme_by_hand():
    assert rankme(np.eye(7, 5)) == pytest.approx(5, rel=1e-4)  # five equal singular values
    assert rankme(np.ones((9, 6))) == pytest.approx(1, rel=1e-4)
    assert rankme(np.zeros((9, 6))) == pytest.approx(1, rel=1e-4)
    shares = np.array([3, 1]) / 4  # singular values 3 and 1
    wanted = math.exp(-sum(p * math.log(p) for p in shares))
    assert rankme([[3.0, 0, 0], [0, 1, 0]]) == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("shape", [(40, 8), (8, 40)])
def test_rankme_equals_the_formula(shape):
    x = random(*shape)
    values = np.linalg.svd(x.astype(np.float64), compute_uv=False)
    shares = values / values.sum() + 1e-7
    assert rankme(x) == pytest.approx(math.exp(-(shares * np.log(shares)).sum()), rel=1e-6)


def test_alignment_by_hand():
    one, other = [[2.0, 0], [0, 3]], [[0.0, 5], [0, 1]]
    assert alignment(one, other) == pytest.approx((2 + 0) / 2)  # a right angle, and the same direction
    assert alignment(one, [[-1.0, 0], [0, -1]]) == pytest.approx(4)
    with pytest.raises(CoviewsError, match="same images"):
        alignment(one, one[:1])


@pytest.mark.parametrize("n", [2, 17])
def test_uniformity_equals_the_slow_loop(n, monkeypatch):
    monkeypatch.setattr(quality, "_CHUNK", 5 * n)
    z = random(n, 3)
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    pairs = [math.exp(-2 * ((unit[i] - unit[j]) ** 2).sum()) for i in range(n) for j in range(i)]
    assert uniformity(z) == pytest.approx(math.log(sum(pairs) / len(pairs)), rel=1e-5)


def test_uniformity_tells_a_collapse_from_a_sphere():
    assert uniformity(np.ones((50, 4))) == pytest.approx(0, abs=1e-6)
    assert uniformity(random(2000, 256)) == pytest.approx(-4, abs=0.05)  # every pair at a right angle: exp(-2 * 2)
    some = uniformity(random(900, 8), most=300, seed=1)
    assert some == uniformity(random(900, 8), most=300, seed=1)
    assert some == pytest.approx(uniformity(random(900, 8)), abs=0.1)
    with pytest.raises(CoviewsError, match="two images"):
        uniformity(random(1, 4))


def test_spread_is_one_on_a_sphere_and_zero_in_a_point():
    assert feature_spread(random(4000, 64)) == pytest.approx(1, abs=0.02)
    assert feature_spread(np.ones((50, 4))) == pytest.approx(0, abs=1e-6)
    z = random(30, 5)
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    assert feature_spread(z) == pytest.approx(np.mean([unit[:, i].std() for i in range(5)]) * math.sqrt(5), rel=1e-5)


@pytest.mark.parametrize("measure", [rankme, uniformity, feature_spread])
def test_bad_features_are_named(measure):
    x = random(6, 3)
    x[2, 1] = np.nan
    with pytest.raises(CoviewsError, match="1 of 6 images are not finite, first of image 2"):
        measure(x)
    with pytest.raises(CoviewsError, match=r"\(N, D\)"):
        measure(x[:0])


# ------------------------------------------------------------------------------------------ results


def test_confusion_equals_a_loop():
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(-1, 4, 200), rng.integers(0, 4, 200)
    wanted = [[0] * 5 for _ in range(5)]
    for t, p in zip(truth.tolist(), predicted.tolist(), strict=True):
        if t >= 0:
            wanted[t][p] += 1
    matrix = confusion(truth, predicted, 5)
    assert matrix.tolist() == wanted
    shares = per_class(matrix)
    for c in range(4):
        assert shares[c] == np.mean(predicted[truth == c] == c)
    assert np.isnan(shares[4])
    assert accuracy(truth, predicted) == pytest.approx(matrix.trace() / matrix.sum())


def test_bad_labels_are_named():
    with pytest.raises(CoviewsError, match="one each"):
        confusion(np.zeros(3, int), np.zeros(4, int), 2)
    with pytest.raises(CoviewsError, match=r"predicted labels must be 0\.\.1"):
        confusion(np.zeros(3, int), np.array([0, 1, 2]), 2)
    with pytest.raises(CoviewsError, match="known class"):
        accuracy(np.array([-1]), np.array([0]))


def test_classes_are_matched_by_name():
    made = match_classes(("cat", "dog", "owl"), ("owl", "cow", "cat"), np.array([0, 1, 2, 2]))
    assert made.tolist() == [2, -1, 0, 0]
    with pytest.raises(CoviewsError, match=r"test labels must be 0\.\.1"):
        match_classes(("cat",), ("cat", "dog"), np.array([2]))


def test_classes_that_training_lacks_are_named_and_left_out():
    train = np.array([0, 0, 1])  # no image of an owl
    with pytest.warns(UserWarning, match=r"3 of 5 test images are left out.*: owl \(2\), cow \(1\)"):
        made = check_labels(train, ("cat", "dog", "owl"), np.array([2, 0, 0, 1, 3]), ("owl", "cow", "dog", "cat")[:4])
    assert made.tolist() == [1, -1, -1, -1, 0]


def test_equal_classes_say_nothing(recwarn):
    assert check_labels(np.array([0, 1]), ("a", "b"), np.array([1, 0]), ("a", "b")).tolist() == [1, 0]
    assert check_labels(np.array([0, 1]), None, np.array([1, 0]), None).tolist() == [1, 0]
    assert not recwarn.list


def test_sets_without_a_common_class_are_an_error():
    with pytest.raises(CoviewsError, match=r"no class in common: the test set has c \(2\)"):
        check_labels(np.array([0, 1]), ("a", "b"), np.array([0, 0]), ("c",))
