"""PPO: its step against torch, a toy whose answer is known, and what happens when something goes wrong."""

import itertools
import math
import warnings

import numpy as np
import pytest
import torch

from coviews import CoviewsError, space
from coviews.policies.learned import Policy
from coviews.policies.network import NetworkSettings
from coviews.searching.ppo import PPO, PPOSettings, Scores, _Adam
from coviews.searching.reward import BoundedReward
from naive_network import loud, naive_evaluate, naive_weights

PAPER = space("autoaugment")
SMALL = NetworkSettings(hidden=16, embedding=8)


def search(score, seed=0, ppo=None, policy=None, **options):
    """A search by a function that gives rewards alone; `options` are those of the untrained policy."""
    rng = np.random.default_rng(seed)
    made = policy or Policy.untrained(PAPER, rng, **{"settings": SMALL, **options})
    return PPO(made, lambda drawn: Scores(score(drawn), np.zeros(len(drawn), bool)), rng, ppo)


# --- the step ---------------------------------------------------------------------------------------------------


def test_adam_is_torchs():
    rng = np.random.default_rng(0)
    start = rng.standard_normal(50)
    ours, theirs = start.copy(), torch.nn.Parameter(torch.tensor(start))
    adam, reference = _Adam(ours, 0.01), torch.optim.Adam([theirs], lr=0.01)
    for _ in range(200):
        gradient = rng.standard_normal(50) * 10.0 ** rng.integers(-9, 2, 50)
        adam.step(gradient)
        theirs.grad = torch.tensor(gradient)
        reference.step()
    np.testing.assert_allclose(ours, theirs.detach(), rtol=1e-9)


@pytest.mark.parametrize("kind", ["coviews", "indepviews"])
@pytest.mark.parametrize("gradient_clip", [None, 0.01])
def test_the_gradient_is_that_of_the_papers_loss(kind, gradient_clip):
    """On samples whose ratio is below, inside and above the clip, with advantages of either sign."""
    rng = np.random.default_rng(0)
    policy = Policy.untrained(PAPER, rng, kind=kind, settings=NetworkSettings(8, 4))
    policy = Policy(PAPER, loud(policy.network, rng))
    drawn = policy.sample(40, rng)
    old = policy.network.evaluate(drawn.ops, drawn.levels).log_prob + rng.normal(0, 0.3, 40)
    advantage = rng.standard_normal(40)

    ppo = PPO(policy, lambda _: None, rng, PPOSettings(clip=0.2, entropy=0.07, gradient_clip=gradient_clip))
    taken = []
    ppo._adam.step = taken.append
    ppo._learn(drawn.ops, drawn.levels, old, advantage)

    w = naive_weights(policy.network)
    log_prob, entropy = naive_evaluate(policy.network, w, drawn.ops, drawn.levels)
    ratio, a = torch.exp(log_prob - torch.tensor(old)), torch.tensor(advantage)
    assert min((ratio < 0.8).sum(), (ratio > 1.2).sum(), ((ratio > 0.8) & (ratio < 1.2)).sum()) > 5
    loss = -torch.minimum(ratio * a, ratio.clamp(0.8, 1.2) * a).mean() - 0.07 * entropy.mean()
    loss.backward()
    if gradient_clip is not None:
        torch.nn.utils.clip_grad_norm_(w.values(), gradient_clip)
    expected = np.concatenate([x.grad.numpy().ravel() for x in w.values()])
    np.testing.assert_allclose(taken[0], expected, atol=1e-8 if gradient_clip else 1e-13)


def test_what_a_step_tells():
    rng = np.random.default_rng(0)
    policy = Policy.untrained(PAPER, rng, settings=SMALL)
    before = policy.copy()
    seen = []

    def score(drawn):
        seen.append(drawn)
        return Scores((drawn.ops == 3).mean((1, 2)), drawn.ops[:, 0, 0] == 3)

    step = next(iter(PPO(policy, score, rng, PPOSettings(samples=200, minibatch=30, learning_rate=3e-3))))
    rewards = (seen[0].ops == 3).mean((1, 2))
    was, now = (p.network.evaluate(seen[0].ops, seen[0].levels) for p in (before, policy))
    ratio = np.exp(now.log_prob.astype(float) - was.log_prob)
    assert step.iteration == 1
    assert step.reward == pytest.approx(rewards.mean())
    assert step.reward_std == pytest.approx(rewards.std())
    assert step.over == (seen[0].ops[:, 0, 0] == 3).mean()
    assert step.entropy == pytest.approx(was.entropy.mean())
    assert step.kl == pytest.approx((ratio - 1 - np.log(ratio)).mean(), rel=1e-4)
    assert step.kl > 0
    assert step.clipped == pytest.approx((np.abs(ratio - 1) > 0.2).mean(), abs=0.011)
    assert step.skipped is None


