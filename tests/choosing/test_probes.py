"""How well few labels are recognised: against slow oracles, and in groups."""

from dataclasses import replace

import numpy as np
import pytest

from coviews.choosing import probes
from coviews.choosing.agreement import agreements, weight
from coviews.choosing.model import families
from coviews.choosing.probes import (
    GROUP,
    WIDTHS,
    chance,
    class_chances,
    groups,
    leave_one_out,
    neighbour_hits,
    neighbour_scores,
    ridge_scores,
    standardised,
)
from coviews.choosing.score import observed
from coviews.policies.factors import RECIPE


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
    slow = []
    for i in range(len(x)):
        others = np.arange(len(x)) != i
        gram = x[others].T @ x[others] + penalty * np.eye(dimensions)
        slow.append(x[i] @ np.linalg.solve(gram, x[others].T @ targets[others]))
    np.testing.assert_allclose(ridge_scores(x, labels, strength), slow, atol=1e-9)
    assert 0 < (np.argmax(slow, 1) == labels).sum() < len(labels)


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
    alone = np.zeros((2, 40))
    for g in (0, 1):
        alone[:, group == g] = leave_one_out(x[group == g], labels[group == g])
    monkeypatch.setattr(probes, "GROUP", 20)
    np.testing.assert_array_equal(hits, (alone + leave_one_out(x, labels)) / 2)
    assert (alone != hits).any()


def test_copies_among_many_labels_do_not_make_every_encoder_look_good():
    features, labels = clouds((10, 10), spread=3.0, seed=2)
    twice = np.repeat(features, 2, axis=0)  # each image and its copy, as frames of a film
    once, both = (leave_one_out(f, y)[0].mean() for f, y in ((features, labels), (twice, np.repeat(labels, 2))))
    assert neighbour_hits(standardised(twice), np.repeat(labels, 2), 1).mean() == 1.0
    assert both <= (once + 1) / 2


@pytest.mark.parametrize("width", WIDTHS)
def test_neighbours_share_votes_as_a_slow_count_says(width):
    features, labels = clouds((4, 3, 5))
    made = neighbour_scores(features, labels, width)
    for i, x in enumerate(features):
        cosines = [x @ y / np.linalg.norm(x) / np.linalg.norm(y) for y in features]
        votes = [sum(np.exp(cosines[j] / width) for j in range(12) if j != i and labels[j] == c) for c in range(3)]
        np.testing.assert_allclose(made[i], np.log(np.array(votes) / sum(votes) + 1e-3))


def test_chances_are_sure_where_the_scores_deserve_it():
    generator, labels = np.random.default_rng(0), np.repeat([3, 5, 8], 20)
    truth = (labels[:, None] == np.array([3, 5, 8])).astype(float)
    right, useless = truth + 0.1 * generator.random((60, 3)), generator.random((60, 3))
    assert chance(right, labels).min() > 0.99
    assert chance(useless, labels).mean() == pytest.approx(1 / 3, abs=0.03)
    np.testing.assert_allclose(chance(7 * right + 4, labels), chance(right, labels))  # the scale does not count


def test_chances_rank_encoders_with_fewer_labels_than_hits_do():
    """Two encoders, one a little better, and few labels: which does the score take for the better one?"""
    right = {"hits": 0, "scores": 0}
    for seed in range(40):
        judged = [leave_one_out(*clouds((8,) * 5, 12, spread, seed)) for spread in (1.5, 1.7)]
        scores = observed([RECIPE, RECIPE], judged).scores
        right["scores"] += scores[0] > scores[1]
        right["hits"] += judged[0][0].mean() > judged[1][0].mean()
    assert right["scores"] >= right["hits"] > 20


def test_scores_are_accuracies_on_average_and_as_far_apart_as_these_at_least():
    judged = [leave_one_out(*clouds((8,) * 5, 12, spread, 3)) for spread in (1.0, 1.5, 2.5)]
    hits, chances = (100 * np.array([j[k].mean() for j in judged]) for k in (0, 1))
    scores = observed([RECIPE] * 3, judged).scores
    assert scores.mean() == pytest.approx(hits.mean())
    np.testing.assert_allclose(np.diff(scores) / np.diff(chances), (scores[1] - scores[0]) / (chances[1] - chances[0]))
    assert 1 <= (scores[1] - scores[0]) / (chances[1] - chances[0]) <= 3


