"""How the members of a population are copied and changed."""

from collections import Counter

import numpy as np

from coviews.policies.schedule import ScheduledOperation
from coviews.searching.population import explored, replacements, unused


def test_numbers_change_as_often_as_published():
    """By enumeration: with 0.2 anew, otherwise by 0 to 3 up or down, within the range."""
    start, n = 2, 20_000
    rows = explored((ScheduledOperation("Rotate", start, start),) * n, np.random.default_rng(0))
    for name, largest in (("probability", 10), ("strength", 9)):
        expected = Counter({value: 0.2 / (largest + 1) for value in range(largest + 1)})
        for amount in range(4):
            for sign in (1, -1):
                expected[min(max(start + sign * amount, 0), largest)] += 0.8 / 8
        observed = Counter(getattr(row, name) for row in rows)
        assert set(observed) == set(expected)
        for value, share in expected.items():
            assert abs(observed[value] / n - share) < 5 * (share / n) ** 0.5, (name, value)


def test_every_operation_is_there_twice_and_unused():
    assert unused(["Rotate", "Invert"]) == tuple(
        ScheduledOperation(op, 0, 0) for op in ("Rotate",) * 2 + ("Invert",) * 2
    )


def test_the_worst_quarter_becomes_copies_of_the_best():
    scores = [0.5, 0.1, 0.9, 0.3, 0.8, 0.2, 0.4, 0.6]
    pairs = [pair for seed in range(20) for pair in replacements(scores, np.random.default_rng(seed))]
    assert {loser for loser, _ in pairs} == {1, 5}
    assert {winner for _, winner in pairs} == {2, 4}
    assert len(pairs) == 40
    assert replacements([0.5, 0.5], np.random.default_rng(0)) == [(1, 0)]
    assert [loser for loser, _ in replacements([0.1, 0.2, 0.3], np.random.default_rng(0))] == [0]
