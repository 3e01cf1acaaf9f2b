"""VICReg against lightly's loss."""

import pytest
import torch
from torch import nn

from coviews.compat import import_torchvision
from coviews.methods.vicreg import VICReg, VICRegSettings

import_torchvision()  # lightly imports it
VICRegLoss = pytest.importorskip("lightly.loss").VICRegLoss


@pytest.mark.parametrize("weights", [(25.0, 25.0, 1.0), (1.0, 2.0, 3.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)])
def test_the_loss_and_its_gradient_are_those_of_lightly(weights):
    torch.manual_seed(0)
    options = dict(zip(("invariance", "variance", "covariance"), weights, strict=True))
    method = VICReg(nn.Flatten(), 12, VICRegSettings(**options))
    views = torch.randn(2, 7, 3, 2, 2)
    losses = method.losses(list(views))
    losses.each.mean().backward()
    gradients = [p.grad.clone() for p in method.parameters()]
    method.zero_grad()
    expected = VICRegLoss(*weights)(*method.project(views.flatten(0, 1)).chunk(2))
    expected.backward()
    torch.testing.assert_close(losses.each.mean(), expected)
    for p, gradient in zip(method.parameters(), gradients, strict=True):
        torch.testing.assert_close(gradient, p.grad, rtol=1e-4, atol=1e-5)
    assert losses.each.shape == (7,)
