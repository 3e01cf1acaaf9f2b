"""An encoder judged on images: what the result holds, with labels and without, and that nothing changes."""

import json
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch

from coviews.data.load import load_images
from coviews.encoders.architectures import make_encoder
from coviews.encoders.features import features
from coviews.errors import CoviewsError
from coviews.evaluation.crop_model import CropModel
from coviews.evaluation.feature_sets import pixel_features
from coviews.evaluation.finetune import finetune
from coviews.evaluation.judge import judge
from coviews.evaluation.knn import knn_accuracy
from coviews.evaluation.linear import Diverged, crop_probe, fast_probe, paper_probe
from coviews.evaluation.options import EvaluateOptions
from coviews.evaluation.task import make_task
from coviews.ops.engine import random_crops
from coviews.ops.images import channel_statistics

NAMES = ("dark", "dim", "light", "bright")


@dataclass
class Set:
    images: np.ndarray
    labels: np.ndarray | None
    classes: tuple[str, ...] | None


@pytest.fixture(scope="module")
def shapes():
    """Images whose class is how bright they are: an untrained encoder can see that, and a few images tell it."""
    images = load_images("shapes:600", size=16).images
    brightness = images.mean((1, 2, 3))
    return images, np.digitize(brightness, np.quantile(brightness, [0.25, 0.5, 0.75]))


@pytest.fixture(scope="module")
def train(shapes):
    return Set(shapes[0][:400], shapes[1][:400], NAMES)


@pytest.fixture(scope="module")
def test(shapes):
    return Set(shapes[0][400:], shapes[1][400:], NAMES)


@pytest.fixture(scope="module")
def settings(train):
    mean, std = channel_statistics(train.images)
    return {"mean": mean, "std": std}


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    return make_encoder("resnet8", 16).train()


def fresh():
    return make_encoder("resnet8", 16)


def judged(encoder, train, test=None, *, mean, std, untrained=None, **options):
    options = EvaluateOptions(**{"progress": False, **options})
    return judge(encoder, train, test, options, mean=mean, std=std, untrained=untrained)


def test_everything_is_in_the_result_and_nothing_changes(encoder, train, test, settings, monkeypatch):
    weights = [p.clone() for p in encoder.state_dict().values()]
    generator = torch.random.get_rng_state()
    short = {"untrained": fresh, "whole": True, "paper": True, "finetune": (0.05,)}
    monkeypatch.setattr("coviews.evaluation.judge.paper_probe", partial(paper_probe, epochs=2, lr=1.0))
    monkeypatch.setattr("coviews.evaluation.judge.finetune", partial(finetune, epochs=2))
    made = judged(encoder, train, test, **settings, **short)
    assert all(torch.equal(a, b) for a, b in zip(weights, encoder.state_dict().values(), strict=True))
    assert all(part.training for part in encoder.modules())
    assert all(p.grad is None for p in encoder.parameters())
    assert torch.equal(generator, torch.random.get_rng_state())
    assert json.loads(json.dumps(made)) == made  # plain, and so is what a command prints
    assert made == judged(encoder, train, test, **settings, **short)

    assert made["images"] == {"train": 400, "test": 200, "left_out": 0}
    assert made["features"] == 256
    assert set(made["quality"]) == {"rankme", "spread", "uniformity", "alignment", "rotation"}
    assert made["missing"] == []
    assert made["notes"] == [
        "kNN asks 16 neighbours: 20 in small sets, and at most one for every 25 of 400 training images"
    ]
    assert made["linear"]["accuracy"] > 0.5  # four classes
    assert sum(map(sum, made["confusion"])) == 200
    assert np.trace(made["confusion"]) == 200 * made["linear"]["accuracy"]
    assert [row["class"] for row in made["per_class"]] == list(train.classes)
    for kind in ("knn", "linear"):
        total = sum(row["images"] * row[kind] for row in made["per_class"] if row["images"])
        assert total == pytest.approx(200 * made[kind]["accuracy"])
    assert set(made["baselines"]) == {"untrained", "pixels"}
    assert made["baselines"]["untrained"]["linear"]["accuracy"] > 0.5
    assert made["baselines"]["pixels"]["linear"]["accuracy"] > 0.5
    assert len(made["paper"]["accuracies"]) == 5
    assert made["finetune"]["5%"]["images"] == 20
    assert made["baselines"]["untrained"]["finetune"]["5%"]["images"] == 20

    bank, queries = (features(encoder, s.images, **settings) for s in (train, test))
    wanted = knn_accuracy(bank, train.labels, queries, test.labels, k=made["knn"]["k"])
    assert made["knn"]["k"] == 16
    assert made["knn"]["accuracy"] == pytest.approx(wanted)

    probe = fast_probe(bank, train.labels, queries, test.labels, classes=4)
    assert made["whole"] == {"accuracy": probe.accuracy, "strength": probe.strength}
    assert all(made["baselines"][name]["whole"]["accuracy"] > 0.5 for name in ("untrained", "pixels"))


