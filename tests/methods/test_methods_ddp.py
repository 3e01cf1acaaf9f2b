"""Two processes with half the batch each compute what one process with the whole batch does."""

import datetime

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from coviews import CoviewsError
from coviews.methods.gather import gathered
from coviews.methods.known import METHODS, make_method

PAIRS, STEPS, BANK = 6, 2, 20  # 24 keys in 20 places: the bank wraps around
CASES = {  # the method, its options, and the sizes of its views
    **{name: (name, {}, (5, 5)) for name in METHODS},
    "moco": ("moco", {"bank": BANK}, (5, 5)),
    "dino": ("dino", {"prototypes": 12}, (5, 5)),
    "simclr of many views": ("simclr", {}, (5, 5, 4, 4)),
    "dino of many views": ("dino", {"prototypes": 12, "teacher_warmup": 2, "teacher_start": 0.1}, (5, 5, 4)),
    "dino by sinkhorn": ("dino", {"prototypes": 12, "centering": "sinkhorn"}, (5, 5)),
}


def without_batchnorm(method):
    """BatchNorm's statistics are each process's own; with LayerNorm the results must agree."""
    for part in list(method.modules()):
        for key, child in list(part.named_children()):
            if isinstance(child, nn.BatchNorm1d):
                norm = nn.LayerNorm(child.num_features, elementwise_affine=child.affine)
                norm.requires_grad_(all(p.requires_grad for p in child.parameters()))
                setattr(part, key, norm)
    return method


def made(case):
    torch.manual_seed(0)
    name, options, _ = CASES[case]
    encoder = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    return without_batchnorm(make_method(METHODS[name].settings_type(**options), encoder, 8))


def batch(step, sizes=(5, 5)):
    generator = torch.Generator().manual_seed(step)
    return [torch.randn(PAIRS, 3, size, size, generator=generator) for size in sizes]


def trained(case, rank=0, ranks=1):
    """Losses, gradients and whole states of some steps."""
    method, sizes = made(case), CASES[case][2]
    called = DistributedDataParallel(method) if ranks > 1 else method
    optimizer = torch.optim.SGD([p for p in method.parameters() if p.requires_grad], 0.1)
    seen = []
    for step in range(STEPS):
        losses = called([x.chunk(ranks)[rank] for x in batch(step, sizes)])
        optimizer.zero_grad()
        losses.each.mean().backward()
        gradients = {k: p.grad.clone() for k, p in method.named_parameters() if p.grad is not None}
        optimizer.step()
        method.after_step(losses)
        each, embedding = losses.each.detach(), losses.embedding
        state = {k: v.clone() for k, v in method.state_dict().items()}
        seen.append({"each": each, "embedding": embedding, "gradients": gradients, "state": state})
    return seen


def process(rank, folder):
    torch.set_num_threads(1)
    patience = datetime.timedelta(seconds=60)
    dist.init_process_group("gloo", f"file://{folder}/meet", patience, rank=rank, world_size=2)
    found = {case: trained(case, rank, 2) for case in CASES}

    x = torch.full((2, 3), rank + 1.0, requires_grad=True)
    whole = gathered(x)
    (whole * torch.arange(4.0)[:, None] * (rank + 1)).sum().backward()
    found["gathered"] = whole.detach(), x.grad
    found["without gradient"] = gathered(torch.tensor([rank, 5])), gathered(x.detach().T)  # not contiguous

    method = made("moco")
    with pytest.raises(CoviewsError, match="12 pairs has 24 keys, but MoCo's bank holds 20"):
        method.losses(batch(0))
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    mp.spawn(process, (str(folder),), nprocs=2)
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("case", CASES)
def test_two_halves_are_one_whole(case, both):
    alone = trained(case)
    for rank, found in enumerate(both):
        for one, half in zip(alone, found[case], strict=True):
            torch.testing.assert_close(half["each"], one["each"])
            local = torch.cat([views.chunk(2)[rank] for views in one["embedding"].split(PAIRS)])
            torch.testing.assert_close(half["embedding"], local)
            torch.testing.assert_close(half["gradients"], one["gradients"], rtol=1e-4, atol=1e-6)
            torch.testing.assert_close(half["state"], one["state"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_both_processes_hold_the_same(case, both):
    for a, b in zip(both[0][case], both[1][case], strict=True):
        assert torch.equal(a["each"], b["each"])
        assert all(torch.equal(v, b["state"][k]) for k, v in a["state"].items())


def test_gathered_rows_are_in_order_and_their_gradient_is_summed(both):
    for rank, found in enumerate(both):
        whole, gradient = found["gathered"]
        assert whole.tolist() == [[1.0] * 3] * 2 + [[2.0] * 3] * 2
        # row i weighs i on the first process and 2i on the second
        assert gradient.tolist() == [[3.0 * row] * 3 for row in range(2 * rank, 2 * rank + 2)]
        numbers, turned = found["without gradient"]
        assert numbers.tolist() == [0, 5, 1, 5]
        assert turned.tolist() == [[1.0] * 2] * 3 + [[2.0] * 2] * 3


def test_one_process_gathers_nothing():
    x = torch.rand(3)
    assert gathered(x) is x
