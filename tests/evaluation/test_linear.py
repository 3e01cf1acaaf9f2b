"""Probes against scikit-learn, the paper's protocol on what can be separated, fine-tuning, and balanced parts."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from coviews.data.load import load_images
from coviews.encoders.architectures import make_encoder
from coviews.encoders.features import features
from coviews.errors import CoviewsError
from coviews.evaluation.crop_model import CropModel
from coviews.evaluation.finetune import finetune
from coviews.evaluation.labels import balanced_parts, balanced_share
from coviews.evaluation.linear import Diverged, crop_probe, fast_probe, paper_probe
from coviews.ops.engine import random_crops
from coviews.ops.images import channel_statistics


def clouds(n, seed=0, d=20, classes=5, noise=3.0):
    """Classes that overlap, in features of very different scales and with an offset."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    fixed = np.random.default_rng(99)
    centres, mixing = fixed.normal(size=(classes, d)), fixed.normal(size=(d, d)) * np.geomspace(1, 100, d)
    return ((centres[labels] + noise * rng.normal(size=(n, d))) @ mixing + 50).astype(np.float32), labels


def objective(x, labels, weight, bias, strength):
    """Mean cross-entropy and penalty, in double precision."""
    logits = x @ weight.T + bias
    logits -= logits.max(1, keepdims=True)
    loss = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(x)), labels]
    return loss.mean() + strength / 2 * np.square(weight).sum()


@pytest.mark.parametrize("strength", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize(("n", "d"), [(400, 20), (60, 150)])
def test_the_fast_probe_is_scikit_learns(n, d, strength):
    x, labels = clouds(n, d=d)
    test, _ = clouds(500, seed=1, d=d)
    probe = fast_probe(x, labels, test, classes=5, strengths=[strength])
    mean, std = x.mean(0, dtype=np.float64), x.std(0, dtype=np.float64)
    z = (x - mean) / std
    theirs = LogisticRegression(C=1 / (n * strength), tol=1e-8, max_iter=5000).fit(z, labels)
    ours = objective(z, labels, probe.weight * std, probe.bias + probe.weight @ mean, strength)
    best = objective(z, labels, theirs.coef_, theirs.intercept_, strength)
    assert ours == pytest.approx(best, abs=2e-5)
    assert (theirs.predict((test - mean) / std) == probe.predictions).mean() > 0.99
    assert probe.strength == strength


def test_the_strength_is_chosen_by_what_is_held_out():
    x, labels = clouds(300, d=60)
    test, truth = clouds(2000, seed=1, d=60)
    chosen = fast_probe(x, labels, test, truth, classes=5)
    weak = fast_probe(x, labels, test, truth, classes=5, strengths=[1e-6])
    assert chosen.accuracy > weak.accuracy + 0.01  # 300 images cannot do without a penalty
    assert chosen.accuracy == (chosen.predictions == truth).mean()
    again = fast_probe(x, labels, test, truth, classes=5)
    np.testing.assert_array_equal(chosen.weight, again.weight)
    np.testing.assert_array_equal(chosen.scores(test).argmax(1), chosen.predictions)


def test_the_probe_takes_constant_features_few_images_and_absent_classes():
    x, labels = clouds(12)
    x[:, 3] = 7
    probe = fast_probe(x, labels, x, labels, classes=9)
    assert probe.accuracy > 0.9
    assert (probe.weight[:, 3] == 0).all()
    assert fast_probe(x, labels, x, np.where(labels == 0, -1, labels), classes=9).accuracy > 0.9


def test_bad_probes_are_named():
    x, labels = clouds(30)
    with pytest.raises(CoviewsError, match="20 features an image, the test 19"):
        fast_probe(x, labels, x[:, 1:], classes=5)
    with pytest.raises(CoviewsError, match=r"0\.\.2"):
        fast_probe(x, labels, x, classes=3)
    with pytest.raises(CoviewsError, match="two classes"):
        fast_probe(x, np.zeros(30, int), x, classes=1)
    bad = x.copy()
    bad[4, 4] = np.inf
    with pytest.raises(CoviewsError, match="training features of 1 of 30 images are not finite, first of image 4"):
        fast_probe(bad, labels, x, classes=5)
    with pytest.raises(CoviewsError, match="features of 1 of 30"):
        fast_probe(x, labels, bad, classes=5)


# --------------------------------------------------------------------------- on images, with an encoder


@pytest.fixture(scope="module")
def shapes():
    """Images whose class is how bright they are: an untrained encoder can see that, and a few images tell it."""
    images = load_images("shapes:600", size=16).images
    brightness = images.mean((1, 2, 3))
    labels = np.digitize(brightness, np.quantile(brightness, [0.25, 0.5, 0.75]))
    return images[:450], labels[:450], images[450:], labels[450:]


@pytest.fixture(scope="module")
def statistics(shapes):
    return channel_statistics(shapes[0])


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    return make_encoder("resnet8", 16).train()


def state(module):
    return [p.clone() for p in module.state_dict().values()], [m.training for m in module.modules()]


def unchanged(module, before):
    weights, modes = before
    return modes == [m.training for m in module.modules()] and all(
        torch.equal(a, b) for a, b in zip(weights, module.state_dict().values(), strict=True)
    )


def test_the_crop_model_finds_what_crops_do():
    g = np.random.default_rng(0)
    whole = g.normal(3, 2, (4_000, 4)).astype(np.float32)
    whole[:, 3] = 5
    slope, shift, noise = np.array([0.5, -1, 0, 0]), np.array([1, 2, 3, 4]), np.array([[1, 0, 0, 0], [0.5, 0, 1, 0]])
    crops = (whole * slope + shift + g.standard_normal((4_000, 2)) @ noise).astype(np.float32)
    model = CropModel.fit(whole, crops)
    np.testing.assert_allclose(model.slope, slope, atol=0.03)
    np.testing.assert_allclose(model.shift, shift, atol=0.1)
    np.testing.assert_allclose(np.cov(model.residuals.T), noise.T @ noise, atol=0.1)
    drawn = model.draw(whole, g)
    assert drawn.dtype == np.float32
    np.testing.assert_allclose(drawn.mean(0), crops.mean(0), atol=0.1)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(crops.T), atol=0.25)
    residuals = drawn - whole * model.slope - model.shift  # whole rows of them, so that features go on together
    assert np.isclose(residuals[:20, None], model.residuals[None], atol=1e-4).all(2).any(1).all()


