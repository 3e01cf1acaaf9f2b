"""The search on a real encoder: it learns, it changes nothing, and it says what is wrong."""

import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import coviews
from coviews import BoundedReward, CoviewsError, PPOSettings, ViewSettings, info_nce, search
from coviews.encoders.architectures import check_encoder
from coviews.encoders.features import features
from coviews.encoders.frozen import evaluating
from coviews.methods.losses import chance_loss
from coviews.policies.fixed import Uniform
from coviews.policies.subpolicy import Subpolicies
from coviews.searching.ppo_search import Scorer
from coviews.training.pair_losses import PairLosses, encoder_losses

PAPER_SPACE = coviews.space("autoaugment")
UNIFORM = Uniform(PAPER_SPACE, 2, 0.8)


def tiny_encoder(seed=0):
    torch.manual_seed(seed)
    layers = []
    for i, o in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(i, o, 3, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 32))


@pytest.fixture(scope="module")
def images():
    return coviews.load_images("shapes:1500", size=16).images


@pytest.fixture(scope="module")
def views(images):
    return ViewSettings.of(images, threads=1)


@pytest.fixture(scope="module")
def encoder(images, views):
    """A few epochs of SimCLR."""
    made, generator = tiny_encoder(), np.random.default_rng(0)
    optimizer = torch.optim.Adam(made.parameters(), 3e-3)
    for _ in range(12):
        for batch in np.array_split(generator.permutation(len(images)), 10):
            plan = views.plan(UNIFORM, len(batch), (16, 16), generator)
            x1, x2 = coviews.to_tensors(views.make(images[batch], plan), views.mean, views.std)
            loss = info_nce(made(x1), made(x2)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return made


def scorer_for(encoder, images, views, reward, seed, images_each=1):
    generator, losses = np.random.default_rng(seed), PairLosses(encoder_losses(encoder, 0.5), images, views)
    scorer = Scorer(lambda drawn: losses(drawn, generator, BATCH), reward, chance_loss(BATCH), images_each)
    return scorer, generator


BATCH = 128
BOUNDS = [BoundedReward("capped"), BoundedReward("ratio", 1.15), BoundedReward("relative", 0.69)]


@pytest.mark.parametrize("reward", BOUNDS, ids=lambda r: r.bound)
def test_the_policy_beats_uniform_on_fresh_images_over_five_seeds(encoder, images, views, reward):
    settings = PPOSettings(iterations=80, reward=reward)
    train, fresh = images[:1000], images[1000:]
    gains, rises, cosines = [], [], []
    for seed in range(5):
        steps = []
        policy = search(
            train, encoder, generator=np.random.default_rng(seed), settings=settings, views=views,
            space_name=PAPER_SPACE.name, on_step=steps.append,
        )  # fmt: skip
        rewards = [s.reward for s in steps]
        rises.append(np.mean(rewards[-10:]) - np.mean(rewards[:10]))
        with evaluating(encoder):
            scorer, g = scorer_for(encoder, fresh, views, reward, 100 + seed, settings.images_each)
            scorer.measure_reference(UNIFORM.sample(10 * BATCH, g))
            uniform, learned = (scorer(s.sample(1280, g)).rewards.mean() for s in (UNIFORM, policy))
            cosines.append(positive_cosine(encoder, fresh, views, policy, g))
        gains.append(learned - uniform)
    gains, rises = np.array(gains), np.array(rises)
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    assert gains.mean() > 3 * error, (gains, error)
    assert rises.mean() > 0, rises
    if reward.bound != "ratio":  # hard, but not destroyed: chance is a cosine of about that of any two images
        own, others = np.mean(cosines, axis=0)
        assert own > others + 0.15, (own, others)


def positive_cosine(encoder, images, views, source, generator):
    """The mean cosine of the two views of an image, and of views of different images."""
    batch = images[generator.permutation(len(images))[:400]]
    made = views.make(batch, views.plan(source, len(batch), (16, 16), generator))
    with torch.inference_mode():
        z1, z2 = (F.normalize(encoder(x), dim=1) for x in coviews.to_tensors(made, views.mean, views.std))
    similar = (z1 @ z2.T).numpy()
    return similar.diagonal().mean(), similar[~np.eye(len(similar), dtype=bool)].mean()


def test_the_ratio_bound_warns_where_it_is_empty(images, views):
    weak = tiny_encoder(seed=3)
    settings = PPOSettings(iterations=1, reward=BoundedReward("ratio"))
    with pytest.warns(UserWarning, match="no upper bound"):
        search(images, weak, generator=np.random.default_rng(0), settings=settings, views=views)


def test_nothing_of_the_encoder_changes(images, views):
    encoder = tiny_encoder()
    encoder.train()
    encoder[1].eval()  # a user's own choice of modes comes back as it was
    encoder.register_buffer("seen", torch.zeros(3), persistent=False)
    before = {k: v.clone() for k, v in [*encoder.named_parameters(), *encoder.named_buffers()]}
    modes = [m.training for m in encoder.modules()]
    state = torch.random.get_rng_state()
    settings = PPOSettings(iterations=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search(images, encoder, generator=np.random.default_rng(0), settings=settings, views=views)
    assert len(before) > 10
    assert all(torch.equal(before[k], v) for k, v in [*encoder.named_parameters(), *encoder.named_buffers()])
    assert [m.training for m in encoder.modules()] == modes
    assert all(p.grad is None for p in encoder.parameters())
    assert torch.equal(state, torch.random.get_rng_state())


def test_what_an_encoder_keeps_of_a_pass_can_still_be_trained_with(images, views):
    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.kept = tiny_encoder(), None

        def forward(self, x):
            if self.kept is None:
                self.kept = torch.ones(32) * self.inner[-1].weight.detach().mean()
            return self.inner(x) * self.kept

    encoder = Keeps()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = PPOSettings(iterations=1)
        search(images, encoder, generator=np.random.default_rng(0), settings=settings, views=views)
    encoder(torch.zeros(4, 3, 16, 16)).sum().backward()


def test_an_encoder_that_is_constant_says_that_nothing_can_be_learned(images, views):
    class Constant(nn.Module):
        def forward(self, x):
            return torch.ones(len(x), 8)

    settings = PPOSettings(iterations=2)
    with pytest.warns(UserWarning, match="nothing can be learned"):
        search(images, Constant(), generator=np.random.default_rng(0), settings=settings, views=views)


def test_the_papers_search_runs(encoder, images, views):
    settings = replace(PPOSettings.paper(), iterations=2)
    source = coviews.view_source("random", space_name="autoaugment")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        policy = search(
            images, encoder, generator=np.random.default_rng(0), settings=settings, views=views, source=source,
            space_name="autoaugment",
        )  # fmt: skip
    assert policy.network.settings.hidden == 512
    assert policy.statistics["iterations"] == 2


def test_modes_come_back_after_an_error():
    encoder = tiny_encoder().train()

    def fails():
        with evaluating(encoder):
            assert not any(m.training for m in encoder.modules())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert all(m.training for m in encoder.modules())


def test_the_scorer_equals_a_plain_computation(encoder, images, views):
    reward = BoundedReward("ratio")
    drawn = UNIFORM.sample(256, np.random.default_rng(5)).applied(np.random.default_rng(6))
    with evaluating(encoder):
        scorer, _ = scorer_for(encoder, images, views, reward, 9)
        scorer.reference = 4.5
        scores = scorer(drawn)
        g = np.random.default_rng(9)
        losses = []
        for half in (drawn[:128], drawn[128:]):
            chosen = g.choice(len(images), 128, replace=False, shuffle=False)
            assert len(set(chosen.tolist())) == 128
            made = coviews.make_views(images[chosen], coviews.Plan.draw(half, 128, (16, 16), g), fill=views.fill)
            with torch.no_grad():
                x1, x2 = coviews.to_tensors(made, views.mean, views.std)
                losses.append(info_nce(encoder(x1), encoder(x2), 0.5).numpy())
    losses = np.concatenate(losses)
    np.testing.assert_allclose(scores.rewards, reward(losses, 4.5, chance_loss(128)), rtol=1e-4, atol=1e-4)


def test_the_reference_is_the_mean_over_batches_of_the_same_size(encoder, images, views):
    with evaluating(encoder):
        values = []
        for seed in range(4):
            scorer, g = scorer_for(encoder, images, views, BoundedReward(), seed)
            values.append(scorer.measure_reference(UNIFORM.sample(8 * BATCH, g)))
        identity = Subpolicies.from_texts(["Identity, Identity | Identity, Identity"] * 128, PAPER_SPACE)
        easy = scorer.pair_losses(identity).mean()
    assert np.std(values) < 0.1
    assert easy < min(values) < chance_loss(128)


def test_the_current_source_can_be_the_reference(encoder, images, views):
    settings = PPOSettings(iterations=1, reference="current")
    with pytest.raises(CoviewsError, match="source="):
        search(images, encoder, generator=np.random.default_rng(0), settings=settings, views=views)

    def reference(source):
        policy = search(
            images, encoder, generator=np.random.default_rng(0), settings=settings, views=views, source=source
        )
        return policy.statistics["reference"]

    assert reference(coviews.view_source("randaugment", magnitude=1)) < reference(coviews.view_source("random"))


def test_two_searches_with_one_seed_are_equal_and_the_threads_do_not_matter(encoder, images):
    settings = PPOSettings(iterations=3)
    weights = [
        search(
            images,
            encoder,
            generator=np.random.default_rng(seed),
            settings=settings,
            views=ViewSettings.of(images, threads=threads),
        ).network.flat
        for seed, threads in ((1, 1), (1, 2), (2, 1))
    ]
    assert np.array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])


