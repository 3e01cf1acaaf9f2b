"""Policy statistics against the probability of every subpolicy, against draws, and for views that are apart."""

import itertools
import time

import numpy as np
import pytest

from coviews import CoviewsError, NetworkSettings, Policy, PolicyQueue, Space, space
from coviews.policies import statistics
from coviews.policies.network import PolicyNetwork
from coviews.policies.statistics import mixed_statistics, policy_statistics
from naive_network import loud

TINY = Space("tiny", ("Rotate", "Identity", "Solarize"), np.array([[-9.0, 9.0], [0.0, 0.0], [64.0, 128.0]]))


def tiny_policy(kind="coviews", seed=0, views=2, steps=2, **settings):
    rng = np.random.default_rng(seed)
    network = PolicyNetwork(
        3, 2, TINY.has_magnitude, rng, views=views, steps=steps, cooperative=kind == "coviews",
        settings=NetworkSettings(hidden=8, embedding=4, **settings),
    )  # fmt: skip
    return Policy(TINY, loud(network, rng, scale=1.5))


def learned_like(seed=0, kind="coviews", **options):
    """A policy of the paper's space that prefers some things strongly."""
    policy = Policy.untrained(space("autoaugment"), np.random.default_rng(seed), kind=kind, **options)
    policy.network.flat[:] += 0.25 * np.random.default_rng(seed + 1).standard_normal(policy.network.flat.shape)
    return policy


def by_enumeration(policy):
    """(ops, levels, pairs) by summing the probability of every subpolicy there is."""
    network = policy.network
    counts = network.has_magnitude | (not network.settings.masked)
    tokens = [(o, k) for o in range(3) for k in (range(2) if counts[o] else [0])]
    every = np.array(list(itertools.product(tokens, repeat=network.views * network.steps)))
    every = every.reshape(-1, network.views, network.steps, 2)
    drawn, levels = every[..., 0], every[..., 1]
    p = np.exp(network.evaluate(drawn, levels).log_prob)
    assert p.sum() == pytest.approx(1, abs=1e-9)
    ops = np.array([[[p[drawn[:, v, s] == o].sum() for o in range(3)] for s in range(network.steps)]
                    for v in range(network.views)])  # fmt: skip
    chosen = np.zeros((*ops.shape, 2))
    for v, s, o, k in itertools.product(range(network.views), range(network.steps), range(3), range(2)):
        if network.has_magnitude[o]:
            chosen[v, s, o, k] = p[(drawn[:, v, s] == o) & (levels[:, v, s] == k)].sum()
    pairs = np.zeros((network.steps, network.steps, 3, 3))
    for s, t, a, b in itertools.product(range(network.steps), range(network.steps), range(3), range(3)):
        pairs[s, t, a, b] = p[(drawn[:, 0, s] == a) & (drawn[:, 1, t] == b)].sum()
    return ops, chosen, pairs


@pytest.mark.parametrize("kind", ["coviews", "indepviews"])
@pytest.mark.parametrize(("views", "steps"), [(2, 2), (2, 1), (3, 1), (2, 3)])
@pytest.mark.parametrize(("conditioned", "masked"), [(True, True), (False, False), (True, False)])
def test_statistics_equal_the_sum_over_all_subpolicies(kind, views, steps, conditioned, masked):
    policy = tiny_policy(kind, views=views, steps=steps, conditioned=conditioned, masked=masked)
    found = policy_statistics(policy)
    ops, levels, pairs = by_enumeration(policy)
    assert found.error == 0  # all of them were enumerated
    np.testing.assert_allclose(found.ops, ops, atol=1e-9)
    np.testing.assert_allclose(found.levels, levels, atol=1e-9)
    np.testing.assert_allclose(found.pairs, pairs, atol=1e-9)


def test_the_summaries_follow_from_their_definitions():
    policy = tiny_policy(seed=3)
    found = policy_statistics(policy)
    _, _, pairs = by_enumeration(policy)
    np.testing.assert_allclose(found.co_occurrence, pairs.mean((0, 1)), atol=1e-9)
    p1, p2 = found.ops.mean(1)
    np.testing.assert_allclose(found.lift, pairs.mean((0, 1)) / np.outer(p1, p2), rtol=1e-8)
    bits = np.mean([
        sum(
            pairs[s, t, a, b] * np.log2(pairs[s, t, a, b] / (found.ops[0, s, a] * found.ops[1, t, b]))
            for a in range(3) for b in range(3)
        )
        for s in range(2) for t in range(2)
    ])  # fmt: skip
    assert found.information == pytest.approx(bits, abs=1e-9)
    assert found.information > 0.01  # this policy does cooperate
    np.testing.assert_allclose(found.entropy[0, 0], -(found.ops[0, 0] * np.log2(found.ops[0, 0])).sum())
    assert (found.uncertainty <= found.entropy + 1e-9).all()  # knowing what came before cannot make it less certain
    np.testing.assert_allclose(found.level_given_op[[0, 2]].sum(1), 1)
    assert np.isnan(found.level_given_op[1]).all()


