"""Optimisers against slow oracles, and gradients of several batches that are averaged."""

import copy
import signal

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from torch import nn

from coviews import CoviewsError, pretrain
from coviews.runs.folder import Run
from coviews.runs.settings import PretrainSettings
from coviews.training.batches import Batches
from coviews.training.optimizers import LARS, make_optimizer, restore_optimizer
from coviews.training.schedule import learning_rate
from coviews.training.signals import Stopped
from coviews.training.state import Training
from small_runs import SMALL, content, differing

SHORT = SMALL.replaced(views="recipe", epochs=2, knn_every=0, batch_size=16)


def slow_lars(weights, gradients, rates, *, momentum, decay, trust, adapts):
    """The rule of SimCLR, number by number in double precision; gradients of each step, a flat list of weights."""
    weights, velocity = list(weights), [0.0] * len(weights)
    for gradient, rate in zip(gradients, rates, strict=True):
        change = [g + decay * w for g, w in zip(gradient, weights, strict=True)]
        weight_norm, change_norm = (sum(x * x for x in values) ** 0.5 for values in (weights, change))
        ratio = trust * weight_norm / change_norm if adapts and weight_norm and change_norm else 1.0
        for i, c in enumerate(change):
            velocity[i] = momentum * velocity[i] + rate * ratio * c
            weights[i] -= velocity[i]
    return weights


@pytest.mark.parametrize("start", ["random", "zero"])
def test_lars_equals_the_slow_oracle(start):
    draws = np.random.default_rng(0)
    layer = nn.Linear(4, 3).double()
    if start == "zero":  # then the step is that of SGD: it has no norm to be in proportion to
        nn.init.zeros_(layer.weight)
    settings = PretrainSettings(optimizer="lars", lr=0.7, weight_decay=0.3, sgd_momentum=0.8)
    optimizer = make_optimizer(settings, layer.parameters())
    assert isinstance(optimizer, LARS)
    rates = (0.7, 0.5, 0.2)
    gradients = {name: draws.normal(size=(3, *p.shape)) for name, p in layer.named_parameters()}
    expected = {
        name: slow_lars(
            p.detach().flatten().tolist(), gradients[name].reshape(3, -1), rates, momentum=0.8, trust=0.001,
            decay=0.3 if name == "weight" else 0.0, adapts=name == "weight",
        )
        for name, p in layer.named_parameters()
    }  # fmt: skip
    for step, rate in enumerate(rates):
        for group in optimizer.param_groups:
            group["lr"] = rate
        for name, p in layer.named_parameters():
            p.grad = torch.from_numpy(gradients[name][step])
        optimizer.step()
    for name, p in layer.named_parameters():
        assert p.detach().flatten().tolist() == pytest.approx(expected[name], rel=1e-12)


def test_neither_biases_nor_norms_decay():
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    for name in ("lars", "adamw"):
        groups = make_optimizer(PretrainSettings(optimizer=name, weight_decay=0.5), module.parameters()).param_groups
        decays = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
        assert [decays[id(p)] for p in module.parameters()] == [0.5, 0.0, 0.0, 0.0]
    (sgd,) = make_optimizer(PretrainSettings(), module.parameters()).param_groups
    assert (len(sgd["params"]), sgd["weight_decay"], sgd["lr"], sgd["momentum"]) == (4, 5e-4, 0.03, 0.9)


def test_each_optimizer_has_its_own_defaults():
    figures = {name: PretrainSettings(optimizer=name).settled() for name in ("sgd", "lars", "adamw")}
    assert {name: (s.lr, s.weight_decay) for name, s in figures.items()} == {
        "sgd": (0.03, 5e-4), "lars": (0.3, 1e-6), "adamw": (5e-4, 0.05)
    }  # fmt: skip
    with pytest.raises(CoviewsError, match="did you mean 'adamw'"):
        PretrainSettings(optimizer="adam")


