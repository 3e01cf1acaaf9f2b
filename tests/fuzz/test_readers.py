"""Readers in this process, with values that hypothesis draws and makes small; more of them with FUZZ_EXAMPLES=1000."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import coviews
from coviews import CoviewsError
from coviews.comparison.plan import named_variants, read_variants
from coviews.comparison.results import Result, Results, read_results
from coviews.encoders.file import describe_encoder
from coviews.report.record import read_run
from coviews.runs.settings_file import read_settings, settings_yaml
from small_runs import SMALL

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "15"))
drawn = settings(
    max_examples=EXAMPLES, deadline=None, database=None, derandomize=EXAMPLES < 100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
numbers = st.integers() | st.floats() | st.sampled_from([2**63, 2**64, 10**400, -(10**30), 1e308, 1e-320])
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=9) | st.sampled_from(["x" * 20_000, "1e999", "/dev/zero"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def changed(draw, tree):
    """The tree with one value somewhere in it replaced."""
    if isinstance(tree, dict | list) and tree and draw(st.integers(0, 9)):
        keys = list(tree) if isinstance(tree, dict) else range(len(tree))
        key = draw(st.sampled_from(list(keys)))
        copy = dict(tree) if isinstance(tree, dict) else list(tree)
        copy[key] = draw(changed(tree[key]))
        return copy
    return draw(values)


def ends_well(call, *arguments) -> None:
    """It works, or says in one or two lines what is wrong."""
    message = "ok"
    try:
        call(*arguments)
    except CoviewsError as error:
        message = str(error)
    assert 1 <= len(message.splitlines()) <= 2, message
    assert max(map(len, message.splitlines())) <= 300, message


def dumped(tree) -> str:
    """YAML of any tree, as text that can be stored."""
    return yaml.safe_dump(tree, sort_keys=False).encode("utf-8", "replace").decode()


CONFIG = yaml.safe_load(settings_yaml(SMALL))
VARIANTS = {"a": {"views": "simclr", "flip": 0.5}, "b": {"views": "coviews", "search": {"name": "ppo", "clip": 0.1}}}
FAMILY = {"crop": "small", "mirror": True, "colour": False, "light": True}
PLAN = json.loads(coviews.Plan.draw(coviews.view_source("random"), 2, (8, 8), np.random.default_rng(0)).to_json())
SUBPOLICIES = json.loads(coviews.view_source("random").sample(2, np.random.default_rng(0)).to_json())
ENCODER = {
    "format": 1,
    "encoder": "resnet8",
    "image_size": [16, 16],
    "channels": 3,
    "mean": [0.5] * 3,
    "std": [0.2] * 3,
}


@drawn
@given(tree=changed(CONFIG))
def test_settings(tree, tmp_path):
    (tmp_path / "config.yaml").write_text(dumped(tree))
    ends_well(read_settings, tmp_path / "config.yaml")


@drawn
@given(text=st.text(max_size=80) | st.sampled_from(["- !!int ''", "a: !!timestamp x", "a: 0b_", "a: 2024-99-99"]))
def test_settings_of_any_text(text, tmp_path):
    (tmp_path / "config.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    ends_well(read_settings, tmp_path / "config.yaml")


@drawn
@given(tree=changed(VARIANTS))
def test_variants(tree, tmp_path):
    (tmp_path / "variants.yaml").write_text(dumped(tree))
    ends_well(lambda: named_variants(SMALL, read_variants(tmp_path / "variants.yaml"), "variants"))


@drawn
@given(tree=changed(FAMILY))
def test_families(tree, tmp_path):
    (tmp_path / "views.yaml").write_text(dumped(tree))
    ends_well(coviews.read_family, tmp_path / "views.yaml")


@drawn
@given(tree=changed(PLAN))
def test_plans(tree):
    ends_well(coviews.Plan.from_json, json.dumps(tree))


@drawn
@given(tree=changed(SUBPOLICIES))
def test_subpolicies(tree):
    ends_well(coviews.Subpolicies.from_json, json.dumps(tree))


@drawn
@given(tree=changed(ENCODER))
def test_descriptions_of_encoders(tree, tmp_path):
    weights = {"conv1.weight": np.zeros((4, 3, 3, 3), np.float32)}
    (tmp_path / "encoder.safetensors").write_bytes(safetensors.numpy.save(weights, {"coviews": json.dumps(tree)}))
    ends_well(describe_encoder, tmp_path / "encoder.safetensors")


@pytest.fixture(scope="module")
def policy(tmp_path_factory) -> tuple[dict, dict]:
    """The weights and the description of a policy."""
    path = tmp_path_factory.mktemp("policy") / "policy.safetensors"
    coviews.Policy.untrained(coviews.space("autoaugment"), np.random.default_rng(0), kind="coviews").save(path)
    with safetensors.safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["coviews"])  # noqa: SIM118


@drawn
@given(data=st.data())
def test_policies(data, policy, tmp_path):
    weights, description = policy
    text = json.dumps(data.draw(changed(description)))
    (tmp_path / "policy.safetensors").write_bytes(safetensors.numpy.save(weights, {"coviews": text}))
    ends_well(coviews.load_policy, tmp_path / "policy.safetensors")


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict:
    path = tmp_path_factory.mktemp("results") / "results.json"
    curve = [[0, 1.0, 25.0], [2, 9.0, 45.0]]
    run = Result("a", 0, {"linear": 5.0}, {"rankme": 5.0}, {"linear": 3.0}, curve, 10.0, 2.0, [80, 20], "coviews 0")
    Results({"a": SMALL}, {"k": 200}, [run]).save(path)
    return json.loads(path.read_text())


@drawn
@given(data=st.data())
def test_results(data, results, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(data.draw(changed(results))))
    ends_well(read_results, tmp_path / "results.json")


START = {
    "kind": "start", "images": 60, "height": 32, "width": 32, "channels": 3, "classes": ["a", "b"], "labelled": True,
    "broken": 1, "parameters": 1000, "mean": [0.5] * 3, "std": [0.2] * 3,
}  # fmt: skip
EPOCH = {"kind": "epoch", "epoch": 1, "loss": 5.0, "lr": 0.01, "spread": 1.0, "time": {"seconds": 2.0, "waiting": 0.1}}


@drawn
@given(lines=st.lists(st.sampled_from([START, EPOCH]).flatmap(changed), min_size=1, max_size=3))
def test_metrics(lines, tmp_path):
    (tmp_path / "config.yaml").write_text(settings_yaml(SMALL))
    text = "".join(json.dumps(line) + "\n" for line in [START, EPOCH, *lines])
    (tmp_path / "metrics.jsonl").write_text(text)
    ends_well(read_run, Path(tmp_path))