def test_the_probe_leans_on_what_crops_leave():
    g = np.random.default_rng(0)
    labels = g.integers(2, size=2_000)
    x = (g.normal(size=(2_000, 2)) + 2 * labels[:, None]).astype(np.float32)  # either feature tells the class
    crops = x.copy()
    crops[:, 0] += 20 * g.standard_normal(2_000)
    probe = crop_probe(CropModel.fit(x, crops), x, labels, x, labels, classes=2)
    lost, kept = np.abs(probe.weight[1] - probe.weight[0])
    assert lost < 0.1 * kept
    whole = fast_probe(x, labels, x, labels, classes=2)
    assert whole.accuracy > probe.accuracy > 0.8


def test_of_few_images_the_probe_learns_from_several_crops():
    seen = []

    class Counted(CropModel):
        def draw(self, features, generator):
            seen.append(len(features))
            return super().draw(features, generator)

    g = np.random.default_rng(0)
    for n, copies in ((50, 10), (4_000, 4), (30_000, 1)):
        labels = g.integers(2, size=n)
        x = (g.normal(size=(n, 3)) + 4 * labels[:, None]).astype(np.float32)
        model = Counted.fit(x[:50], x[:50])  # crops that change nothing
        probe = crop_probe(model, x, labels, x, labels, classes=2)
        assert seen == [n] * copies
        assert probe.accuracy > 0.99
        seen.clear()


def test_the_papers_probe_agrees_with_the_fast_one(encoder, shapes, statistics):
    before, generator = state(encoder), torch.random.get_rng_state()
    made = paper_probe(encoder, *shapes, *statistics, classes=4, epochs=60, heads=3)
    assert unchanged(encoder, before)
    assert torch.equal(generator, torch.random.get_rng_state())
    assert all(p.grad is None for p in encoder.parameters())
    train, test = features(encoder, shapes[0], *statistics), features(encoder, shapes[2], *statistics)
    crops = random_crops(shapes[0], np.random.default_rng(0))[:, 0]
    model = CropModel.fit(train, features(encoder, crops, *statistics))
    fast = crop_probe(model, train, shapes[1], test, shapes[3], classes=4)
    assert len(made.accuracies) == 3
    assert made.mean == pytest.approx(np.mean(made.accuracies))
    assert made.std == pytest.approx(np.std(made.accuracies, ddof=1))
    assert made.mean > 0.5  # four classes
    assert made.mean == pytest.approx(fast.accuracy, abs=0.1)  # 150 images: one deviation is 0.04


def test_heads_do_not_depend_on_how_many_there_are(encoder, shapes, statistics):
    few = [x[:60] for x in shapes]
    make = {"classes": 4, "epochs": 2, "lr": 1.0, "batch": 16}
    three = paper_probe(encoder, *few, *statistics, heads=3, **make)
    assert three == paper_probe(encoder, *few, *statistics, heads=3, **make)
    one = paper_probe(encoder, *few, *statistics, heads=1, **make)
    assert one.accuracies[0] == three.accuracies[0]
    assert one.std == 0


