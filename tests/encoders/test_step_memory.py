"""What a step needs in memory: known beforehand, and refused where it is too much."""

import gc
import weakref

import pytest
import torch
from torch import nn

from coviews import CoviewsError
from coviews.data.load import load_images
from coviews.encoders import method, step_memory
from coviews.encoders.architectures import make_encoder
from coviews.encoders.method import build_method
from coviews.encoders.step_memory import _kept_bytes, check_step_memory
from small_runs import SMALL


def test_counts_what_layers_keep():
    """Two linear layers with a ReLU between keep their inputs and the ReLU's output, which is one of them."""
    layers = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 50), nn.ReLU(), nn.Linear(50, 5))
    assert _kept_bytes(layers, (8, 8), 3, mixed=False, any_size=False) == 4 * (3 * 8 * 8 + 50)


@pytest.mark.parametrize("mixed", [True, False])
def test_larger_views_need_as_much_more_as_they_are_larger(mixed):
    encoder = make_encoder("resnet8", 64)
    whole = _kept_bytes(encoder, (128, 128), 3, mixed, any_size=False)
    assert _kept_bytes(encoder, (128, 128), 3, mixed, any_size=True) == pytest.approx(whole, rel=0.05)


def test_the_encoder_stays_as_it_is():
    encoder = make_encoder("resnet8", 32).train()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    check_step_memory(encoder, [(32, 32)] * 2, 4, 3, mixed=True, any_size=True)
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    assert all(part.training for part in encoder.modules())
    assert all(p.grad is None for p in encoder.parameters())


def test_nothing_of_it_stays():
    encoder = make_encoder("resnet8", 32)
    check_step_memory(encoder, [(32, 32)] * 2, 4, 3, mixed=True, any_size=True)
    weights = [weakref.ref(p) for p in encoder.parameters()]
    del encoder
    gc.collect()
    assert not any(weight() is not None for weight in weights)


def test_too_large_a_step_is_refused_before_it_begins(monkeypatch):
    encoder = make_encoder("resnet8", 64)
    need = 1.25 * 100 * 2 * _kept_bytes(encoder, (64, 64), 3, mixed=False, any_size=True)
    monkeypatch.setattr(step_memory, "free_memory", lambda: round(need) + 1)
    check_step_memory(encoder, [(64, 64)] * 2, 100, 3, mixed=False, any_size=True)
    monkeypatch.setattr(step_memory, "free_memory", lambda: round(need / 2))
    with pytest.raises(
        CoviewsError, match=r"2 x 100 views of up to 64 x 64 pixels needs about .* --batch-size (49|50)"
    ):
        check_step_memory(encoder, [(64, 64)] * 2, 100, 3, mixed=False, any_size=True)
    monkeypatch.setattr(step_memory, "free_memory", lambda: round(need / 50))
    with pytest.raises(CoviewsError, match="give a smaller --size or --view-size"):
        check_step_memory(encoder, [(64, 64)] * 2, 100, 3, mixed=False, any_size=True)
    monkeypatch.setattr(step_memory, "free_memory", lambda: None)  # the system does not tell
    check_step_memory(encoder, [(64, 64)] * 2, 100, 3, mixed=False, any_size=True)


def test_trainings_are_checked(monkeypatch):
    monkeypatch.setattr(step_memory, "free_memory", lambda: 100_000)
    with pytest.raises(CoviewsError, match=r"a step on 2 x .* needs about"):
        build_method(SMALL, load_images("shapes:4", size=16), None, trains=True)
    build_method(SMALL, load_images("shapes:4", size=16), None)  # to estimate, or to look at what was trained elsewhere


def test_each_machine_has_its_share_of_a_batch(monkeypatch):
    counted = []
    monkeypatch.setattr(method, "check_step_memory", lambda encoder, sizes, batch, *_, **__: counted.append(batch))
    for nodes in (1, 4):
        build_method(SMALL.replaced(num_nodes=nodes), load_images("shapes:4", size=16), None, trains=True)
    assert counted == [SMALL.batch_size, SMALL.batch_size // 4]