@pytest.mark.parametrize("dimensions", [4, 40])
def test_class_chances_equal_a_slow_fit(dimensions):
    features, labels = clouds((7, 5, 6), dimensions, spread=2.0)
    known, names = np.array([3, 0, 8, 9, 13, 12, 15, 1, 10]), np.array([4, 5, 8])[labels]
    others = np.setdiff1d(np.arange(18), known)
    x = standardised(features[[*known, *others]])
    a, b, own = x[:9], x[9:], labels[known]
    slow = []
    for strength in probes.STRENGTHS:
        penalty = strength * (a**2).sum() / min(a.shape)
        targets = (own[:, None] == np.arange(3)) - np.bincount(own) / 9
        weights = np.linalg.solve(a.T @ a + penalty * np.eye(dimensions), a.T @ targets)
        left_out = ridge_scores(a, own, strength)
        likely = [np.log(soft(left_out, t * left_out.std())[np.arange(9), own]).mean() for t in probes.TEMPERATURES]
        slow.append(soft(b @ weights, probes.TEMPERATURES[int(np.argmax(likely))] * left_out.std()))
    made = class_chances(features[known], names[known], features[others])
    np.testing.assert_allclose(made, np.mean(slow, 0), atol=1e-9)
    np.testing.assert_allclose(made.sum(1), 1)


def soft(scores, temperature):
    powers = np.exp(scores / temperature)
    return powers / powers.sum(1, keepdims=True)


def test_agreement_equals_a_slow_count():
    generator, mirrored = np.random.default_rng(0), replace(RECIPE, mirror=False)
    families = [RECIPE, mirrored, RECIPE, replace(RECIPE, blur=True), replace(RECIPE, tone=True)]
    chances = generator.dirichlet(np.ones(3), (5, 40))
    slow = []
    for own, given in zip(families, chances, strict=True):
        product = np.ones((40, 3))
        for other in {*families} - {own}:
            of_it = [c + 1e-6 for f, c in zip(families, chances, strict=True) if f == other]
            product *= np.prod(of_it, 0) ** (1 / len(of_it))
        slow.append(np.mean([np.argmax(given[k]) == np.argmax(product[k]) for k in range(40)]))
    np.testing.assert_allclose(agreements(families, list(chances)), slow)
    assert agreements([RECIPE, mirrored, RECIPE], list(chances[:3])) is None
    assert agreements(families, [c[:0] for c in chances]) is None


def test_agreement_counts_less_with_more_labels_and_few_images():
    weights = [weight(np.repeat([0, 1], n), 1_000_000) for n in (2, 3, 10, 50)]
    assert weights[1] == pytest.approx(0.5, abs=1e-3)
    assert sorted(weights, reverse=True) == weights
    assert weights[-1] < 0.06
    named = [weight(np.repeat([0, 1], 3), n) for n in (1, 10, 100, 1000)]
    assert sorted(named) == named
    assert named[0] < 0.05


def test_agreement_ranks_encoders_where_few_labels_cannot():
    """Eight encoders see the same images with more and more noise; three labels a class."""
    truth, spreads = -np.arange(8), np.linspace(1.0, 2.4, 8)
    correlations = {"labels": [], "both": []}
    for seed in range(12):
        generator = np.random.default_rng(seed)
        labels = np.repeat(np.arange(4), 60)
        centres = generator.standard_normal((4, 12))
        encoded = [centres[labels] + s * generator.standard_normal((240, 12)) for s in spreads]
        known = np.concatenate([np.flatnonzero(labels == c)[:3] for c in range(4)])
        others = np.setdiff1d(np.arange(240), known)
        judged = [leave_one_out(x[known], labels[known]) for x in encoded]
        agreed = agreements(FAMILIES[:8], [class_chances(x[known], labels[known], x[others]) for x in encoded])
        for name, given in (("labels", None), ("both", agreed)):
            scores = observed([RECIPE] * 8, judged, given, weight(labels[known], len(others))).scores
            correlations[name].append(np.corrcoef(scores, truth)[0, 1])
    assert np.mean(correlations["both"]) > np.mean(correlations["labels"]) + 0.1


FAMILIES = families(RECIPE, ("mirror", "turns", "blur"))


def test_agreement_is_stretched_by_no_more_than_three():
    judged = [leave_one_out(*clouds((8,) * 5, 12, spread, 3)) for spread in (1.0, 1.5, 2.5)]
    alone = observed([RECIPE] * 3, judged)
    for given, most in (
        (np.full(3, 0.7), 1e-6),
        (np.array([0.9, 0.9, 0.901]), 0.31),
        (np.array([0.1, 0.5, 0.3]), 50.0),
    ):
        both = observed([RECIPE] * 3, judged, given, 0.5)
        by_agreement = 2 * both.scores - alone.scores - alone.scores.mean()
        assert both.scores.mean() == pytest.approx(alone.scores.mean())
        assert np.ptp(by_agreement) <= min(3 * 100 * np.ptp(given), most) + 1e-9
        assert by_agreement.argmax() == given.argmax() or np.ptp(given) == 0
