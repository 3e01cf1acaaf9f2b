"""Methods against slow oracles: what they compute, what they move, what they leave alone; and each learns a toy."""

import copy
import math

import pytest
import torch
from test_losses import slow_bank_nce, slow_info_nce
from torch import nn
from torch.nn import functional as F

from coviews import CoviewsError
from coviews.methods.known import METHODS, make_method, method_settings
from coviews.methods.losses import chance_loss

NAMES = list(METHODS)
SLOW = {
    "moco": ("key_encoder", "key_projector"),
    "byol": ("slow_encoder", "slow_projector"),
    "dino": ("slow_encoder", "slow_projector", "slow_prototypes"),
}
BANK = 10
SMALLER = {"moco": {"bank": BANK}, "dino": {"prototypes": 20}, "vicreg": {"projector": 16}}  # options of small methods


def settings(name, **options):
    return METHODS[name].settings_type(**options)


def made(name, seed=0, **options):
    """A tiny method whose slow parts are not the same as the trained ones."""
    torch.manual_seed(seed)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU())
    options = {**SMALLER.get(name, {}), **options}
    method = make_method(settings(name, **options), encoder, 16)
    with torch.no_grad():
        for part in SLOW.get(name, ()):
            for p in getattr(method, part).parameters():
                p += 0.1 * torch.randn_like(p)
    return method


def views(n=4, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, 3, 2, 2, generator=g), torch.randn(n, 3, 2, 2, generator=g)


def state(method):
    return {k: v.clone() for k, v in method.state_dict().items()}


def slow_cosine(a, b):
    a, b = a.tolist(), b.tolist()
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(y * y for y in b))


@torch.no_grad()
def slow_losses(name, method, x1, x2):
    """Each pair's loss from the method's own layers, which see both views at once, by loops over the pairs."""
    method = copy.deepcopy(method)  # BatchNorm's statistics
    n, both = len(x1), torch.cat([x1, x2])
    if name == "rotation":
        return slow_rotation(method, both, n)
    z = method.projector(method.encoder(both))
    if name == "simclr":
        return slow_info_nce(z[:n], z[n:], 0.2)
    if name == "moco":
        q, k = F.normalize(z, dim=1), F.normalize(method.key_projector(method.key_encoder(both)), dim=1)
        one, other = slow_bank_nce(q[:n], k[n:], method.bank, 0.1), slow_bank_nce(q[n:], k[:n], method.bank, 0.1)
        return [(a + b) / 2 for a, b in zip(one, other, strict=True)]
    if name == "dino":
        teacher = method.slow_prototypes(method.slow_projector(method.slow_encoder(both)))
        return slow_dino(teacher, method.prototypes(z), method.center, n)
    if name == "vicreg":
        return slow_vicreg(z[:n].tolist(), z[n:].tolist())
    p = method.predictor(z)
    if name == "byol":
        t = method.slow_projector(method.slow_encoder(both))
        return [(4 - 2 * slow_cosine(p[i], t[n + i]) - 2 * slow_cosine(p[n + i], t[i])) / 2 for i in range(n)]
    return [1 - (slow_cosine(p[i], z[n + i]) + slow_cosine(p[n + i], z[i])) / 2 for i in range(n)]


def slow_softmax(numbers):
    shares = [math.exp(x) for x in numbers]
    return [s / sum(shares) for s in shares]


def slow_dino(teacher, student, center, n):
    """The cross-entropy of each pair of different views, for two views."""
    losses = []
    for i in range(n):
        total = 0
        for one, other in ((i, n + i), (n + i, i)):
            targets = slow_softmax([(x - c) / 0.04 for x, c in zip(teacher[one], center, strict=True)])
            assigned = slow_softmax([x / 0.1 for x in student[other].tolist()])
            total -= sum(t * math.log(a) for t, a in zip(targets, assigned, strict=True))
        losses.append(total / 2)
    return losses


