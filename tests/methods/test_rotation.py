"""Rotation prediction: it learns which way is up, and refuses views that do not show it."""

import pytest
import torch
from torch import nn

from coviews import CoviewsError
from coviews.methods.rotation import Rotation
from coviews.runs.settings import PretrainSettings


def test_it_learns_which_way_is_up():
    """Images that are bright on top: every turn can be told, and is."""
    generator = torch.Generator().manual_seed(0)
    slope = torch.linspace(1, -1, 8)[:, None].expand(8, 8)

    def draw(n=16):
        return slope + torch.randn(n, 3, 8, 8, generator=generator)

    torch.manual_seed(0)
    method = Rotation(nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.BatchNorm1d(16), nn.ReLU()), 16)
    optimizer = torch.optim.SGD(method.parameters(), 0.1, momentum=0.9)
    history = []
    for _ in range(30):
        loss = method.losses([draw(), draw()]).each.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    assert history[0] > 1.2  # log 4 = 1.39 is guessing
    assert sum(history[-5:]) / 5 < 0.2


def test_features_are_those_of_the_upright_views():
    torch.manual_seed(0)
    method, views = Rotation(nn.Flatten(), 12), torch.randn(2, 4, 3, 2, 2)
    losses = method.losses(list(views))
    assert torch.equal(losses.features, views.flatten(0, 1).flatten(1))
    assert losses.each.shape == (4,)


def test_the_shape_of_a_view_must_not_give_the_turn_away():
    with pytest.raises(CoviewsError, match="rotation needs square views, and these have 2 x 4 pixels"):
        Rotation(nn.Flatten(), 24).losses(list(torch.zeros(2, 4, 3, 2, 4)))


@pytest.mark.parametrize("turned", [{"flip_vertical": 0.5}, {"quarter_turns": 0.1}, {"views": "crop small, turns"}])
def test_views_that_are_turned_are_refused(turned):
    with pytest.raises(CoviewsError, match="rotation learns where up is"):
        PretrainSettings(**turned).replaced(method="rotation")
    PretrainSettings(views="crop small, turns", flip_vertical=0.0, quarter_turns=0.0).replaced(method="rotation")