def test_the_linear_probe_by_hand(encoder, train, test, settings, monkeypatch):
    monkeypatch.setattr("coviews.evaluation.feature_sets.PAIRS", 50)
    bank, queries = (features(encoder, s.images, **settings) for s in (train, test))

    def wanted(known, judged, truth, held_out):
        generator = np.random.default_rng([0, 1])
        few = np.sort(generator.choice(400, 50, replace=False))
        random_crops(train.images[few], generator, flip=0.5, views=2)  # for alignment
        few = few[~np.isin(few, held_out)]
        crops = random_crops(train.images[few], generator, views=2)
        taken = np.concatenate([features(encoder, crops[:, i], **settings) for i in (0, 1)])
        model = CropModel.fit(np.tile(bank[few], (2, 1)), taken)
        probe = crop_probe(model, bank[known], train.labels[known], judged, truth, classes=4)
        return {"accuracy": probe.accuracy, "strength": probe.strength}

    made = judged(encoder, train, test, **settings, baselines=False)
    assert made["linear"] == wanted(np.arange(400), queries, test.labels, [])
    task = make_task(train, None, 0)
    made = judged(encoder, train, **settings, baselines=False)
    assert made["linear"] == wanted(task.train, bank[task.test], train.labels[task.test], task.test)


def test_images_pass_the_encoder_once(encoder, train, test, settings):
    seen = 0

    def count(module, inputs):
        nonlocal seen
        seen += len(inputs[0])

    hook = encoder.register_forward_pre_hook(count)
    judged(encoder, train, test, **settings)
    hook.remove()
    assert seen == 400 + 200 + 2 * 400 + 2 * 400 + 3 * 400  # and two views, two crops, three turns of up to 500 images


def test_without_labels_it_says_what_needs_them(encoder, train, test, settings):
    for sets in ((Set(train.images, None, None), None), (train, Set(test.images, None, None))):
        made = judged(encoder, *sets, **settings, finetune=(0.1,), whole=True, untrained=fresh)
        assert set(made["quality"]) == {"rankme", "spread", "uniformity", "alignment", "rotation"}
        names = [entry["name"] for entry in made["missing"]]
        assert names == ["knn", "linear", "per_class", "confusion", "pixels", "whole", "finetune"]
        assert all("need labels" in entry["reason"] for entry in made["missing"])
        assert "knn" not in made
        assert set(made["baselines"]["untrained"]) == {"quality"}
        assert set(made["baselines"]["untrained"]["quality"]) == set(made["quality"])


def test_without_a_test_set_a_fifth_is_held_out(encoder, train, settings):
    made = judged(encoder, train, **settings, baselines=False)
    assert made["images"] == {"train": 320, "test": 80, "left_out": 0}
    assert sum(map(sum, made["confusion"])) == 80
    assert "held out" in made["notes"][0]
    assert made == judged(encoder, train, **settings, baselines=False)
    assert made["confusion"] != judged(encoder, train, **settings, baselines=False, seed=1)["confusion"]


def test_classes_that_training_lacks_are_left_out(encoder, train, test, settings):
    names = tuple(reversed(train.classes))  # the same classes in another order, one under another name
    labels = len(names) - 1 - test.labels
    same = judged(encoder, train, Set(test.images, labels, names), **settings, baselines=False)
    assert same["linear"] == judged(encoder, train, test, **settings, baselines=False)["linear"]
    other = Set(test.images, labels, ("griffin", *names[1:]))
    with pytest.warns(UserWarning, match="griffin"):
        made = judged(encoder, train, other, **settings, baselines=False)
    lost = int((labels == 0).sum())
    assert made["images"]["left_out"] == lost
    assert sum(map(sum, made["confusion"])) == 200 - lost
    assert made["per_class"][-1] == {"class": train.classes[-1], "images": 0, "knn": None, "linear": None}


def test_a_probe_that_diverges_does_not_lose_the_rest(encoder, train, test, settings, monkeypatch):
    def diverge(*args, **settings):
        raise Diverged("too large")

    monkeypatch.setattr("coviews.evaluation.judge.paper_probe", diverge)
    made = judged(encoder, train, test, **settings, baselines=False, paper=True)
    assert made["missing"] == [{"name": "paper", "reason": "too large"}]
    assert "knn" in made


def test_bad_input_is_told_before_the_work(encoder, train, test, settings):
    class Never(torch.nn.Module):
        def forward(self, x):
            raise AssertionError("no image should have passed")

    with pytest.raises(CoviewsError, match="write a share of the labels"):
        judged(Never(), train, test, **settings, finetune=(10,))
    with pytest.raises(CoviewsError, match="399 training labels for 400"):
        judged(Never(), Set(train.images, train.labels[1:], NAMES), test, **settings)
    with pytest.raises(CoviewsError, match="199 test labels for 200"):
        judged(Never(), train, Set(test.images, test.labels[1:], NAMES), **settings)
    with pytest.raises(CoviewsError, match="no class in common"):
        judged(Never(), train, Set(test.images, test.labels, ("a", "b", "c", "d")), **settings)
    one = judged(encoder, Set(train.images[:30], np.zeros(30, int), NAMES), test, **settings)
    assert "two classes" in one["missing"][0]["reason"]


def test_pixels_are_averaged_down():
    images = np.random.default_rng(0).integers(0, 256, (3, 64, 32, 3), np.uint8)
    made = pixel_features(images).reshape(3, 3, 16, 16)
    assert made[1, 2, 3, 4] == pytest.approx(images[1, 12:16, 8:10, 2].mean())
    small = np.random.default_rng(0).integers(0, 256, (3, 8, 9, 1), np.uint8)
    np.testing.assert_array_equal(pixel_features(small), small.reshape(3, -1))