def slow_rotation(method, both, n):
    """The cross-entropy of each image's eight turned views, pixel by pixel turned by hand."""
    turned = [both]
    for _ in range(3):  # counterclockwise: what was right is on top
        x = turned[-1]
        turned.append(torch.stack([x[:, :, :, x.shape[3] - 1 - i] for i in range(x.shape[3])], 2))
    logits = method.classifier(method.projector(method.encoder(torch.cat(turned)))).tolist()
    losses = [0.0] * n
    for row, scores in enumerate(logits):
        losses[row % n] -= math.log(slow_softmax(scores)[row // (2 * n)]) / 8
    return losses


def slow_vicreg(one, two):
    n, d = len(one), len(one[0])
    of_batch = 0
    for z in (one, two):
        means = [sum(row[k] for row in z) / n for k in range(d)]
        cov = [
            [sum((row[j] - means[j]) * (row[k] - means[k]) for row in z) / (n - 1) for k in range(d)] for j in range(d)
        ]
        of_batch += 25 * sum(max(0, 1 - math.sqrt(cov[k][k] + 1e-4)) for k in range(d)) / d / 2
        of_batch += sum(cov[j][k] ** 2 for j in range(d) for k in range(d) if j != k) / d
    distances = [sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / d for x, y in zip(one, two, strict=True)]
    return [25 * distance + of_batch for distance in distances]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_losses_equal_the_slow_oracle(name, training):
    method, (x1, x2) = made(name).train(training), views()
    wanted = slow_losses(name, method, x1, x2)
    losses = method.losses([x1, x2])
    assert losses.each.shape == (4,)
    assert losses.each.tolist() == pytest.approx(wanted, rel=1e-5, abs=1e-5)
    assert losses.each.requires_grad
    assert min(wanted) > 0
    assert losses.embedding.shape == (8, 16)
    assert not losses.embedding.requires_grad
    assert losses.embedding.norm(dim=1).tolist() == pytest.approx([1] * 8, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_compare_equals_the_slow_oracle(name):
    method, (x1, x2) = made(name).eval(), views(5)
    z1, z2 = (method.projector(method.encoder(x)).detach() for x in (x1, x2))
    wanted = (
        slow_losses(name, method, x1, x2) if name == "moco" else slow_info_nce(z1, z2, 0.2 if name == "simclr" else 0.5)
    )
    a, b = method.embed(x1), method.embed(x2)
    assert all(len(t) == 5 and t.dtype == torch.float32 for t in (*a, *b))
    assert method.compare(a, b).tolist() == pytest.approx(wanted, abs=1e-5)
    assert method.compare(b, a).tolist() == pytest.approx(wanted, abs=1e-5)
    if name in ("simclr", "moco"):  # the reward's number is the loss itself
        assert method.losses([x1, x2]).each.tolist() == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_views_that_lost_their_image_are_at_chance(name):
    method, same = made(name).eval(), torch.ones(6, 3, 2, 2)
    a = method.embed(same)
    if name == "moco":
        method.bank[:] = a[1][:1]
        assert method.chance(6) == math.log(1 + BANK)
    else:
        assert method.chance(6) == chance_loss(6)
    found = method.compare(a, a)
    if name == "moco":  # a query need not be its key, but it is as near to every other
        found = method.compare((a[1], a[1]), (a[1], a[1]))
    assert found.tolist() == pytest.approx([method.chance(6)] * 6, rel=1e-5)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_batch_statistics_changes_before_after_step(name, training):
    method, (x1, x2) = made(name).train(training), views()
    before, drawn = state(method), torch.get_rng_state()
    losses = method.losses([x1, x2])
    losses.each.mean().backward()
    method.compare(method.embed(x1), method.embed(x2))
    changed = {k for k, v in method.state_dict().items() if not torch.equal(v, before[k])}
    statistics = {k for k in before if k.split(".")[-1] in ("running_mean", "running_var", "num_batches_tracked")}
    assert changed == (statistics if training else set())
    assert torch.equal(drawn, torch.get_rng_state())


@pytest.mark.parametrize("name", NAMES)
def test_only_what_is_trained_has_gradient(name):
    method, (x1, x2) = made(name).train(), views()
    method.losses([x1, x2]).each.mean().backward()
    slow = SLOW.get(name, ())
    for key, p in method.named_parameters():
        if key.split(".")[0] in slow:
            assert not p.requires_grad
            assert p.grad is None
        else:
            assert p.grad is not None, key
    assert sum(p.grad.abs().sum() for p in method.encoder.parameters()) > 0


@pytest.mark.parametrize(("name", "part"), [("byol", "predictor"), ("simsiam", "predictor"), ("moco", "projector")])
def test_the_target_gives_no_gradient(name, part):
    class Held(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x).detach()

    method = made(name)
    setattr(method, part, Held(getattr(method, part)))  # without the side that learns, nothing is left to learn from
    x1, x2 = (x.requires_grad_() for x in views())
    assert not method.losses([x1, x2]).each.requires_grad


def test_the_bank_holds_the_newest_keys_in_turn():
    method = made("moco", momentum=0.9)
    optimizer = torch.optim.SGD([p for p in method.parameters() if p.requires_grad], 0.5)
    places, place = method.bank.tolist(), 0
    slow = {k: getattr(method, k) for k in SLOW["moco"]}
    wanted = {k: [p.clone() for p in part.parameters()] for k, part in slow.items()}
    for step in range(4):  # 6 keys a step into 10 places
        x1, x2 = views(3, step)
        with torch.no_grad():
            keys = copy.deepcopy(slow["key_projector"])(copy.deepcopy(slow["key_encoder"])(torch.cat([x1, x2])))
        losses = method.losses([x1, x2])
        optimizer.zero_grad()
        losses.each.mean().backward()
        optimizer.step()
        method.after_step(losses)
        for key in F.normalize(keys, dim=1).tolist():
            places[place], place = key, (place + 1) % BANK
        torch.testing.assert_close(method.bank, torch.tensor(places))
        assert int(method.pointer) == place
        for k, fast in (("key_encoder", method.encoder), ("key_projector", method.projector)):
            pairs = zip(wanted[k], fast.parameters(), strict=True)
            wanted[k] = [0.9 * s + (1 - 0.9) * f.detach() for s, f in pairs]
            for p, w in zip(slow[k].parameters(), wanted[k], strict=True):
                torch.testing.assert_close(p, w)
                assert not p.requires_grad


def test_a_full_batch_just_fits_the_bank():
    method = made("moco", bank=8)
    method.after_step(method.losses(views(4)))
    assert int(method.pointer) == 0
    with pytest.raises(CoviewsError, match="5 pairs has 10 keys, but MoCo's bank holds 8"):
        method.losses(views(5))


def test_the_bank_starts_from_its_seed():
    banks = [made("moco", seed=s, bank=64).bank for s in (0, 1)]
    assert torch.equal(*banks)  # whatever the state of torch's own generator
    other = make_method(settings("moco", bank=64), nn.Flatten(), 12, seed=1).bank
    assert not torch.equal(other, make_method(settings("moco", bank=64), nn.Flatten(), 12, seed=2).bank)
    torch.testing.assert_close(other.norm(dim=1), torch.ones(64))


def test_byol_moves_its_slow_encoder():
    method = made("byol", momentum=0.75)
    slow = [p.clone() for p in method.slow_encoder.parameters()]
    fast = [p.clone() for p in method.encoder.parameters()]
    method.after_step(method.losses(views()))
    for p, s, f in zip(method.slow_encoder.parameters(), slow, fast, strict=True):
        torch.testing.assert_close(p, 0.75 * s + 0.25 * f)
    assert all(torch.equal(p, f) for p, f in zip(method.encoder.parameters(), fast, strict=True))


@pytest.mark.parametrize("name", SLOW)
def test_slow_parts_start_as_copies_and_follow_the_mode(name):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.BatchNorm1d(4))
    method = make_method(settings(name), encoder, 4)
    assert method.encoder is encoder
    for part in SLOW[name]:
        slow, fast = getattr(method, part), getattr(method, part.split("_")[1])
        assert all(torch.equal(v, fast.state_dict()[k]) for k, v in slow.state_dict().items())
        assert not {p.data_ptr() for p in slow.parameters()} & {p.data_ptr() for p in fast.parameters()}
        assert slow.training
        assert not getattr(method.eval(), part).training
        method.train()


def toy(classes=8, each=8, seed=0):
    """Images of a few kinds, and a way to draw views of them, which differ by much noise in half of the pixels."""
    g = torch.Generator().manual_seed(seed)
    kinds = torch.randn(classes, 24, generator=g)
    images = kinds.repeat_interleave(each, 0) + 0.2 * torch.randn(classes * each, 24, generator=g)
    noise = torch.tensor([0.3, 3.0]).repeat_interleave(12)

    def draw():
        return images + noise * torch.randn(images.shape, generator=g)

    return draw, torch.arange(classes).repeat_interleave(each)


def found_kinds(encoder, draw, kinds):
    """The share of views whose nearest neighbour is of the same kind."""
    z = F.normalize(encoder(draw()), dim=1)
    near = (z @ z.T).fill_diagonal_(-torch.inf).argmax(1)
    return (kinds[near] == kinds).float().mean().item()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "rotation"])  # it learns from images
