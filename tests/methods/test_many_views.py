"""More than two views of each image, of several sizes: what SimCLR makes of them."""

import copy
import itertools

import pytest
import torch
from test_losses import slow_info_nce
from torch import nn

from coviews.methods.method import encode_views
from coviews.methods.simclr import SimCLR


def small_method(seed=0):
    torch.manual_seed(seed)
    encoder = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return SimCLR(encoder, 8)


def several_views(sizes, n=4):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(n, 3, size, size, generator=generator) for size in sizes]


@pytest.mark.parametrize("sizes", [(6, 6), (6, 6, 6), (6, 6, 4, 4, 4), (6, 4)])
def test_the_loss_is_the_mean_over_all_pairs(sizes):
    method, views = small_method(), several_views(sizes)
    with torch.no_grad():
        oracle = copy.deepcopy(method)
        groups = [torch.cat([x for x in views if x.shape[-1] == size]) for size in dict.fromkeys(sizes)]
        projections = oracle.projector(torch.cat([oracle.encoder(group) for group in groups])).chunk(len(sizes))
        pairs = [slow_info_nce(a, b, 0.2) for a, b in itertools.combinations(projections, 2)]
    means = [sum(image) / len(pairs) for image in zip(*pairs, strict=True)]
    losses = method.losses(views)
    assert losses.each.tolist() == pytest.approx(means, abs=1e-5)
    assert losses.embedding.shape == (4 * len(sizes), 8)
    losses.each.mean().backward()
    assert all(p.grad is not None for p in method.parameters())


def test_views_of_one_size_pass_the_encoder_together():
    passes = []

    class Counting(nn.Module):
        def forward(self, x):
            passes.append(tuple(x.shape))
            return x.mean((2, 3))

    views = several_views((6, 6, 4, 4, 4))
    features = encode_views(Counting(), views)
    assert passes == [(8, 3, 6, 6), (12, 3, 4, 4)]
    torch.testing.assert_close(features, torch.cat([x.mean((2, 3)) for x in views]))