@pytest.mark.parametrize("policy", [tiny_policy("indepviews"), learned_like(kind="indepviews")])
def test_independent_views_have_lift_one_everywhere_and_share_no_information(policy):
    found = policy_statistics(policy)
    np.testing.assert_allclose(found.lift, 1, rtol=1e-12)
    assert found.information < 1e-12
    assert found.error == 0
    np.testing.assert_array_equal(found.ops[0], found.ops[1])


def test_cooperative_views_share_information():
    assert policy_statistics(learned_like()).information > 1e-3


def test_draws_agree_with_the_statistics():
    policy = learned_like()
    found = policy_statistics(policy)
    n = 200_000
    drawn = policy.sample(n, np.random.default_rng(0)).ops
    shares = np.stack([(drawn == o).mean(0) for o in range(16)], -1)
    spread = np.sqrt(found.ops * (1 - found.ops) / n + found.error**2)
    assert (np.abs(shares - found.ops) < 5 * spread).all()
    together = np.histogram2d(drawn[:, 0, 0], drawn[:, 1, 1], bins=[range(17)] * 2)[0] / n
    assert np.abs(together - found.pairs[0, 1]).max() < 5 * np.sqrt(found.pairs[0, 1].max() / n) + found.error


def test_a_sample_of_histories_is_as_close_as_its_error_says(monkeypatch):
    policy = tiny_policy(seed=5, steps=3)
    exact = policy_statistics(policy)
    monkeypatch.setattr(statistics, "_FEWEST", 300)
    monkeypatch.setattr(statistics, "_WORK", 0)
    off = []
    for seed in range(40):
        sampled = policy_statistics(policy, np.random.default_rng(seed))
        assert 0 < sampled.error < 0.05
        np.testing.assert_allclose(sampled.ops[0], exact.ops[0], atol=1e-12)  # the first steps are still exact
        np.testing.assert_allclose(sampled.ops.sum(-1), 1)
        off.append((sampled.ops - exact.ops) / sampled.error)
    assert np.sqrt(np.mean(np.square(off), 0)).max() < 1.2
    assert np.abs(np.mean(off, 0)).max() < 5 / np.sqrt(40)  # no bias


def test_the_paper_space_is_exact_for_three_steps_and_close_for_the_fourth():
    policy = learned_like()
    first, second = (policy_statistics(policy, np.random.default_rng(seed)) for seed in (1, 2))
    np.testing.assert_array_equal(first.ops[0], second.ops[0])
    np.testing.assert_array_equal(first.ops[1, 0], second.ops[1, 0])
    assert 0 < first.error < 0.003
    assert np.abs(first.ops[1, 1] - second.ops[1, 1]).max() < 5 * first.error


def test_eighty_policies_take_seconds():
    policy = learned_like()
    policy_statistics(policy)
    start = time.process_time()
    for _ in range(3):
        policy_statistics(policy)
    assert (time.process_time() - start) / 3 * 80 < 60  # about 16 s where nothing else runs


def test_the_papers_network_and_a_space_of_many_levels_are_sampled():
    policy = learned_like(settings=NetworkSettings.paper())
    found = policy_statistics(policy)
    assert 0 < found.error < 0.01
    many = Policy.untrained(space("trivialaugment"), np.random.default_rng(0))
    found = policy_statistics(many)
    np.testing.assert_allclose(found.ops.sum(-1), 1)
    np.testing.assert_allclose(found.co_occurrence.sum(), 1)


def test_weights_without_a_meaning_are_an_error():
    policy = learned_like()
    policy.network.flat[:] = 3e38
    with pytest.raises(CoviewsError, match="no probabilities"):
        policy_statistics(policy)
    policy.network.flat[:] = 40 * np.random.default_rng(0).standard_normal(policy.network.flat.shape)
    np.testing.assert_allclose(policy_statistics(policy).ops.sum(-1), 1, rtol=1e-6)


def test_a_queue_is_the_mixture_of_its_policies():
    queue = PolicyQueue(3, 0.6)
    policies = [tiny_policy("indepviews", seed) for seed in range(3)]
    for policy in policies:
        queue.push(policy)
    mixed = mixed_statistics([policy_statistics(p) for p in queue.policies], queue.weights.tolist())
    drawn = queue.sample(100_000, np.random.default_rng(0)).ops
    shares = np.stack([(drawn == o).mean(0) for o in range(3)], -1)
    assert np.abs(shares - mixed.ops).max() < 0.01
    assert np.abs(mixed.lift - 1).max() > 1e-3  # one policy makes both views: they are no longer independent
    with pytest.raises(CoviewsError, match="same space"):
        mixed_statistics([mixed, policy_statistics(learned_like())], [0.5, 0.5])