def test_each_method_learns_and_does_not_collapse(name):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(24, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
    options = {"moco": {"bank": 256}, "dino": {"prototypes": 256, "momentum": 0.9}, "vicreg": {"projector": 32}}
    method = make_method(settings(name, **options.get(name, {})), encoder, 32)
    rate = {"dino": 0.03, "vicreg": 0.01}.get(name, 0.1)
    optimizer = torch.optim.SGD([p for p in method.parameters() if p.requires_grad], rate, momentum=0.9)
    draw, kinds = toy()
    with torch.no_grad():
        first = sum(found_kinds(encoder, draw, kinds) for _ in range(5)) / 5
    history = []
    for _ in range(60):
        losses = method.losses([draw(), draw()])
        optimizer.zero_grad()
        losses.each.mean().backward()
        optimizer.step()
        method.after_step(losses)
        history.append(losses.each.mean().item())
    with torch.no_grad():
        last = sum(found_kinds(encoder, draw, kinds) for _ in range(5)) / 5
    assert sum(history[-5:]) < 0.9 * sum(history[:5])
    assert last > first + 0.1
    assert losses.embedding.std(0).mean() * 32**0.5 > 0.5  # 1 for directions that are spread evenly, 0 for one


@pytest.mark.parametrize("name", NAMES)
def test_losses_are_in_float32_whatever_the_layers_are_in(name):
    x1, x2 = views()
    with torch.autocast("cpu", torch.bfloat16):
        method = made(name)
        losses = method.losses([x1, x2])
        losses.each.mean().backward()
        compared = method.compare(method.embed(x1), method.embed(x2))
    assert {losses.each.dtype, losses.embedding.dtype, compared.dtype} == {torch.float32}
    for dtype in (torch.bfloat16, torch.float64):
        method = made(name).to(dtype)
        losses = method.losses([x1.to(dtype), x2.to(dtype)])
        losses.each.mean().backward()
        method.after_step(losses)
        compared = method.compare(method.embed(x1.to(dtype)), method.embed(x2.to(dtype)))
        assert {losses.each.dtype, losses.embedding.dtype, compared.dtype} == {torch.float32}
        assert torch.isfinite(losses.each).all()


def widths(layers):
    return [m.out_features for m in layers if isinstance(m, nn.Linear)]


def test_the_projectors_widths_can_be_chosen():
    for name in NAMES:
        method = make_method(settings(name, projector=7), nn.Flatten(), 12)
        layers = 3 if name in ("dino", "vicreg") else 2
        assert widths(method.projector) == [7] * layers
        usual = 48 if name == "vicreg" else 12  # as many as features, or four times as many
        assert widths(make_method(settings(name), nn.Flatten(), 12).projector) == [usual] * layers
        assert method(views()).each.shape == (4,)


def test_the_predictors_width_can_be_chosen():
    for name, usual in (("byol", 12), ("simsiam", 3)):
        assert widths(make_method(settings(name), nn.Flatten(), 12).predictor) == [usual, 12]
        method = make_method(settings(name, predictor=7, projector=5), nn.Flatten(), 12)
        assert widths(method.predictor) == [7, 5]
        assert method(views()).each.shape == (4,)
    assert widths(make_method(settings("simsiam", projector=3), nn.Flatten(), 12).predictor) == [1, 3]


@pytest.mark.parametrize("name", NAMES)
def test_a_method_refuses_numbers_of_views_that_it_cannot_take(name):
    with pytest.raises(CoviewsError, match="two views of each image"):
        made(name).losses(views()[:1])
    if METHODS[name].settings_type.takes_many_views:
        assert made(name).losses([views()[0]] * 3).each.shape == (4,)
    else:
        with pytest.raises(CoviewsError, match="two views of each image, not from 3"):
            made(name).losses([views()[0]] * 3)


def test_wrong_choices_are_said():
    with pytest.raises(CoviewsError, match="unknown method 'simclear': did you mean 'simclr'"):
        method_settings("simclear")
    for name, options in (
        ("simclr", {"temperature": 0}),
        ("moco", {"temperature": -1.0}),
        ("moco", {"momentum": 1.5}),
        ("moco", {"bank": 1}),
        ("simclr", {"projector": 0}),
        ("byol", {"predictor": 0}),
        ("simsiam", {"predictor": -3}),
        ("byol", {"momentum": -0.1}),
        ("dino", {"momentum": 1.1}),
        ("dino", {"prototypes": 0}),
        ("dino", {"bottleneck": 0}),
        ("dino", {"teacher_temperature": 0}),
        ("dino", {"student_temperature": -1}),
        ("dino", {"teacher_start": 0}),
        ("dino", {"teacher_warmup": -1}),
        ("vicreg", {"variance": -1}),
        ("vicreg", {"projector": 0}),
    ):
        with pytest.raises(CoviewsError, match=f"must .* not {next(iter(options.values()))}"):
            settings(name, **options)
