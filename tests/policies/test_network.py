"""The policy network against a plain one, its probabilities against its draws, and who knows of whom."""

import itertools
import math

import numpy as np
import pytest
import torch
from threadpoolctl import ThreadpoolController

from coviews import CoviewsError, space
from coviews.policies.blas_threads import one_blas_thread
from coviews.policies.network import NetworkSettings, PolicyNetwork
from naive_network import loud, naive_evaluate, naive_weights

PAPER = space("autoaugment")
HAS_MAGNITUDE = np.array([True, False, True])  # the tiny space: three operations at two levels


def tiny(seed=0, settings=None, **options):
    rng = np.random.default_rng(seed)
    settings = settings or NetworkSettings(hidden=8, embedding=4)
    return loud(PolicyNetwork(3, 2, HAS_MAGNITUDE, rng, settings=settings, **options), rng)


def every_action(network):
    """All subpolicies that the network tells apart (n, V, S)."""
    counts = HAS_MAGNITUDE | (not network.settings.masked)
    steps = [(o, k) for o in range(3) for k in (range(2) if counts[o] else [0])]
    result = np.array(list(itertools.product(steps, repeat=network.views * network.steps)))
    result = result.reshape(-1, network.views, network.steps, 2)
    return result[..., 0], result[..., 1]


@pytest.mark.parametrize("cooperative", [True, False])
@pytest.mark.parametrize(("views", "steps"), [(2, 2), (2, 1), (3, 1), (2, 4), (3, 2)])
@pytest.mark.parametrize(("conditioned", "masked"), [(True, True), (False, True), (True, False), (False, False)])
def test_probability_entropy_and_gradient_equal_the_plain_network(cooperative, views, steps, conditioned, masked):
    settings = NetworkSettings(hidden=7, embedding=5, conditioned=conditioned, masked=masked)
    network = tiny(settings=settings, cooperative=cooperative, views=views, steps=steps)
    rng = np.random.default_rng(1)
    ops, levels = network.sample(9, rng)
    by_log_prob, by_entropy = rng.standard_normal((2, 9))

    w = naive_weights(network)
    log_prob, entropy = naive_evaluate(network, w, ops, levels)
    (torch.tensor(by_log_prob) @ log_prob + torch.tensor(by_entropy) @ entropy).backward()

    result = network.evaluate(ops, levels)
    np.testing.assert_allclose(result.log_prob, log_prob.detach(), rtol=1e-12)
    np.testing.assert_allclose(result.entropy, entropy.detach(), rtol=1e-12)
    gradient = network.split(result.gradient(by_log_prob, by_entropy))
    for name, weight in w.items():
        np.testing.assert_allclose(gradient[name], weight.grad, atol=1e-12, rtol=1e-10, err_msg=name)


def test_single_precision_is_close_to_the_plain_network():
    rng = np.random.default_rng(0)
    network = PolicyNetwork(16, 11, PAPER.has_magnitude, rng)
    network.flat += 0.2 * rng.standard_normal(len(network.flat)).astype(np.float32)
    ops, levels = network.sample(20, rng)
    log_prob, entropy = naive_evaluate(network, naive_weights(network), ops, levels)
    result = network.evaluate(ops, levels)
    assert result.log_prob.dtype == np.float32
    np.testing.assert_allclose(result.log_prob, log_prob.detach(), rtol=2e-6)
    np.testing.assert_allclose(result.entropy, entropy.detach(), rtol=2e-6)


@pytest.mark.parametrize("cooperative", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(("views", "steps"), [(2, 1), (2, 2), (3, 1)])
def test_probabilities_of_all_actions_sum_to_one_and_are_those_of_the_draws(cooperative, masked, views, steps):
    settings = NetworkSettings(hidden=8, embedding=4, masked=masked)
    network = tiny(settings=settings, cooperative=cooperative, views=views, steps=steps)
    ops, levels = every_action(network)
    p = np.exp(network.evaluate(ops, levels).log_prob)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)

    n = 40_000
    drawn_ops, drawn_levels = network.sample(n, np.random.default_rng(3))
    code = {(*o, *k): i for i, (o, k) in enumerate(zip(flat(ops), flat(levels), strict=True))}
    drawn = [code[(*o, *k)] for o, k in zip(flat(drawn_ops), flat(drawn_levels), strict=True)]
    counts = np.bincount(drawn, minlength=len(p))
    seldom = p * n < 5  # too few to tell: one cell for all of them
    counts = np.append(counts[~seldom], counts[seldom].sum())
    expected = n * np.append(p[~seldom], p[seldom].sum())
    chi_square = ((counts - expected) ** 2 / np.maximum(expected, 1e-9)).sum()
    freedom = len(expected) - 1
    assert abs(chi_square - freedom) < 4.5 * math.sqrt(2 * freedom)