# --- the toy ----------------------------------------------------------------------------------------------------
# Half of the reward is for Rotate at level 2, or Solarize at level 7, in view 1; the other half for the other of
# the two operations in view 2. A policy whose view 2 knows view 1 can earn 1. Where both views are drawn from one
# distribution, each alone, and it gives the two operations q and r, the policy earns at most
#   (q + r) / 2 + q r  <=  3/4,
# and if its levels do not know the operation, so that the right level is at hand for only a share u of the Rotates
# and 1 - u of the Solarizes, at most
#   (q u + r (1 - u)) / 2 + q r  <=  q / 2 + q (1 - q)  <=  9/16.

ROTATE, SOLARIZE = PAPER.index("Rotate"), PAPER.index("Solarize")


def toy(ops, levels):
    first, second, level = ops[:, 0, 0], ops[:, 1, 0], levels[:, 0, 0]
    placed = ((first == ROTATE) & (level == 2)) | ((first == SOLARIZE) & (level == 7))
    paired = ((first == ROTATE) & (second == SOLARIZE)) | ((first == SOLARIZE) & (second == ROTATE))
    return 0.5 * placed + 0.5 * paired


def expected_reward(policy):
    """Exact: all pairs of actions, weighted by their probabilities."""
    counts = PAPER.has_magnitude | (not policy.network.settings.masked)
    steps = [(o, k) for o in range(16) for k in (range(11) if counts[o] else [0])]
    pairs = np.array(list(itertools.product(steps, steps)))
    ops, levels = pairs[:, :, :1], pairs[:, :, 1:]
    p = np.exp(policy.network.evaluate(ops, levels).log_prob.astype(np.float64))
    assert p.sum() == pytest.approx(1, abs=1e-4)
    return (p * toy(ops, levels)).sum() / p.sum()


def play(seed, ppo_settings, most, **options):
    """The expected reward that a search ends with; on its way it must not pass `most`."""
    ppo = search(lambda drawn: toy(drawn.ops, drawn.levels), seed, ppo_settings, steps=1, **options)
    assert expected_reward(ppo.policy) < 0.02
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # once the toy is solved, its reward is constant
        for step in ppo:
            if step.iteration % 20 == 0:
                assert expected_reward(ppo.policy) <= most + 1e-6
    return expected_reward(ppo.policy)


@pytest.mark.parametrize("seed", range(2))
def test_coviews_solves_the_toy(seed):
    assert play(seed, PPOSettings(), 1.0, kind="coviews", settings=NetworkSettings()) > 0.95


@pytest.mark.parametrize("seed", range(2))
def test_indepviews_reaches_the_bound_of_independence_and_no_more(seed):
    assert play(seed, PPOSettings(), 3 / 4, kind="indepviews", settings=NetworkSettings()) > 0.7


def test_levels_that_do_not_know_the_operation_have_a_lower_bound():
    plain = NetworkSettings(hidden=32, embedding=16, conditioned=False)
    settings = PPOSettings(learning_rate=1e-3)
    assert play(0, settings, 9 / 16, kind="indepviews", settings=plain) > 0.53
    assert play(0, settings, 1.0, kind="coviews", settings=plain) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "least", "most"), [("coviews", 0.95, 1.0), ("indepviews", 0.53, 9 / 16)])
def test_the_papers_network_and_budget_on_the_toy(kind, least, most):
    assert play(0, PPOSettings.paper(), most, kind=kind, settings=NetworkSettings.paper()) > least


def test_learning_shows_through_noise():
    """The signal is a tenth of the reward's variance, as with a real encoder."""
    wanted = [PAPER.index(op) for op in ("Brightness", "Color", "Equalize")]
    rng = np.random.default_rng(5)
    ppo = search(lambda drawn: np.isin(drawn.ops, wanted).mean((1, 2)) + 0.6 * rng.standard_normal(len(drawn)))
    before = np.isin(ppo.policy.sample(4000, rng).ops, wanted).mean()
    steps = list(ppo)
    after = np.isin(ppo.policy.sample(4000, rng).ops, wanted).mean()
    assert before == pytest.approx(3 / 16, abs=0.03)
    assert after > 0.35
    assert steps[-1].entropy < steps[0].entropy


def noisy(rng):
    return lambda drawn: (drawn.ops < 4).mean((1, 2)) + rng.standard_normal(len(drawn))


