"""Listed policies, and those that Fast AutoAugment's authors published."""

import json
import random
from collections import Counter

import numpy as np
import pytest

from coviews import CoviewsError, load_policy, space, view_source
from coviews.boundary.schema import checked
from coviews.policies.fixed import SourceDescription, describe_source, read_source
from coviews.policies.limits import view_limits
from coviews.policies.listed import FAST_AUTOAUGMENT, ListedPolicy, ListedStep, published_list, read_listed
from coviews.policies.named import named_source

PAIRS = (
    (ListedStep("Rotate", 0.5, 0.9), ListedStep("Invert", 1.0, 0.3)),
    (ListedStep("Brightness", 1.0, 0.25), ListedStep("ShearX", 0.25, 0.1)),
)
RANGES = {"Rotate": (-30, 30), "ShearX": (-0.3, 0.3), "Brightness": (0.1, 1.9), "Invert": (0, 0)}


def drawn_slowly(draws):
    """What the authors' code does with a list of subpolicies, an operation at a time: (operation, value) pairs."""
    steps = []
    for op, probability, level in draws.choice(PAIRS):
        if draws.random() > probability:
            steps.append(("Identity", 0.0))
            continue
        low, high = RANGES[op]
        value = level * (high - low) + low
        if op in ("Rotate", "ShearX") and draws.random() > 0.5:
            value = -value
        steps.append((op, round(value, 6)))
    return tuple(steps)


def test_subpolicies_are_drawn_as_in_the_authors_code():
    n, draws = 20_000, random.Random(0)
    expected = Counter(drawn_slowly(draws) for _ in range(2 * n))
    policy = ListedPolicy(PAIRS).sample(n, np.random.default_rng(0))
    values = np.where(policy.ops == policy.space.identity, 0.0, policy.space.values[policy.ops, policy.levels])
    rows = zip(policy.ops.reshape(-1, 2).tolist(), values.reshape(-1, 2).tolist(), strict=True)
    observed = Counter(
        tuple((policy.space.ops[o], round(v, 6)) for o, v in zip(ops, vs, strict=True)) for ops, vs in rows
    )
    assert set(observed) == set(expected)
    for key, count in expected.items():
        assert abs(observed[key] - count) < 6 * count**0.5, key


def test_a_policy_is_the_same_after_a_file(tmp_path):
    policy = ListedPolicy(PAIRS)
    policy.save(tmp_path / "policy.json", {"score": 0.5})
    again = named_source(str(tmp_path / "policy.json"))
    texts = [source.sample(50, np.random.default_rng(1)).texts() for source in (policy, again)]
    assert texts[0] == texts[1]
    assert json.loads((tmp_path / "policy.json").read_text())["statistics"] == {"score": 0.5}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"format": 2}, "has the format 2"),
        ({"policy": "dance"}, "unknown kind of policy"),
        ({"operations": {"Rotate": [-900, 900]}}, "is beyond"),
        ({"operations": {"Rotate": [-30, 30]}}, "no range for"),
        ({"operations": {"Turn": [0, 1]}}, "unknown operation"),
        ({"subpolicies": []}, "is wrong"),
        ({"subpolicies": [[["Rotate", 2, 0.5]]]}, "is wrong"),
        ({"subpolicies": [[["Rotate", 0.5, 0.5]] * 40]}, "is wrong"),
    ],
)
def test_a_wrong_file_is_an_error(change, error, tmp_path):
    ListedPolicy(PAIRS).save(tmp_path / "policy.json")
    content = json.loads((tmp_path / "policy.json").read_text()) | change
    (tmp_path / "policy.json").write_text(json.dumps(content))
    with pytest.raises(CoviewsError, match=error):
        named_source(str(tmp_path / "policy.json"))


def test_limits_leave_operations_out_and_cap_the_others():
    limited = view_limits(forbid="Invert", cap="Rotate=10").source(ListedPolicy(PAIRS))
    drawn = limited.sample(500, np.random.default_rng(0))
    values = drawn.space.values[drawn.ops, drawn.levels]
    assert "Invert" not in drawn.space.ops
    assert set(values[drawn.ops == drawn.space.index("Rotate")].tolist()) == {-10.0, 10.0}


def test_the_published_policies():
    """The numbers of subpolicies, and single rows of each, as published."""
    assert [len(published_list(name)) for name in FAST_AUTOAUGMENT] == [493, 497, 498]
    first, last = published_list("cifar10")[0], published_list("imagenet")[-1]
    assert first == (("Contrast", 0.8321, 0.4988), ("TranslateX", 0.4185, 0.394))
    assert last == (("AutoContrast", 0.5405, 0.7472), ("Equalize", 0.0565, 0.5628))
    for name in FAST_AUTOAUGMENT:
        drawn = view_source(f"fast-autoaugment:{name}").sample(4000, np.random.default_rng(0))
        rows = published_list(name)
        expected = np.mean([step.probability for row in rows for step in row])
        assert abs((drawn.ops != drawn.space.identity).mean() - expected) < 0.015
    with pytest.raises(CoviewsError, match="there are: cifar10, svhn, imagenet"):
        published_list("mnist")


def test_a_published_policy_is_a_prior_in_a_policy_file():
    source = view_source("fast-autoaugment:svhn", views=3)
    again = read_source(checked(describe_source(source), SourceDescription, "a test"), source.space)
    assert again == source
    with pytest.raises(CoviewsError, match="one of 1001 levels, not of 11"):
        read_source(checked(describe_source(source), SourceDescription, "a test"), space("autoaugment"))


def test_a_policy_of_another_number_of_views(tmp_path):
    ListedPolicy(PAIRS).save(tmp_path / "policy.json")
    with pytest.raises(CoviewsError, match=r"coviews\.policies\.named\.policy_source reads it"):
        load_policy(tmp_path / "policy.json")
    assert read_listed(tmp_path / "policy.json", 5).sample(3, np.random.default_rng(0)).views == 5