def flat(array):
    return array.reshape(len(array), -1).tolist()


class Given:
    """A generator whose uniform numbers are given."""

    def __init__(self, uniform):
        self.uniform = uniform

    def random(self, shape):
        return self.uniform.reshape(shape)


def second_views(network):
    """Draws of view 2 that differ in nothing but view 1."""
    rng = np.random.default_rng(4)
    uniform = rng.random((300, 2, network.steps, 2))
    uniform[:, 1] = uniform[0, 1]
    ops, levels = network.sample(300, Given(uniform))
    assert len({*map(tuple, flat(ops[:, 0]))}) > 3, "view 1 should vary"
    return {(*o, *k) for o, k in zip(flat(ops[:, 1]), flat(levels[:, 1]), strict=True)}


def test_in_indepviews_view_2_is_exactly_the_same_for_every_view_1():
    for seed in range(20):
        assert len(second_views(tiny(seed, cooperative=False, steps=2))) == 1
    network = tiny(cooperative=False, steps=1)
    joint = network.evaluate(*every_action(network)).log_prob.reshape(5, 5)  # (view 1, view 2)
    given_view_1 = joint - np.log(np.exp(joint).sum(1, keepdims=True))
    np.testing.assert_allclose(given_view_1, given_view_1[:1].repeat(5, 0), atol=1e-13)
    np.testing.assert_allclose(joint, joint.T, atol=1e-13)  # and both views have the same distribution


def test_in_coviews_view_2_depends_on_view_1():
    # a choice that is all but certain may hide it, so not for every seed
    assert sum(len(second_views(tiny(seed, cooperative=True, steps=2))) > 1 for seed in range(20)) > 15
    network = tiny(cooperative=True, steps=1)
    joint = network.evaluate(*every_action(network)).log_prob.reshape(5, 5)
    given_view_1 = joint - np.log(np.exp(joint).sum(1, keepdims=True))
    assert np.ptp(given_view_1, axis=0).min() > 0.1


def test_a_level_without_effect_counts_for_nothing_where_masked():
    ops = np.full((6, 2, 2), 1)  # the operation without a magnitude, at either level
    levels = np.random.default_rng(0).integers(0, 2, ops.shape)
    network = tiny()
    result = network.evaluate(ops, levels)
    assert np.ptp(result.log_prob) == 0
    assert result.entropy.max() <= math.log(3)
    d = network.split(result.gradient(np.arange(6.0), 1.0))
    assert not d["level_head"].any()
    assert not d["level_bias"].any()
    assert not d["drawn_op"].any()
    assert d["op_head"].any()
    drawn_ops, drawn_levels = network.sample(500, np.random.default_rng(1))
    assert not drawn_levels[drawn_ops == 1].any()
    assert drawn_levels[drawn_ops != 1].any()

    unmasked = tiny(settings=NetworkSettings(hidden=8, embedding=4, masked=False))
    result = unmasked.evaluate(ops, levels)
    assert np.ptp(result.log_prob) > 0
    assert unmasked.split(result.gradient(np.arange(6.0), 1.0))["level_head"].any()


@pytest.mark.parametrize("conditioned", [True, False])
def test_the_level_knows_the_operation_only_where_conditioned(conditioned):
    settings = NetworkSettings(hidden=8, embedding=4, conditioned=conditioned, masked=False)
    network = tiny(settings=settings, steps=1, cooperative=False)
    joint = np.exp(network.evaluate(*every_action(network)).log_prob).reshape(3, 2, 6).sum(2)  # (op, level) of view 1
    level_given_op = joint / joint.sum(1, keepdims=True)
    assert (np.ptp(level_given_op, axis=0).max() > 0.05) == conditioned
    if not conditioned:
        np.testing.assert_allclose(level_given_op, level_given_op[:1].repeat(3, 0), atol=1e-13)


