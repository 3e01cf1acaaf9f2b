"""The keeping head: it recovers differences that the features hold, and nothing from features that hold none."""

import pytest
import torch
from test_methods import NAMES, made, state, views

from coviews import CoviewsError
from coviews.methods.keeping import GROUPS, KeepingHead, KeepSettings, squared_errors


def fitted_head(told: float, steps=300):
    """The share of the variance of four known differences that a head predicts for new pairs.

    told: how much of the differences the features hold.
    """
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(4, 16, generator=generator)

    def pairs(n):
        """Features of two views that hold what was done to each, among other things; and the differences."""
        done = torch.randn(2, n, 4, generator=generator) / 2**0.5
        image = torch.randn(n, 16, generator=generator)
        return (told * done @ mixing + image).flatten(0, 1), done[0] - done[1]

    torch.manual_seed(0)
    head = KeepingHead(16, ["colour", "colour", "colour", "flip"], weight=5)
    optimizer = torch.optim.SGD(head.parameters(), 0.1, momentum=0.9)
    for _ in range(steps):
        features, differences = pairs(128)
        optimizer.zero_grad()
        squared_errors(head(features), differences).mean().backward()
        optimizer.step()
    features, differences = pairs(1000)
    with torch.no_grad():
        return 1 - squared_errors(head(features), differences) / differences.square().mean(0)


def test_the_head_recovers_known_differences():
    assert fitted_head(1.0).min() > 0.9


def test_it_recovers_none_that_the_features_do_not_hold():
    assert fitted_head(0.0).max() < 0.1


def test_the_weight_is_that_of_the_gradient_in_the_features_alone():
    features, differences = torch.randn(6, 8), torch.randn(3, 2)
    gradients = {}
    for weight in (1.0, 5.0):
        torch.manual_seed(0)
        head, x = KeepingHead(8, ["crop", "crop"], weight), features.clone().requires_grad_()
        squared_errors(head(x), differences).mean().backward()
        gradients[weight] = x.grad, [p.grad for p in head.parameters()]
    torch.testing.assert_close(gradients[5.0][0], 5 * gradients[1.0][0])
    torch.testing.assert_close(gradients[5.0][1], gradients[1.0][1])


@pytest.mark.parametrize("name", NAMES)
def test_every_method_gives_the_features_of_its_views(name):
    """With their gradient, from the one pass that its own loss has made."""
    method, (x1, x2) = made(name), views()
    before = state(method)
    batch = [x1, x2]
    if name == "rotation":  # turned views share their pass, and BatchNorm's statistics
        batch = [torch.rot90(x, turns, (2, 3)) for turns in range(4) for x in (x1, x2)]
    features = method.encoder(torch.cat(batch))[: 2 * len(x1)]
    method.load_state_dict(before)  # BatchNorm's statistics
    passes = []
    method.encoder.register_forward_hook(lambda *_: passes.append(1))
    losses = method.losses([x1, x2])
    assert len(passes) == 1
    torch.testing.assert_close(losses.features, features)
    head = KeepingHead(16, ["colour"])
    squared_errors(head(losses.features), torch.ones(4, 1)).mean().backward()
    assert all(p.grad is not None for p in method.encoder.parameters())


def test_settings():
    assert KeepSettings().groups == GROUPS
    assert KeepSettings(what="flip, colour").groups == ("colour", "flip")
    with pytest.raises(CoviewsError, match="did you mean 'colour'"):
        KeepSettings(what="color")
    with pytest.raises(CoviewsError, match="--keep must be 0 or more"):
        KeepSettings(weight=-1)
