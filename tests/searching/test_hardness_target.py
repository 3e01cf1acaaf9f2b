"""PPO with a target for the hardness of its views, on a toy in which the hardness of a policy is known."""

import warnings

import numpy as np
import pytest

from coviews import CoviewsError, PPOSettings, space
from coviews.searching.hardness_target import HardnessTarget
from coviews.searching.ppo_search import PPOSearch, learn_policy
from coviews.searching.reward import BoundedReward

SPACE, CHANCE = space("autoaugment"), 5.54
EFFECTS = np.random.default_rng(3).standard_normal(16)  # of the operations on the loss


def searched(hardness, level, spread, noise, seed=0, **options):
    """The hardness of the policy that a search ends with, and the policy.

    Args:
        hardness: the target.
        level: the loss of a pair without effects.
        spread: of the operations' effects.
        noise: of each pair's loss, from its image.
        seed: of the search.
        options: of PPO.
    """
    rng, generator = np.random.default_rng(seed + 100), np.random.default_rng(seed)

    def expected(subpolicies):
        return level + spread * EFFECTS[subpolicies.ops].sum((1, 2))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        policy = learn_policy(
            lambda drawn: expected(drawn) + noise * rng.standard_normal(len(drawn)), generator=generator,
            kind="coviews", space=SPACE, chance=CHANCE,
            settings=PPOSettings(hardness=hardness, reference_batches=50, **options),
        )  # fmt: skip
    reference = level + 4 * spread * EFFECTS.mean()
    loss = expected(policy.sample(20_000, generator)).mean()
    return (loss - reference) / (CHANCE - reference), policy


@pytest.mark.parametrize("target", [0.1, 0.25, -0.1])
def test_the_target_is_met(target):
    """A search without a target goes about twice as far as the farthest of these."""
    hardness, policy = searched(target, 4.0, 0.15, 0.5)
    assert hardness == pytest.approx(target, abs=0.05)
    assert policy.statistics["target"] == target
    assert PPOSearch.objection(policy) is None


def test_a_young_encoder_no_longer_teaches_the_search_to_be_mild():
    """A quarter of the reference's own pairs are over the bound, because of their images, and are punished."""
    without, policy = searched(None, 5.0, 0.03, 1.2)
    assert policy.statistics["first"]["over"] > 0.15
    assert without < 0
    assert "target" not in policy.statistics
    hardness, policy = searched(0.1, 5.0, 0.03, 1.2)
    assert hardness > 0.05
    assert policy.statistics["over"] < 0.5


def test_a_policy_that_is_easier_though_it_should_be_harder_is_not_used():
    _, policy = searched(0.1, 4.0, 0.15, 0.5, iterations=2)
    easier = policy.with_statistics({**policy.statistics, "loss": policy.statistics["reference"] - 0.1})
    assert "its views are easier than before" in PPOSearch.objection(easier)
    asked = easier.with_statistics({**easier.statistics, "target": -0.1})
    assert PPOSearch.objection(asked) is None


def test_the_slope_of_the_reward():
    losses, reward = np.array([3.0, 4.0, 5.0, 5.4]), BoundedReward("ratio")
    paper = reward(losses, 4.0, CHANCE)
    assert np.array_equal(reward(losses, 4.0, CHANCE, slope=1.0), paper)
    for slope in (-2.0, 0.0, 5.0):  # it turns about the bound, beyond which nothing changes
        steeper = reward(losses, 4.0, CHANCE, slope)
        np.testing.assert_allclose(steeper[:3], 1.3 + slope * (paper[:3] - 1.3))
        assert steeper[3] == paper[3]


def test_an_encoder_that_tells_no_pair_from_another_steers_nothing():
    target = HardnessTarget(0.1)
    target.steer(5.6, 5.6, CHANCE)
    target.steer(float("nan"), 4.0, CHANCE)
    assert target.slope == 1.0
    target.steer(4.0, 4.0, CHANCE)
    assert target.slope > 1
    with pytest.raises(CoviewsError, match="hardness must be between -1 and 1"):
        PPOSettings(hardness=1.0)


def test_the_papers_search_has_no_target():
    assert PPOSettings.paper().hardness is None