@pytest.mark.parametrize("name", ["lars", "adamw"])
def test_stopped_and_resumed_with_each_optimizer_and_averaged_gradients(name, tmp_path, monkeypatch):
    settings = SHORT.replaced(optimizer=name, accumulate=3, save_every=0)
    pretrain(settings=settings.replaced(out=tmp_path / "whole"), progress=False)
    assert Run.open(tmp_path / "whole", writes=False).settings.lr == settings.base_lr
    old, saved = Training.save, []

    def save(training, keep=None):
        old(training, keep)
        saved.append((training.epoch, training.step))
        training.stop_request.signal = signal.SIGTERM

    with monkeypatch.context() as patch:
        patch.setattr(Training, "save", save)
        with pytest.raises(Stopped):
            pretrain(settings=settings.replaced(out=tmp_path / "run"), progress=False)
    assert saved[0] == (1, 3)  # never between two batches whose gradients belong together
    pretrain(resume=tmp_path / "run", progress=False)
    assert not differing(content(tmp_path / "whole"), content(tmp_path / "run"))


def test_accumulated_gradients_are_the_mean_of_those_of_the_batches(tmp_path, monkeypatch):
    inputs, old, checked = [], Training.change_weights, []

    def change_weights(training, losses, rate):
        assert len(inputs) == 3
        method = copy.deepcopy(training.bare)
        method._forward_pre_hooks.clear()
        sums = [torch.zeros_like(p) for p in method.parameters()]
        for views in inputs:
            method.zero_grad()
            method.losses(views).each.mean().backward()
            for total, p in zip(sums, method.parameters(), strict=True):
                total += p.grad
        for total, p in zip(sums, training.bare.parameters(), strict=True):
            torch.testing.assert_close(p.grad, total / 3, rtol=1e-3, atol=1e-5)
        checked.append(rate)
        inputs.clear()
        old(training, losses, rate)
        assert all(p.grad is None for p in training.bare.parameters())

    build = Training.__init__

    def watched(training, *args, **kwargs):
        build(training, *args, **kwargs)
        training.bare.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))

    monkeypatch.setattr(Training, "__init__", watched)
    monkeypatch.setattr(Training, "change_weights", change_weights)
    settings = SHORT.replaced(epochs=1, accumulate=3, precision="32-true", out=tmp_path / "run")
    pretrain(settings=settings, progress=False)
    assert checked == [learning_rate(settings, step, 6) for step in (2, 5)]  # 100 images: six batches of 16


def test_the_learning_rate_counts_all_images_between_two_changes():
    one, four = PretrainSettings(batch_size=256), PretrainSettings(batch_size=64, accumulate=4)
    assert learning_rate(one, 50, 10) == pytest.approx(learning_rate(four, 200, 40), rel=0.05)
    images = np.zeros((100, 4, 4, 3), np.uint8)
    assert [Batches(images, 16, 0, None, accumulate=n).steps for n in (1, 2, 4, 6, 7)] == [6, 6, 4, 6, 0]
    with pytest.raises(CoviewsError, match="smaller --accumulate"):
        pretrain("shapes:100", size=16, batch_size=32, accumulate=4, progress=False)


@pytest.mark.parametrize("name", ["sgd", "lars", "adamw"])
def test_only_what_it_kept_is_taken_from_a_checkpoint(name):
    weights = nn.Parameter(torch.ones(3, 2))
    _, optimizer = Fabric(accelerator="cpu", devices=1).setup(
        nn.ParameterList([weights]), make_optimizer(SMALL.replaced(optimizer=name), [weights])
    )
    weights.grad = torch.ones(3, 2)
    optimizer.step()
    saved = optimizer.state_dict()
    saved["param_groups"][0]["lr"] = "hostile"
    restore_optimizer(optimizer, saved)
    assert optimizer.param_groups[0]["lr"] == SMALL.replaced(optimizer=name).base_lr
    kept = max(saved["state"][0], key=lambda n: saved["state"][0][n].numel())
    for values in ({}, {**saved["state"][0], kept: torch.zeros(7)}, {**saved["state"][0], "more": torch.zeros(3, 2)}):
        with pytest.raises((ValueError, KeyError)):
            restore_optimizer(optimizer, {"state": {0: values}})