def test_the_progress_bar_changes_nothing(encoder, images, views):
    settings = PPOSettings(iterations=2)
    options = {"settings": settings, "views": views}
    plain, shown = (
        search(images, encoder, generator=np.random.default_rng(0), progress=p, **options) for p in (False, True)
    )
    assert np.array_equal(plain.network.flat, shown.network.flat)


@pytest.mark.parametrize("kind", ["coviews", "indepviews"])
def test_kinds_and_warm_start(encoder, images, views, kind):
    settings = PPOSettings(iterations=2)
    options = {"settings": settings, "views": views}
    first = search(images, encoder, generator=np.random.default_rng(0), kind=kind, **options)
    assert first.kind == kind
    kept = first.network.flat.copy()
    second = search(images, encoder, generator=np.random.default_rng(1), start=first, **options)
    assert second.kind == kind
    assert np.array_equal(first.network.flat, kept)  # the older policy stays as it was
    apart = np.abs(second.network.flat - kept).max()
    assert 0 < apart < 0.1
    assert second.statistics["iterations"] == 2
    other = {"coviews": "indepviews", "indepviews": "coviews"}[kind]
    with pytest.raises(CoviewsError, match=f"of the kind '{kind}'"):
        search(images, encoder, generator=np.random.default_rng(1), start=first, kind=other, **options)


