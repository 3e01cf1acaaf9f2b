"""The viewmaker: views within the ball, learned against an encoder, kept in a file."""

import pytest
import safetensors.torch
import torch
from torch import nn

import coviews
from coviews import CoviewsError
from coviews.methods.simclr import SimCLR
from coviews.methods.view_network import against
from coviews.methods.viewmaker import Viewmaker, bounded


def small(channels=3, budget=0.05, seed=0):
    torch.manual_seed(seed)
    return Viewmaker(channels, budget, width=4, blocks=1)


def images(n=6, channels=3, size=(12, 12), seed=1):
    return torch.rand(n, channels, *size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("budget", [0.01, 0.05, 0.4, 1.0])
@pytest.mark.parametrize(("channels", "size"), [(1, (12, 12)), (3, (9, 14)), (7, (8, 31))])
def test_views_are_within_the_ball_and_the_range(channels, size, budget):
    viewmaker, x = small(channels, budget), images(8, channels, size)
    x[0], x[1] = 0, 1  # at the ends of the range
    for scale in (1.0, 1e-4, 1e4):  # whatever the network has learned
        with torch.no_grad():
            viewmaker.last.weight.mul_(scale)
            views = viewmaker(x)
        assert views.shape == x.shape
        assert 0 <= views.min() <= views.max() <= 1
        change = (views - x).abs().mean((1, 2, 3))
        assert (change <= budget * (1 + 1e-5)).all()
        assert change.max() > 0


def test_the_bound_is_the_radius_of_an_l1_ball():
    some = (
        torch.randn(5, 2, 3, 4, generator=torch.Generator().manual_seed(0))
        * torch.logspace(-3, 3, 5)[:, None, None, None]
    )
    projected = bounded(some, 0.1)
    for before, after in zip(some, projected, strict=True):
        assert sum(abs(v) for v in after.flatten().tolist()) == pytest.approx(0.1 * 24, rel=1e-5)
        torch.testing.assert_close(after / after.abs().max(), before / before.abs().max())
    assert torch.equal(bounded(torch.zeros(1, 1, 2, 2), 0.1), torch.zeros(1, 1, 2, 2))


def test_each_view_is_another_one_and_the_same_noise_gives_the_same():
    viewmaker, x = small(), images()
    first, second = viewmaker(x), viewmaker(x)
    assert (first - second).abs().mean() > 1e-4
    again = [viewmaker(x, torch.Generator().manual_seed(3)) for _ in range(2)]
    assert torch.equal(*again)


def test_the_gradient_is_that_of_the_loss_with_the_other_sign():
    x = torch.randn(4, requires_grad=True)
    assert torch.equal(against(x), x)
    (against(x) ** 2).sum().backward()
    torch.testing.assert_close(x.grad, -2 * x.detach())


def played(steps, *, viewmaker_learns, encoder_learns):
    """The loss over steps of a game in which one or both learn; both start the same in every game."""
    viewmaker = small(budget=0.1)
    encoder = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 8, 3, 2), nn.Flatten())
    method, x = SimCLR(encoder, 32), images(24)
    against_it = torch.optim.Adam(viewmaker.parameters(), 1e-2)
    for_it = torch.optim.SGD(method.parameters(), 0.1, momentum=0.9)
    history = []
    for step in range(steps):
        torch.manual_seed(step)
        losses = method.losses([against(viewmaker(x)), against(viewmaker(x))])
        against_it.zero_grad(), for_it.zero_grad()
        losses.each.mean().backward()
        if viewmaker_learns:
            against_it.step()
        if encoder_learns:
            for_it.step()
        history.append(losses.each.mean().item())
    return history


def test_the_viewmaker_raises_the_loss_and_the_encoder_lowers_it():
    raised = played(30, viewmaker_learns=True, encoder_learns=False)
    lowered = played(30, viewmaker_learns=False, encoder_learns=True)
    both = played(30, viewmaker_learns=True, encoder_learns=True)
    assert raised[0] == lowered[0] == both[0]
    assert raised[-1] > raised[0] + 0.1
    assert lowered[-1] < lowered[0] - 0.1
    assert both[-1] < raised[-1]


def test_a_file_gives_the_same_viewmaker(tmp_path):
    viewmaker, x = small(2, 0.2).eval(), images(3, 2)
    viewmaker.save(tmp_path / "viewmaker.safetensors")
    for path in (tmp_path, tmp_path / "viewmaker.safetensors"):
        loaded = coviews.load_viewmaker(path)
        assert (loaded.channels, loaded.budget, loaded.training) == (2, 0.2, False)
        assert torch.equal(*(v(x, torch.Generator().manual_seed(0)) for v in (viewmaker, loaded)))


def test_wrong_files_and_images_are_named(tmp_path):
    with pytest.raises(CoviewsError, match="there is no viewmaker file"):
        coviews.load_viewmaker(tmp_path)
    file = tmp_path / "viewmaker.safetensors"
    file.write_bytes(safetensors.torch.save({"a": torch.zeros(2)}, {"coviews": '{"format": 1, "channels": 99}'}))
    with pytest.raises(CoviewsError, match="cannot use the viewmaker file"):
        coviews.load_viewmaker(file)
    weights = {k: v * float("nan") for k, v in small().state_dict().items()}
    text = '{"format": 1, "channels": 3, "budget": 0.05, "width": 4, "blocks": 1}'
    file.write_bytes(safetensors.torch.save(weights, {"coviews": text}))
    with pytest.raises(CoviewsError, match="not made of finite"):
        coviews.load_viewmaker(file)
    with pytest.raises(CoviewsError, match="8 pixels a side, not 4 x 12"):
        small()(images(size=(4, 12)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"viewmaker_budget": 0.0}, "--viewmaker-budget must be above 0"),
        ({"viewmaker_budget": float("nan")}, "--viewmaker-budget must be above 0"),
        ({"viewmaker_lr": -1.0}, "--viewmaker-lr must be from 0"),
        ({"viewmaker_source": "recipee"}, "did you mean 'recipe'"),
        ({"views": "viewmaker", "precision": "16-mixed"}, "not 16-mixed"),
    ],
)
def test_wrong_choices_are_named(wrong, message):
    with pytest.raises(CoviewsError, match=message):
        coviews.PretrainSettings(**wrong)
