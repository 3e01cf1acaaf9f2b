"""Adversarial AutoAugment is the search by PPO without a bound, with one gradient step on what it has drawn."""

import numpy as np
import pytest
import torch

from coviews import CoviewsError, PPOSettings, TableSettings, space
from coviews.policies.learned import Policy
from coviews.policies.network import NetworkSettings
from coviews.runs.presets import preset
from coviews.searching.ppo import PPO, Scores
from coviews.searching.ppo_search import PPOSearch, learn_policy
from coviews.searching.reward import BoundedReward
from naive_network import loud, naive_evaluate, naive_weights

OPERATIONS = space("autoaugment")
SETTINGS = preset("adversarial-autoaugment").search
FREE = BoundedReward("none")


def test_its_step_is_that_of_reinforce():
    """One step on all samples: minus the mean of advantage times log-probability, by torch's own gradient."""
    rng = np.random.default_rng(0)
    policy = Policy.untrained(OPERATIONS, rng, kind="indepviews", settings=NetworkSettings(8, 4))
    policy = Policy(OPERATIONS, loud(policy.network, rng))
    before, losses, asked, taken = policy.network.flat.copy(), rng.uniform(1, 9, 8), [], []

    def score(drawn):
        asked.append(drawn)
        return Scores(FREE(losses, 3.0, 5.0), FREE.over(losses, 3.0, 5.0))

    ppo = PPO(policy, score, rng, SETTINGS)
    ppo._adam.step = taken.append
    (step,) = list(ppo)
    assert len(taken) == len(asked) == 1
    assert step.over == 0

    advantage = torch.tensor((losses - losses.mean()) / losses.std())
    weights = naive_weights(policy.network)
    log_prob, entropy = naive_evaluate(policy.network, weights, asked[0].ops, asked[0].levels)
    (-(advantage * log_prob).mean() - SETTINGS.entropy * entropy.mean()).backward()
    wanted = np.concatenate([w.grad.ravel() for w in weights.values()])
    np.testing.assert_allclose(taken[0], wanted, rtol=1e-9, atol=1e-13)
    assert np.array_equal(before, policy.network.flat)  # Adam was replaced


def test_without_a_bound_a_higher_loss_is_always_better():
    losses = np.array([0.1, 1.0, 4.9, 5.0, 5.1, 50.0])
    rewards = FREE(losses, 2.0, 5.0)
    assert (np.diff(rewards) > 0).all()
    assert rewards == pytest.approx(losses / 2)
    assert not FREE.over(losses, 2.0, 5.0).any()
    assert not FREE.empty(2.0, 5.0)
    assert FREE(losses, 2.0, 5.0, slope=-2.0) == pytest.approx(-losses)


def learned(reward):
    """A policy in a world where Invert destroys the image, Rotate is hard, and all else is easy."""
    invert, rotate = OPERATIONS.index("Invert"), OPERATIONS.index("Rotate")

    def pair_losses(drawn):
        destroyed, hard = ((drawn.ops == op).any((1, 2)) for op in (invert, rotate))
        return np.where(destroyed, 5.5, np.where(hard, 2.5, 2.0))

    settings = PPOSettings(
        reward=reward, iterations=40, samples=32, batch=32, images_each=1, learning_rate=1e-2, entropy=0.05, p=1.0,
        network=NetworkSettings(16, 8),
    )  # fmt: skip
    policy = learn_policy(
        pair_losses, generator=np.random.default_rng(0), kind="indepviews", space=OPERATIONS, chance=5.54,
        settings=settings,
    )  # fmt: skip
    drawn = policy.sample(2000, np.random.default_rng(1)).ops
    return policy, float((drawn == invert).any((1, 2)).mean())


@pytest.mark.filterwarnings("ignore:search iteration")  # the toy is soon solved
def test_the_bound_is_what_keeps_views_recognisable():
    bounded, few = learned(BoundedReward("ratio"))
    free, most = learned(FREE)
    assert few < 0.1
    assert most > 0.9
    assert "unbounded" not in bounded.statistics
    refused = PPOSearch.objection(free.with_statistics({**free.statistics, "unbounded": None}))
    assert refused is not None  # with a bound, it would not be used
    kept = free.statistics | {"last": free.statistics["first"]}  # whatever the entropy
    assert PPOSearch.objection(free.with_statistics(kept)) is None


def test_what_makes_no_sense_without_a_bound_is_named():
    with pytest.raises(CoviewsError, match="the search table needs a bound"):
        TableSettings(reward=FREE)
    with pytest.raises(CoviewsError, match="without a bound there is no threshold"):
        BoundedReward("none", threshold=2.0)
