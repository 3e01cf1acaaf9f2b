"""The queue of policies: how often each is drawn, and what fits together."""

import numpy as np
import pytest

from coviews import CoviewsError, space
from coviews.policies.learned import Policy
from coviews.policies.network import NetworkSettings
from coviews.policies.queue import PolicyQueue

PAPER = space("autoaugment")


def always(op, **options):
    """A policy that draws one operation only."""
    policy = Policy.untrained(PAPER, np.random.default_rng(op), settings=NetworkSettings(8, 4), **options)
    policy.network.split(policy.network.flat)["op_bias"][op] = 100.0
    return policy


def test_newer_policies_are_drawn_more_often_and_the_oldest_leaves():
    queue = PolicyQueue(size=4, p=0.6)
    expected = {1: [1.0], 2: [0.6, 0.24], 3: [0.6, 0.24, 0.096], 4: [0.6, 0.24, 0.096, 0.0384]}
    pushed = []
    for op in range(6):
        queue.push(always(op))
        pushed.insert(0, op)
        here = min(op + 1, 4)
        assert len(queue) == here
        falling = np.array(expected[here])
        np.testing.assert_allclose(queue.weights, falling / falling.sum())
        n = 4000
        drawn = queue.sample(n, np.random.default_rng(op))
        counts = np.bincount(drawn.ops[:, 0, 0], minlength=16)
        assert counts.sum() == counts[pushed[:here]].sum(), "only what is in the queue"
        error = 4 * np.sqrt(n * queue.weights * (1 - queue.weights)) + 1e-9
        assert (np.abs(counts[pushed[:here]] - n * queue.weights) <= error).all()


def test_both_views_of_an_image_come_from_one_policy():
    queue = PolicyQueue()
    for op in range(4):
        queue.push(always(op, views=3, steps=1))
    drawn = queue.sample(500, np.random.default_rng(0))
    assert drawn.ops.shape == (500, 3, 1)
    assert (drawn.ops == drawn.ops[:, :1]).all()
    assert len(np.unique(drawn.ops)) > 2


def test_one_policy_alone_and_the_same_state_give_the_same_draw():
    queue = PolicyQueue(p=0.3)
    queue.push(always(2, p=0.5))
    queue.push(Policy.untrained(PAPER, np.random.default_rng(1), p=0.5))
    one, other = (queue.sample(100, np.random.default_rng(3)) for _ in range(2))
    assert one == other
    assert one.p == 0.5
    assert one.space == PAPER
    assert len(queue.sample(0, np.random.default_rng(0))) == 0


def test_an_empty_queue_says_so():
    with pytest.raises(CoviewsError, match="no policy yet"):
        PolicyQueue().sample(1, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (lambda: Policy.untrained(space("simclr"), np.random.default_rng(0)), "same space: 'simclr' is not 'autoaug"),
        (lambda: always(0, views=3), "same views: 3 is not 2"),
        (lambda: always(0, steps=1), "same steps: 1 is not 2"),
        (lambda: always(0, p=1.0), "same p: 1.0 is not 0.8"),
    ],
)
def test_policies_that_do_not_fit_together(other, says):
    queue = PolicyQueue()
    queue.push(always(0))
    with pytest.raises(CoviewsError, match=says):
        queue.push(other())
    assert len(queue) == 1


def test_sizes_that_make_no_sense():
    with pytest.raises(CoviewsError, match="one policy or more, not 0"):
        PolicyQueue(size=0)
    for p in (0.0, 1.0, -0.5):
        with pytest.raises(CoviewsError, match="between 0 and 1"):
            PolicyQueue(p=p)