def test_a_loss_function_instead_of_an_encoder(images, views):
    """The darker the first view, the higher the loss: the policy finds what darkens."""

    def darkness(x1, x2):
        return 5.0 - x1.mean((1, 2, 3)).clamp(-2, 2)

    settings = PPOSettings(iterations=60, learning_rate=2e-3, reward=BoundedReward("ratio", 5.0))
    policy = search(
        images, losses=darkness, chance=100.0, generator=np.random.default_rng(0), settings=settings, views=views
    )
    g = np.random.default_rng(1)
    plans = [coviews.Plan.draw(source, 500, (16, 16), g) for source in (policy, UNIFORM)]
    brightness = [coviews.make_views(images[:500], plan)[:, 0].mean() for plan in plans]
    assert brightness[0] < 0.75 * brightness[1]


def test_a_loss_that_is_not_finite_ends_the_search_and_keeps_the_policy(images, views):
    calls = iter(range(100))

    def losses(x1, x2):
        found = 5 + x1.mean((1, 2, 3))
        return torch.full_like(found, torch.nan) if next(calls) == 8 else found

    settings = PPOSettings(reference_batches=5)
    steps = []
    with pytest.warns(UserWarning, match="not finite"):
        policy = search(
            images, losses=losses, generator=np.random.default_rng(0), settings=settings, views=views,
            chance=100.0, on_step=steps.append,
        )  # fmt: skip
    assert len(steps) == 4  # calls 5, 6 and 7 were good
    assert np.isfinite(policy.network.flat).all()
    assert policy.statistics["stopped"] is not None
    assert policy.statistics["last"]["iteration"] == 3