# --- when something goes wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_ends_the_search_and_leaves_the_policy(bad):
    calls = []

    def score(drawn):
        calls.append(ppo.policy.network.flat.copy())
        rewards = (drawn.ops < 4).mean((1, 2))
        if len(calls) == 3:
            rewards[[5, 17]] = bad
        return rewards

    ppo = search(score, ppo=PPOSettings(iterations=9, samples=32))
    with pytest.warns(UserWarning, match="iteration 3: 2 of 32 rewards are not finite") as caught:
        steps = list(ppo)
    assert len(str(caught[0].message).splitlines()) <= 2
    assert [s.iteration for s in steps] == [1, 2, 3]
    assert steps[1].skipped is None
    assert steps[2].skipped == ppo.stopped == "2 of 32 rewards are not finite"
    assert ppo.policy.network.flat.tobytes() == calls[2].tobytes()
    assert list(ppo) == []


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-12, -7e9])
def test_nothing_is_learned_from_a_constant_reward_and_it_is_said_once(value):
    rounding = np.random.default_rng(0)
    ppo = search(
        lambda drawn: value * (1 + 1e-8 * rounding.standard_normal(len(drawn))),
        ppo=PPOSettings(iterations=4, samples=32),
    )
    before = ppo.policy.network.flat.tobytes()
    with pytest.warns(UserWarning, match="nothing can be learned") as caught:
        steps = list(ppo)
    assert len(caught) == 1
    assert len(str(caught[0].message).splitlines()) <= 2
    assert [s.skipped for s in steps] == ["constant reward"] * 4
    assert ppo.policy.network.flat.tobytes() == before


def test_a_small_reward_is_not_a_constant_one():
    ppo = search(lambda drawn: 1e-12 * (drawn.ops < 4).mean((1, 2)), ppo=PPOSettings(iterations=1, samples=32))
    assert next(iter(ppo)).skipped is None


def test_weights_that_run_away_end_the_search_and_are_taken_back():
    ppo = search(noisy(np.random.default_rng(0)), ppo=PPOSettings(learning_rate=1e37, samples=32))
    before = ppo.policy.network.flat.tobytes()
    with pytest.warns(UserWarning, match="lower learning rate"):
        steps = list(ppo)
    assert len(steps) < 100
    assert ppo.stopped
    assert np.isfinite(ppo.policy.network.flat).all()
    if len(steps) == 1:
        assert ppo.policy.network.flat.tobytes() == before


def test_a_scorer_that_answers_wrongly_is_told_so():
    with pytest.raises(CoviewsError, match=r"each of 32 subpolicies, not \(\) and \(32,\)"):
        next(iter(search(lambda drawn: 1.0)))
    with pytest.raises(CoviewsError, match=r"not \(32, 2\) and"):
        next(iter(search(lambda drawn: np.zeros((len(drawn), 2)))))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"iterations": 0}, "iterations must be a whole number from 1 to 1,000,000, not 0"),
        ({"samples": 1}, "samples must be a whole number from 2 to 1,000,000, not 1"),
        ({"epochs": 1.5}, "epochs must be a whole number from 1 to 1,000,000, not 1.5"),
        ({"minibatch": 33}, "minibatch of 33 is more than its 32 samples"),
        ({"epochs": 101}, "epochs must be at most 100, not 101"),
        ({"iterations": 10_001}, "iterations must be at most 10,000, not 10,001"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0, not 0.0"),
        ({"learning_rate": math.nan}, "learning_rate must be above 0, not nan"),
        ({"clip": -0.2}, "clip must be above 0"),
        ({"gradient_clip": 0.0}, "gradient_clip must be above 0"),
        ({"entropy": -1.0}, "entropy must be 0 or more"),
        ({"reference_batches": 2**63 - 1}, "reference_batches must be a whole number from 1 to 1,000,000"),
        ({"reference_batches": 1_000_000}, "are 128,000,000 pairs, more than 10,000,000"),
        ({"samples": 10**6, "images_each": 100}, "are 100,000,000 pairs, more than 10,000,000"),
        ({"every": 0}, "every must be a whole number from 1"),
        ({"images_each": 0}, "images_each must be a whole number from 1"),
        ({"steps": 0}, "steps must be a whole number from 1"),
        ({"p": 2.0}, "probability of a step must be in 0..1, not 2.0"),
        ({"reference": "unifrm"}, "did you mean 'uniform'"),
    ],
)
def test_settings_that_make_no_sense(options, says):
    with pytest.raises(CoviewsError, match=says):
        PPOSettings(**options)


def test_the_papers_table():
    table = {"iterations": 100, "samples": 128, "epochs": 4, "minibatch": 16, "learning_rate": 5e-5, "clip": 0.2}
    scored = {"reference": "current", "reference_batches": 20, "images_each": 1, "batch": 128}
    assert PPOSettings.paper() == PPOSettings(
        **table, **scored, entropy=0.05, gradient_clip=None, network=NetworkSettings.paper(),
        reward=BoundedReward("ratio"), every=10, warm_start=False, steps=2, p=0.8,
    )  # fmt: skip