@pytest.mark.parametrize("settings", [NetworkSettings(), NetworkSettings(16, 8), NetworkSettings.paper()])
@pytest.mark.parametrize("cooperative", [True, False])
def test_it_starts_close_to_uniform(settings, cooperative):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        network = PolicyNetwork(16, 11, PAPER.has_magnitude, rng, settings=settings, cooperative=cooperative)
        ops, levels = network.sample(64, rng)
        counts = PAPER.has_magnitude[ops] | (not settings.masked)
        most = (math.log(16) + counts * math.log(11)).mean((1, 2))
        result = network.evaluate(ops, levels)
        assert (result.entropy <= most + 1e-5).all()
        assert (result.entropy > 0.99 * most).all()


def test_the_same_state_gives_the_same_network_and_draws_and_more_images_change_no_draw():
    one, other = (PolicyNetwork(16, 11, PAPER.has_magnitude, np.random.default_rng(5)) for _ in range(2))
    assert one.flat.tobytes() == other.flat.tobytes()
    few, many = one.sample(7, np.random.default_rng(6)), other.sample(20, np.random.default_rng(6))
    assert np.array_equal(few[0], many[0][:7])
    assert np.array_equal(few[1], many[1][:7])
    assert one.sample(0, np.random.default_rng(0))[0].shape == (0, 2, 2)


def test_a_choice_that_is_certain_is_certain():
    network = tiny()
    network.split(network.flat)["op_bias"][:] = [0.0, 0.0, 1e4]
    ops, levels = network.sample(1000, np.random.default_rng(0))
    assert (ops == 2).all()
    result = network.evaluate(ops, levels)
    assert np.isfinite(result.log_prob).all()
    assert np.isfinite(result.gradient(1.0, 1.0)).all()


def test_the_number_of_threads_is_restored_however_the_callers_overlap():
    blas = ThreadpoolController().select(user_api="blas")
    with blas.limit(limits=2):
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert [pool["num_threads"] for pool in blas.info()] == [1] * len(blas.info())
        second.__exit__(None, None, None)
        assert [pool["num_threads"] for pool in blas.info()] == [2] * len(blas.info())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"views": 1}, "two views or more, not 1"),
        ({"steps": 0}, "one step or more, not 0"),
        ({"views": 2.0}, "two views or more, not 2.0"),
        ({"views": 4, "steps": 1000}, "more than 256 steps"),
    ],
)
def test_sizes_that_make_no_sense(options, says):
    with pytest.raises(CoviewsError, match=says):
        PolicyNetwork(16, 11, PAPER.has_magnitude, np.random.default_rng(0), **options)


def test_other_wrong_input():
    rng = np.random.default_rng(0)
    with pytest.raises(CoviewsError, match="nothing to draw"):
        PolicyNetwork(0, 11, np.zeros(0, bool), rng)
    with pytest.raises(CoviewsError, match="magnitude flags"):
        PolicyNetwork(3, 11, np.zeros(2, bool), rng)
    with pytest.raises(CoviewsError, match="hidden must be a whole number from 1 to 1,024, not 0"):
        NetworkSettings(hidden=0)
    with pytest.raises(CoviewsError, match="masked must be true or false, not 1"):
        NetworkSettings(masked=1)
    with pytest.raises(CoviewsError, match=r"2 views of 2 steps.*\(5, 2, 3\)"):
        tiny().evaluate(np.zeros((5, 2, 3), int), np.zeros((5, 2, 3), int))


@pytest.mark.parametrize("name", ["hidden", "embedding"])
def test_networks_have_a_greatest_width(name):
    assert getattr(NetworkSettings(**{name: 1_024}), name) == 1_024
    for value in (0, 1_025, 10**30):
        with pytest.raises(CoviewsError, match=f"{name} must be a whole number from 1 to 1,024, not {value}"):
            NetworkSettings(**{name: value})