def test_a_constant_loss_says_that_nothing_can_be_learned(images, views):
    settings = PPOSettings(iterations=2)
    with pytest.warns(UserWarning, match="nothing can be learned"):
        search(
            images, losses=lambda a, b: torch.full((len(a),), 3.0), generator=np.random.default_rng(0),
            settings=settings, views=views,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either an encoder or a loss"),
        ({"losses": lambda a, b: torch.full((len(a),), torch.inf)}, "reference loss is inf"),
        ({"losses": lambda a, b: a.mean()}, "one number for each of 128 pairs"),
        ({"encoder": nn.Flatten(), "temperature": 0}, "temperature must be above 0"),
        ({"losses": lambda a, b: a.mean((1, 2, 3)), "kind": "coview"}, "did you mean 'coviews'"),
        ({"losses": lambda a, b: a.mean((1, 2, 3)), "space_name": "simcrl"}, "did you mean 'simclr'"),
    ],
)
def test_bad_input_is_named(images, views, options, message):
    with pytest.raises(CoviewsError, match=re.escape(message)):
        search(images, generator=np.random.default_rng(0), views=views, **options)


def test_bad_settings_and_too_few_images_are_named(images, encoder):
    with pytest.raises(CoviewsError, match="batches of 128 images, but there are 100"):
        search(images[:100], encoder, generator=np.random.default_rng(0))
    with pytest.raises(CoviewsError, match="did you mean 'uniform'"):
        PPOSettings(reference="unifrm")
    with pytest.raises(CoviewsError, match="whole number of batches"):
        search(images, encoder, generator=np.random.default_rng(0), settings=PPOSettings(batch=100))
    with pytest.raises(CoviewsError, match="images_each must be a whole number from 1"):
        PPOSettings(images_each=0)


def test_the_example_of_the_docs_runs(capsys):
    path = Path(__file__).parents[2] / "examples" / "own_loop.py"
    lines = path.read_text().splitlines()
    assert len([ln for ln in lines if ln.strip() and not ln.startswith(("import", '"""'))]) <= 30
    quick = path.read_text().replace("shapes:2048", "shapes:512").replace("range(1, 13)", "range(1, 6)")
    quick = quick.replace(
        "generator=generator)",
        "generator=generator, settings=coviews.PPOSettings(iterations=2))",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runpy_source(quick)
    losses = [float(x) for x in re.findall(r"loss ([\d.]+)", capsys.readouterr().out)]
    assert len(losses) == 5
    assert losses[3] < losses[0]


def runpy_source(source):
    exec(compile(source, "own_loop.py", "exec"), {"__name__": "__main__"})


class Named(nn.Module):
    """An encoder as Hugging Face's models are: it gives several tensors by name."""

    def forward(self, x):
        return {"last_hidden_state": x, "pooler_output": x.mean((2, 3))}


def test_an_encoder_that_gives_a_dict_is_an_error_that_says_what_to_do(images):
    message = r"dict \(last_hidden_state, pooler_output\): wrap it in a module whose forward returns one tensor"
    with pytest.raises(CoviewsError, match=message):
        search(images, Named(), generator=torch.Generator())
    with pytest.raises(CoviewsError, match=message):
        check_encoder(Named(), (16, 16), 3)
    with pytest.raises(CoviewsError, match=message):
        features(Named(), images[:8], (0.5,) * 3, (0.25,) * 3)
