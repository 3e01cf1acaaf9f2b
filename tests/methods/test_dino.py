"""DINO against lightly's loss, and its parts against slow loops."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from coviews import CoviewsError
from coviews.compat import import_torchvision
from coviews.methods.dino import DINO, DINOSettings, Prototypes, cross_entropies, sinkhorn

import_torchvision()  # lightly imports it
DINOLoss = pytest.importorskip("lightly.loss").DINOLoss


def small_method(**options):
    """DINO whose slow network and centre are not those of the start."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    method = DINO(encoder, 8, DINOSettings(**{"prototypes": 20, **options}))
    with torch.no_grad():
        for name in ("encoder", "projector", "prototypes"):
            for p in getattr(method, f"slow_{name}").parameters():
                p += 0.1 * torch.randn_like(p)
        method.center += 0.1 * torch.randn(20)
    return method


def several_views(sizes, n=5):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(n, 3, size, size, generator=generator) for size in sizes]


def outputs(method, views, *, slow):
    """Of the trained or the slow network, by view; views of one size are normalised together."""
    part = copy.deepcopy(method)
    prefix = "slow_" if slow else ""
    encoder, projector, prototypes = (getattr(part, prefix + name) for name in ("encoder", "projector", "prototypes"))
    sizes = [x.shape[-1] for x in views]
    groups = [torch.cat([x for x in views if x.shape[-1] == size]) for size in dict.fromkeys(sizes)]
    return prototypes(projector(torch.cat([encoder(group) for group in groups]))).chunk(len(views))


@pytest.mark.parametrize("sizes", [(6, 6), (6, 6, 4, 4, 4), (6, 4), (6, 6, 6)])
def test_the_loss_and_the_centre_are_those_of_lightly(sizes):
    method, views = small_method(student_temperature=0.2, teacher_temperature=0.05), several_views(sizes)
    oracle = DINOLoss(20, student_temp=0.2, teacher_temp=0.05)
    oracle.center += method.center
    with torch.no_grad():
        teacher = outputs(method, [x for x in views if x.shape[-1] == 6], slow=True)
        student = outputs(method, views, slow=False)
        expected = oracle(list(teacher), list(student))
    losses = method.losses(views)
    torch.testing.assert_close(losses.each.mean(), expected)
    assert losses.each.shape == (5,)
    assert losses.embedding.shape == (5 * len(sizes), 8)
    method.after_step(losses)
    torch.testing.assert_close(method.center, oracle.center.flatten())


def test_the_gradient_is_that_of_lightly():
    generator = torch.Generator().manual_seed(0)
    teacher, student = torch.randn(2, 5, 20, generator=generator), torch.randn(4, 5, 20, generator=generator)
    gradients = []
    for compute in (
        lambda x: cross_entropies(F.softmax(teacher / 0.04, dim=2), x, 0.1).mean(),
        lambda x: DINOLoss(20)(list(teacher), list(x)),
    ):
        x = student.clone().requires_grad_()
        compute(x).backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)


def test_the_prototypes_are_a_layer_with_weight_normalisation():
    torch.manual_seed(0)
    prototypes, x = Prototypes(6, 9), torch.randn(4, 6)
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(6, 9, bias=False))
    with torch.no_grad():
        layer.parametrizations.weight.original0.fill_(1)
        layer.parametrizations.weight.original1.copy_(prototypes.weight)
    torch.testing.assert_close(prototypes(x), layer(F.normalize(x, dim=1)))


def slow_sinkhorn(logits):
    """Of the matrix of prototypes and images, three times: rows of sum 1 / K, then columns of sum 1 / n."""
    q = [[float(x.exp()) for x in column] for column in logits.double().T]
    k, n = len(q), len(q[0])
    for _ in range(3):
        q = [[x / sum(row) / k for x in row] for row in q]
        sums = [sum(row[i] for row in q) for i in range(n)]
        q = [[x / sums[i] / n for i, x in enumerate(row)] for row in q]
    return (torch.tensor(q) * n).T


def test_sinkhorn_is_the_plain_loop():
    logits = torch.randn(12, 7, generator=torch.Generator().manual_seed(0)) * 4
    shares = sinkhorn(logits)
    torch.testing.assert_close(shares, slow_sinkhorn(logits).float())
    torch.testing.assert_close(shares.sum(1), torch.ones(12))
    torch.testing.assert_close(sinkhorn(logits, 500).sum(0), torch.full((7,), 12 / 7), rtol=1e-3, atol=0)
    assert sinkhorn(logits * 1000).isfinite().all()


def test_by_sinkhorn_the_targets_are_shared_evenly():
    method, views = small_method(centering="sinkhorn"), several_views((6, 6, 4))
    with torch.no_grad():
        targets = slow_sinkhorn(torch.cat(outputs(method, views[:2], slow=True)) / 0.04).float()
        expected = cross_entropies(targets.view(2, 5, 20), torch.stack(outputs(method, views, slow=False)), 0.1)
    torch.testing.assert_close(method.losses(views).each.detach(), expected)


def test_after_a_step_the_slow_network_has_moved():
    method = small_method(momentum=0.75)
    parts = ("encoder", "projector", "prototypes")
    slow = {name: [p.clone() for p in getattr(method, f"slow_{name}").parameters()] for name in parts}
    fast = {name: [p.clone() for p in getattr(method, name).parameters()] for name in parts}
    method.after_step(method.losses(several_views((6, 6))))
    for name in parts:
        for p, s, f in zip(getattr(method, f"slow_{name}").parameters(), slow[name], fast[name], strict=True):
            torch.testing.assert_close(p, 0.75 * s + 0.25 * f)
        for p, f in zip(getattr(method, name).parameters(), fast[name], strict=True):
            assert torch.equal(p, f)
    assert int(method.steps) == 1
    with pytest.raises(CoviewsError, match="needs the centre"):
        method.after_step(method.losses(several_views((6, 6)))._replace(keys=None))


def test_the_teachers_temperature_warms_up():
    method = small_method(teacher_start=0.02, teacher_temperature=0.06, teacher_warmup=4)
    temperatures = []
    for _ in range(6):
        temperatures.append(float(method._teacher_temperature))
        method.after_step(method.losses(several_views((6, 6))))
    assert temperatures == pytest.approx([0.02, 0.03, 0.04, 0.05, 0.06, 0.06])


def test_the_target_gives_no_gradient():
    method, views = small_method(), several_views((6, 6, 4))
    method.losses(views).each.mean().backward()
    for name, p in method.named_parameters():
        assert (p.grad is None) == name.startswith("slow_"), name


def test_a_wrong_way_to_centre_is_said():
    with pytest.raises(CoviewsError, match="unknown centering 'sinkhorm': did you mean 'sinkhorn'"):
        DINOSettings(centering="sinkhorm")
