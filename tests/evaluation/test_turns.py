"""The rotation probe: against scikit-learn, and where the answer is known."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from coviews import CoviewsError, evaluate
from coviews.evaluation.turns import rotation_probe, turns


def turned_features(n=80, d=12, spread=1.5, seed=0):
    rng = np.random.default_rng(seed)
    middles = rng.normal(size=(4, d))
    return [(m + spread * rng.normal(size=(n, d))).astype(np.float32) for m in middles]


@pytest.mark.parametrize("spread", [0.5, 1.5, 3.0])
def test_it_equals_scikit_learns_logistic_regression(spread):
    turned = turned_features(spread=spread)
    train, test = (np.concatenate([x[first::2] for x in turned]) for first in (0, 1))
    labels = np.repeat(np.arange(4), 40)
    mean, std = train.mean(0), train.std(0)
    theirs = LogisticRegression(C=1 / (len(train) * 0.1), tol=1e-8, max_iter=5000).fit((train - mean) / std, labels)
    share = float((theirs.predict((test - mean) / std) == labels).mean())
    assert share > 0.3
    assert rotation_probe(*turned) == pytest.approx(share, abs=1e-9)


def test_where_up_can_be_seen_it_is_1_and_where_not_it_is_chance():
    rng = np.random.default_rng(0)
    slope = np.linspace(0, 200, 8)[:, None, None]
    images = (slope + rng.integers(0, 50, (200, 8, 8, 1))).astype(np.uint8)
    noise = rng.integers(0, 256, (200, 8, 8, 1)).astype(np.uint8)
    found = [rotation_probe(*(x.reshape(200, -1) / 255 for x in turns(some))) for some in (images, noise)]
    assert found[0] == 1
    assert abs(found[1] - 0.25) < 0.1


def test_turns_are_counterclockwise():
    image = np.array([[1, 2], [3, 4]], np.uint8)[None, :, :, None]
    assert [x[0, :, :, 0].tolist() for x in turns(image)] == [
        [[1, 2], [3, 4]], [[2, 4], [1, 3]], [[4, 3], [2, 1]], [[3, 1], [4, 2]],
    ]  # fmt: skip


def test_one_image_is_too_few():
    with pytest.raises(CoviewsError, match="two images at least"):
        rotation_probe(*(np.ones((1, 3), np.float32) for _ in range(4)))


def test_images_that_are_not_square_are_named():
    import torch

    encoder = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten())
    rng = np.random.default_rng(0)
    for width, names in ((8, []), (10, ["rotation"])):
        images = rng.integers(0, 256, (40, 8, width, 3), np.uint8)
        results = evaluate(encoder, images, baselines=False, progress=False).results
        assert ("rotation" in results["quality"]) == (not names)
        assert [m["name"] for m in results["missing"] if "square" in m["reason"]] == names