def test_one_head_equals_torchs_sgd(shapes):
    """Without crops, a head is `nn.Linear` with `torch.optim.SGD` on the same order of images."""
    images, labels, test, truth = (x[:40] for x in shapes)
    encoder, mean, std = nn.Sequential(nn.AvgPool2d(8), nn.Flatten()), (0.5,) * 3, (0.25,) * 3
    made = paper_probe(
        encoder, images, labels, test, truth, mean, std, classes=4, epochs=4, heads=1, lr=0.5, batch=16, crop=None
    )
    x, q = (nn.functional.normalize(torch.from_numpy(features(encoder, i, mean, std)), dim=1) for i in (images, test))
    generator = np.random.default_rng([0, 1, 0])
    head = nn.Linear(12, 4)
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(generator.normal(0, 0.01, (4, 13))[:, :12]))
        head.bias.zero_()
    optimizer = torch.optim.SGD(head.parameters(), 0.5, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
    for _ in range(4):
        total = 0.0
        for chosen in torch.from_numpy(generator.permutation(40)).split(16):
            loss = nn.functional.cross_entropy(head(x[chosen]), torch.from_numpy(labels[chosen]))
            total += len(chosen) * loss.item() / 40
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    assert made.loss == pytest.approx(total, rel=1e-4)
    assert made.accuracies[0] == (head(q).argmax(1).numpy() == truth).mean()


def test_steps_that_are_too_large_are_told(shapes):
    class Loud(nn.Module):
        factor = 1e4

        def forward(self, x):
            return self.factor * x.flatten(1)

    few, loud = [x[:80] for x in shapes], Loud()
    with pytest.warns(UserWarning, match="has not settled"):
        paper_probe(loud, *few, (0.5,) * 3, (0.25,) * 3, classes=4, epochs=2, unit=False)
    loud.factor = 1e25
    with pytest.raises(Diverged, match="smaller lr than 30"):
        paper_probe(loud, *few, (0.5,) * 3, (0.25,) * 3, classes=4, epochs=2, unit=False)


def test_fine_tuning_trains_a_copy(encoder, shapes, statistics):
    encoder.blocks[0].eval().requires_grad_(False)
    try:
        before, generator = state(encoder), torch.random.get_rng_state()
        made = finetune(encoder, *shapes, *statistics, classes=4, fraction=0.5, epochs=6, crop=None, seed=3)
        assert unchanged(encoder, before)
        assert not encoder.blocks[0].first[0].weight.requires_grad
        assert all(p.grad is None for p in encoder.parameters())
        assert torch.equal(generator, torch.random.get_rng_state())
    finally:
        encoder.train().requires_grad_(True)
    assert made.images == 225
    assert made.accuracy == (made.predictions == shapes[3]).mean()
    assert made.accuracy > 0.5  # four classes


def test_fine_tuning_repeats_itself_with_dropout_too(shapes, statistics):
    encoder = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Dropout(0.5))
    few = [x[:40] for x in shapes]
    make = {"classes": 4, "fraction": 0.5, "epochs": 3}
    one, two = (finetune(encoder, *few, *statistics, **make) for _ in range(2))
    np.testing.assert_array_equal(one.predictions, two.predictions)
    other = finetune(encoder, *few, *statistics, seed=1, **make)
    assert not np.array_equal(one.predictions, other.predictions)


def test_bad_fine_tuning_is_named(encoder, shapes, statistics):
    with pytest.raises(CoviewsError, match="share of the images"):
        finetune(encoder, *shapes, *statistics, classes=4, fraction=10)
    with pytest.raises(CoviewsError, match="two labelled images"):
        finetune(encoder, *(x[:1] for x in shapes), *statistics, classes=4, fraction=0.5)
    with pytest.raises(CoviewsError, match="450 images"):
        finetune(encoder, shapes[0], shapes[1][:3], *shapes[2:], *statistics, classes=4, fraction=0.5)


# -------------------------------------------------------------------------------------------- parts


def test_a_share_holds_every_class_in_proportion():
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [500, 300, 200]))
    chosen = balanced_share(labels, 0.1, np.random.default_rng(1))
    assert np.bincount(labels[chosen]).tolist() == [50, 30, 20]
    assert (np.diff(chosen) > 0).all()
    np.testing.assert_array_equal(chosen, balanced_share(labels, 0.1, np.random.default_rng(1)))
    assert not np.array_equal(chosen, balanced_share(labels, 0.1, np.random.default_rng(2)))
    np.testing.assert_array_equal(balanced_share(labels, 1, np.random.default_rng(1)), np.arange(1000))


def test_a_share_can_hold_every_class():
    labels = np.array([0] * 200 + [1, 2, 2])
    chosen = balanced_share(labels, 0.01, np.random.default_rng(0), every_class=True)
    assert set(labels[chosen]) == {0, 1, 2}
    assert len(chosen) <= 4


def test_parts_hold_every_class_in_proportion():
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [50, 31, 20]))
    part = balanced_parts(labels, 10, np.random.default_rng(1))
    assert set(np.bincount(part).tolist()) <= {10, 11}
    counts = np.stack([np.bincount(labels[part == i], minlength=3) for i in range(10)])
    assert (np.ptp(counts, 0) <= 1).all()
