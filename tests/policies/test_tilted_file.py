"""The file of a tilted policy: what goes in comes out, it works wherever a policy does, and damage is refused."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from coviews import CoviewsError, LossTable, PolicyQueue, Space, TableSettings, load_policy, space, view_source
from coviews.cli import main
from coviews.policies.factors import family
from coviews.policies.fixed import Uniform
from coviews.policies.tilted import TiltedPolicy

MINE = Space("mine", ("Rotate", "Identity", "Invert"), np.array([[0.1, 1 / 3, 7.0], [0, 0, 0], [0, 0, 0]], float))
PRIORS = {
    "uniform": view_source("uniform", space_name="autoaugment"),
    "all": view_source("uniform", space_name="all", steps=3, p=0.5),
    "random": view_source("random"),
    "randaugment": view_source("randaugment", magnitude=15),
    "trivialaugment": view_source("trivialaugment"),
    "simclr": view_source("simclr"),
    "mine": Uniform(MINE, 1, 0.7),
    "family": family("crop large, light, blur").source(),
}


def fitted(name="uniform", kind="coviews", seed=0):
    prior, rng = PRIORS[name], np.random.default_rng(seed)
    table = LossTable(prior, kind=kind, settings=TableSettings(gentle=1))
    for _ in range(20):
        drawn = prior.sample(128, rng).applied(rng)
        table.add(drawn, 4 + 0.4 * (drawn.ops == 0).sum((1, 2)) + 0.1 * rng.standard_normal(128))
    result = table.policy(rng)
    assert result.tilt.rise > 0
    return result


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("kind", ["coviews", "indepviews"])
def test_a_policy_comes_back_as_it_was(tmp_path, name, kind):
    result = fitted(name, kind)
    result.save(tmp_path / "p.safetensors")
    back = load_policy(tmp_path / "p.safetensors")
    assert isinstance(back, TiltedPolicy)
    for field in ("kind", "views", "steps", "p", "statistics", "space", "tilt", "keep", "accepted", "prior"):
        assert getattr(back, field) == getattr(result, field), field
    assert back.sample(50, np.random.default_rng(1)) == result.sample(50, np.random.default_rng(1))
    assert (tmp_path / "p.safetensors").stat().st_size < 16_000
    back.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "p.safetensors").read_bytes()


def test_a_prior_of_ones_own_works_but_cannot_be_kept(tmp_path):
    class Mine:
        def sample(self, n, generator):
            return PRIORS["uniform"].sample(n, generator)

    policy = LossTable(Mine()).policy(np.random.default_rng(0))
    assert policy.sample(5, np.random.default_rng(0)).ops.shape == (5, 2, 2)
    with pytest.raises(CoviewsError, match="not Mine"):
        policy.save(tmp_path / "p.safetensors")


def test_it_goes_into_a_queue_with_its_like():
    queue = PolicyQueue()
    for seed in range(3):
        queue.push(fitted(seed=seed))
    drawn = queue.sample(500, np.random.default_rng(0))
    assert drawn.p == 1
    assert (drawn.ops == 0).mean() > 1.3 * 0.8 / 16
    with pytest.raises(CoviewsError, match="same space"):
        queue.push(fitted("all"))


def test_it_makes_a_contact_sheet(tmp_path, capsys):
    fitted().save(tmp_path / "p.safetensors")
    words = ["preview", "shapes:8", "--views", str(tmp_path / "p.safetensors"), "--out", str(tmp_path / "sheet.png")]
    assert main([*words, "--rows", "2"]) == 0
    assert (tmp_path / "sheet.png").stat().st_size > 1000


def rewritten(tmp_path, change, name="uniform"):
    path = tmp_path / "p.safetensors"
    fitted(name).save(path)
    with safetensors.safe_open(path, framework="numpy") as file:
        description = json.loads(file.metadata()["coviews"])
        weights = {k: file.get_tensor(k).copy() for k in file.keys()}  # noqa: SIM118
    change(description, weights)
    path.write_bytes(safetensors.numpy.save(weights, {"coviews": json.dumps(description)}))
    return path


def setting(*keys, to):
    def change(description, _):
        for key in keys[:-1]:
            description = description[key]
        description[keys[-1]] = to

    return change


def not_symmetric(_, weights):
    weights["pairs"][0, 1] += 1


def cut(_, weights):
    weights["steps"] = weights["steps"][:, :-1].copy()


WRONG = {
    "another format": (setting("format", to=2), "format 2"),
    "another kind of policy": (setting("policy", to="tree"), "description is wrong"),
    "unknown kind": (setting("kind", to="coview"), "did you mean 'coviews'"),
    "unknown prior": (setting("prior", "source", to="uniformly"), "did you mean 'uniform'"),
    "an option that is not there": (setting("prior", "depth", to=3), "description is wrong"),
    "very many steps": (setting("prior", "steps", to=10**12), "prior.steps: expected int <= 16"),
    "steps as text": (setting("prior", "steps", to="2"), "prior.steps: expected int, got str"),
    "other steps": (setting("prior", "steps", to=3), r"has the shape \(2, 16, 11\), not \(3, 16, 11\)"),
    "p above one": (setting("prior", "p", to=1.5), "prior.p: expected float <= 1"),
    "three views": (setting("prior", "views", to=3), "pairs of views"),
    "another space": (setting("space", "values", 4, 0, to=-31.0), "learned in another space"),
    "tilt that is no number": (setting("tilt", "rise", to="steep"), "tilt.rise: expected float, got str"),
    "tilt that is infinite": (setting("tilt", "top", to=math.inf), "description is not JSON: Infinity"),
    "tilt of more": (setting("tilt", "depth", to=1.0), "description is wrong"),
    "tilt that is a number": (setting("tilt", to=3), "tilt: expected object, got int"),
    "tilt that is steep": (setting("tilt", "rise", to=1e300), "tilt.rise: expected float <= 1"),
    "constant": (setting("constant", to=None), "constant: expected float, got null"),
    "keep": (setting("keep", to=2), "keep: expected float <= 1"),
    "accepted": (setting("accepted", to=0.0), "accepted must be in"),
    "statistics": (setting("statistics", to=3), "description is wrong"),
    "pairs that differ": (not_symmetric, "not the same both ways"),
    "a table that is cut": (cut, "has the shape"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused(tmp_path, case):
    change, says = WRONG[case]
    with pytest.raises(CoviewsError, match=says) as caught:
        load_policy(rewritten(tmp_path, change))
    assert "p.safetensors" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (setting("space", "values", "sum", to="0"), "learned in another space"),
        (setting("space", "values", "levels", to=5000), "levels: expected int <= 4096"),
        (setting("space", "name", to="all"), "learned in another space"),
    ],
)
def test_a_space_of_many_levels_is_told_by_a_sum(tmp_path, change, says):
    with pytest.raises(CoviewsError, match=says):
        load_policy(rewritten(tmp_path, change, "simclr"))


def test_a_damaged_file_is_refused_or_read_but_never_breaks(tmp_path):
    path = tmp_path / "p.safetensors"
    fitted("mine").save(path)
    whole, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(0, len(whole))] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            load_policy(path).sample(3, rng)
        except CoviewsError:
            refused += 1
    assert refused > 100


def test_files_of_a_network_and_of_a_table_are_told_apart(tmp_path):
    from coviews import Policy

    Policy.untrained(space("autoaugment"), np.random.default_rng(0)).save(tmp_path / "n.safetensors")
    fitted().save(tmp_path / "t.safetensors")
    assert type(load_policy(tmp_path / "n.safetensors")) is Policy
    assert type(load_policy(tmp_path / "t.safetensors")) is TiltedPolicy
    assert Path(tmp_path / "t.safetensors").stat().st_size < 6000
