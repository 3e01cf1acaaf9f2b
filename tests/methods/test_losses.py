"""Losses against slow double loops, and pixels against the plain formula."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from coviews.encoders.pixels import to_tensors
from coviews.errors import CoviewsError
from coviews.methods import losses as losses_module
from coviews.methods.losses import bank_nce, chance_loss, info_nce
from coviews.ops.images import channel_statistics


def slow_info_nce(z1, z2, temperature):
    """The paper's formula, term by term."""

    def sim(a, b):
        dot = sum(x * y for x, y in zip(a, b, strict=True))
        return dot / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(y * y for y in b))

    views = [*z1.tolist(), *z2.tolist()]
    n = len(z1)
    losses = []
    for i in range(n):
        total = 0.0
        for a, b in ((i, n + i), (n + i, i)):
            others = sum(math.exp(sim(views[a], views[k]) / temperature) for k in range(2 * n) if k != a)
            total -= math.log(math.exp(sim(views[a], views[b]) / temperature) / others)
        losses.append(total / 2)
    return losses


@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_info_nce_equals_the_slow_oracle(n, temperature):
    g = torch.Generator().manual_seed(n)
    z1, z2 = (torch.randn(n, 5, generator=g, dtype=torch.float64) for _ in range(2))
    made = info_nce(z1, z2, temperature)
    assert made.shape == (n,)
    assert made.tolist() == pytest.approx(slow_info_nce(z1, z2, temperature), abs=1e-10)


@pytest.mark.parametrize(
    ("dtype", "temperature", "tolerance"), [(torch.float32, 0.5, 1e-6), (torch.float64, 0.1, 1e-12)]
)
@pytest.mark.parametrize(("n", "block"), [(1, 1), (7, 14 * 5), (32, 64 * 10), (32, 64 * 63)])
def test_blocks_give_the_same_loss_and_gradient(n, block, dtype, temperature, tolerance, monkeypatch):
    g = torch.Generator().manual_seed(n)
    z1, z2 = (torch.randn(n, 8, generator=g, dtype=dtype) for _ in range(2))
    z2 += 2 * z1
    weights = torch.rand(n, generator=g, dtype=dtype)  # a gradient of its own for each pair
    results = []
    for numbers in (losses_module.BLOCK, block):
        monkeypatch.setattr(losses_module, "BLOCK", numbers)
        both = [z.clone().requires_grad_() for z in (z1, z2)]
        each = info_nce(*both, temperature)
        (each * weights).sum().backward()
        results.append([each.detach(), *(z.grad for z in both)])
    for plain, in_blocks in zip(*results, strict=True):
        torch.testing.assert_close(in_blocks, plain, atol=tolerance, rtol=tolerance)


def test_similarities_of_large_batches_are_never_in_memory_at_once(monkeypatch):
    old, sizes = losses_module._others, []

    def spy(logits, first):
        sizes.append(logits.numel())
        return old(logits, first)

    monkeypatch.setattr(losses_module, "_others", spy)
    info_nce(*torch.randn(2, 128, 4))
    assert sizes == [256 * 256]  # at once, as ever
    monkeypatch.setattr(losses_module, "BLOCK", 10_000)
    info_nce(*torch.randn(2, 128, 4))
    assert max(sizes[1:]) <= 10_000
    assert sum(sizes[1:]) == 256 * 256


def test_a_pair_that_lost_its_image_is_at_chance():
    same = torch.ones(128, 8)
    assert info_nce(same, same).tolist() == pytest.approx([chance_loss(128)] * 128, rel=1e-5)
    assert chance_loss(128) == pytest.approx(5.54, abs=0.01)


def test_info_nce_is_stable_at_extremes():
    z = torch.eye(4) * 1e4
    assert torch.isfinite(info_nce(z, -z, 0.01)).all()


def slow_bank_nce(queries, keys, bank, temperature):
    """The formula, term by term."""

    def score(a, b):
        return math.exp(sum(x * y for x, y in zip(a, b, strict=True)) / temperature)

    queries, keys, bank = queries.tolist(), keys.tolist(), bank.tolist()
    losses = []
    for query, key in zip(queries, keys, strict=True):
        others = sum(score(query, other) for other in bank)
        losses.append(-math.log(score(query, key) / (score(query, key) + others)))
    return losses


@pytest.mark.parametrize("temperature", [0.1, 0.5])
@pytest.mark.parametrize(("n", "size"), [(1, 1), (3, 8), (5, 2)])
def test_bank_nce_equals_the_slow_oracle(n, size, temperature):
    g = torch.Generator().manual_seed(n)
    q, k, bank = (F.normalize(torch.randn(m, 5, generator=g, dtype=torch.float64), dim=1) for m in (n, n, size))
    made = bank_nce(q, k, bank, temperature)
    assert made.shape == (n,)
    assert made.tolist() == pytest.approx(slow_bank_nce(q, k, bank, temperature), abs=1e-10)


def test_low_precision_of_the_layers_does_not_reach_the_losses():
    g = torch.Generator().manual_seed(0)
    a, b, bank = (F.normalize(torch.randn(m, 64, generator=g), dim=1) for m in (8, 8, 32))
    plain = info_nce(a, b), bank_nce(a, b, bank)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = info_nce(a, b), bank_nce(a, b, bank)
    for x, y in zip(plain, mixed, strict=True):
        assert y.dtype == torch.float32
        assert torch.equal(x, y)


@pytest.mark.parametrize("shape", [(5, 2, 6, 7, 3), (5, 3, 6, 7, 1), (5, 2, 6, 7)])
def test_tensors_are_the_normalised_views(shape):
    views = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    mean, std = [0.2, 0.4, 0.6], [0.1, 0.2, 0.3]
    made = to_tensors(views, mean, std)
    assert len(made) == shape[1]
    c = shape[4] if len(shape) == 5 else 1
    for v, tensor in enumerate(made):
        plain = views[:, v].reshape(5, 6, 7, c) / 255
        wanted = ((plain - mean[:c]) / std[:c]).transpose(0, 3, 1, 2)
        assert tensor.dtype == torch.float32
        np.testing.assert_allclose(tensor.numpy(), wanted, atol=1e-5)


def test_channel_statistics_equal_numpy():
    images = np.random.default_rng(0).integers(0, 200, (9, 4, 5, 3), np.uint8)
    mean, std = channel_statistics(images)
    np.testing.assert_allclose(mean, images.mean((0, 1, 2)) / 255)
    np.testing.assert_allclose(std, images.std((0, 1, 2)) / 255, rtol=1e-6)
    assert channel_statistics(np.zeros((1, 2, 2), np.uint8))[1][0] > 0


@pytest.mark.parametrize(
    ("z1", "z2", "message"),
    [
        ({"features": torch.ones(4, 3)}, {"features": torch.ones(4, 3)}, "not dict: take the features out of it"),
        (torch.ones(4, 3), torch.ones(5, 3), r"one shape \(N, D\), not \(4, 3\) and \(5, 3\)"),
        (torch.ones(4, 3, 2, 2), torch.ones(4, 3, 2, 2), r"one shape \(N, D\), not \(4, 3, 2, 2\)"),
    ],
)
def test_what_an_encoder_of_ones_own_may_give(z1, z2, message):
    with pytest.raises(CoviewsError, match=message):
        info_nce(z1, z2)
