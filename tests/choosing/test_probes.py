"""How well few labels are recognised: against slow oracles, and in groups."""

import numpy as np
import pytest

from coviews.choosing import probes
from coviews.choosing.probes import GROUP, groups, leave_one_out, neighbour_hits, ridge_hits, standardised


def clouds(counts, dimensions=6, spread=1.5, seed=0):
    """Features and labels of classes with so many images."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(counts)), counts)
    centres = generator.standard_normal((len(counts), dimensions))
    return centres[labels] + spread * generator.standard_normal((len(labels), dimensions)), labels


@pytest.mark.parametrize("dimensions", [4, 40])
def test_ridge_equals_a_fit_without_each_image(dimensions):
    features, labels = clouds((7, 5, 6), dimensions, spread=3.0)
    x, strength = standardised(features), 0.1
    targets = (labels[:, None] == np.arange(3)) - np.bincount(labels) / len(labels)
    penalty = strength * (x**2).sum() / min(x.shape)
    hits = []
    for i in range(len(x)):
        others = np.arange(len(x)) != i
        gram = x[others].T @ x[others] + penalty * np.eye(dimensions)
        scores = x[i] @ np.linalg.solve(gram, x[others].T @ targets[others])
        hits.append(scores.argmax() == labels[i])
    assert ridge_hits(x, labels, strength).tolist() == hits
    assert 0 < sum(hits) < len(hits)


@pytest.mark.parametrize("k", [1, 3])
def test_neighbours_equal_a_slow_vote(k):
    features, labels = clouds((7, 5, 6))
    hits = []
    for i, x in enumerate(features):
        cosines = [x @ y / np.linalg.norm(x) / np.linalg.norm(y) for y in features]
        near = sorted((j for j in range(len(features)) if j != i), key=lambda j: -cosines[j])[:k]
        votes = [sum(np.exp(cosines[j] / 0.07) for j in near if labels[j] == c) for c in range(3)]
        hits.append(int(np.argmax(votes)) == labels[i])
    assert neighbour_hits(features, labels, k).tolist() == hits
    assert 0 < sum(hits) < len(hits)


def test_groups_are_small_even_and_spread_what_follows_each_other():
    labels = np.repeat([0, 1, 2], [25, 10, 4])
    group = groups(labels)
    assert [np.bincount(group[labels == c]).tolist() for c in range(3)] == [[9, 8, 8], [10], [4]]
    assert (np.diff(group[:25]) != 0).all()
    assert max(np.bincount(group[labels == c]).max() for c in range(3)) <= GROUP


def test_many_labels_are_judged_in_groups_and_all_at_once(monkeypatch):
    features, labels = clouds((20, 20))
    group, hits = groups(labels), leave_one_out(features, labels)
    x = standardised(features)
    monkeypatch.setattr(probes, "standardised", lambda some: some)
    alone = np.zeros(40)
    for g in (0, 1):
        alone[group == g] = leave_one_out(x[group == g], labels[group == g])
    monkeypatch.setattr(probes, "GROUP", 20)
    np.testing.assert_array_equal(hits, (alone + leave_one_out(x, labels)) / 2)
    assert (alone != hits).any()


def test_copies_among_many_labels_do_not_make_every_encoder_look_good():
    features, labels = clouds((10, 10), spread=3.0, seed=2)
    twice = np.repeat(features, 2, axis=0)  # each image and its copy, as frames of a film
    once, both = leave_one_out(features, labels).mean(), leave_one_out(twice, np.repeat(labels, 2)).mean()
    assert neighbour_hits(standardised(twice), np.repeat(labels, 2), 1).mean() == 1.0
    assert both <= (once + 1) / 2
