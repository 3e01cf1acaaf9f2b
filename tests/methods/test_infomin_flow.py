"""InfoMin's flow: it can be inverted, each view has its part of the channels, and it learns against an encoder."""

import pytest
import safetensors.torch
import torch
from torch import nn

import coviews
from coviews import CoviewsError
from coviews.methods.infomin_flow import InfoMinFlow
from coviews.methods.simclr import SimCLR
from coviews.methods.view_network import against


def trained_looking(channels=3, seed=0):
    """A flow far from its start."""
    torch.manual_seed(seed)
    flow = InfoMinFlow(channels, width=8)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(torch.randn_like(parameter))
    return flow


def images(n=4, channels=3, size=(5, 4), seed=1):
    return torch.rand(n, channels, *size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("channels", [2, 3, 7, 16])
def test_it_can_be_inverted(channels):
    flow, x = trained_looking(channels), images(channels=channels)
    latent, _ = flow.transform(x)
    assert (latent - x).abs().mean() > 0.1
    assert (flow.inverse(latent) - x).abs().max() < 1e-4


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_the_log_determinant_is_that_of_the_jacobian(channels):
    flow, x = trained_looking(channels).double(), images(2, channels, (2, 3)).double()
    _, log_determinants = flow.transform(x)
    for image, own in zip(x, log_determinants, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda a: flow.transform(a[None])[0], image)
        matrix = jacobian.reshape(image.numel(), image.numel())
        assert own.item() == pytest.approx(torch.linalg.slogdet(matrix).logabsdet.item(), abs=1e-8)
        assert abs(own.item()) > 0.1


@pytest.mark.parametrize(("channels", "kept"), [(2, 1), (3, 1), (6, 3)])
def test_each_view_has_its_own_channels_and_nothing_of_the_others(channels, kept):
    flow, x = trained_looking(channels).double(), images(2, channels).double()
    latent = flow.transform(x)[0]
    first, second = (flow(x, index=torch.full((2,), i)) for i in (0, 1))
    assert first.shape == second.shape == x.shape
    again = flow.transform(first)[0]
    torch.testing.assert_close(again[:, :kept], latent[:, :kept])
    assert again[:, kept:].abs().max() < 1e-9
    again = flow.transform(second)[0]
    torch.testing.assert_close(again[:, kept:], latent[:, kept:])
    assert again[:, :kept].abs().max() < 1e-9


def test_it_starts_with_grey_and_colours():
    x = images()
    grey, colours = (InfoMinFlow(3)(x, index=torch.full((4,), i)) for i in (0, 1))
    torch.testing.assert_close(grey, x.mean(1, keepdim=True).expand_as(x))
    torch.testing.assert_close(colours, x - x.mean(1, keepdim=True) + 0.5)
    assert torch.equal(InfoMinFlow(3)(x, index=torch.full((4,), 2)), grey)  # views take turns


def test_it_raises_the_loss_of_an_encoder():
    torch.manual_seed(0)
    flow, x = InfoMinFlow(3, width=8), images(24, size=(8, 8))
    encoder = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten())
    method = SimCLR(encoder, 8)
    optimizers = torch.optim.Adam(flow.parameters(), 1e-2), torch.optim.SGD(method.parameters(), 0.1, momentum=0.9)

    def played(steps, learner):
        history = []
        for _ in range(steps):
            loss = method.losses([against(flow(x, index=torch.full((24,), i))) for i in (0, 1)]).each.mean()
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            optimizers[learner].step()
            history.append(loss.item())
        return history

    lowered, raised = played(30, 1), played(25, 0)
    assert lowered[-1] < lowered[0] - 0.1
    assert raised[-1] > raised[0] + 0.1
    assert (flow.inverse(flow.transform(x)[0]) - x).abs().max() < 1e-4  # whatever it has learned


def test_a_file_gives_the_same_flow(tmp_path):
    flow, x = trained_looking(4), images(channels=4)
    flow.save(tmp_path / "viewmaker.safetensors")
    loaded = coviews.load_viewmaker(tmp_path)
    assert (type(loaded), loaded.channels, loaded.training) == (InfoMinFlow, 4, False)
    assert torch.equal(flow(x), loaded(x))
    text = '{"format": 1, "name": "%s", "channels": 4, "width": 8, "blocks": 4}'
    for name, message in (("viewmaker", "the budget of viewmaker is missing"), ("other", "network that makes views")):
        content = safetensors.torch.save(flow.state_dict(), {"coviews": text % name})
        (tmp_path / "viewmaker.safetensors").write_bytes(content)
        with pytest.raises(CoviewsError, match=message):
            coviews.load_viewmaker(tmp_path)


def test_wrong_choices_are_named():
    with pytest.raises(CoviewsError, match="needs images of two channels or more"):
        InfoMinFlow(1)
    with pytest.raises(CoviewsError, match="--views infomin-flow works with --precision 32-true"):
        coviews.PretrainSettings(views="infomin-flow", precision="16-mixed")
    with pytest.raises(CoviewsError, match="makes views with the encoder in training"):
        coviews.transforms.Views("infomin-flow")
