"""The policy file: what goes in comes out, and what does not fit is refused with one clear sentence."""

import json
import math
import os
import pickle
import struct

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from coviews import CoviewsError, Space, space
from coviews.policies.learned import Policy, load_policy
from coviews.policies.network import NetworkSettings

PAPER = space("autoaugment")
CUSTOM = Space("mine", ("Rotate", "Identity", "Invert"), np.array([[0.1, 1 / 3, 7.0], [0, 0, 0], [0, 0, 0]], float))


def policy(chosen=PAPER, seed=0, **options):
    result = Policy.untrained(chosen, np.random.default_rng(seed), **{"settings": NetworkSettings(8, 4), **options})
    return result.with_statistics({"reward": 1.25, "ops": {"Rotate": [0.1, 0.2]}, "name": "Zürich"})


@pytest.mark.parametrize("chosen", [PAPER, space("simclr-wide"), space("randaugment"), space("simclr", 5), CUSTOM])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kind": "indepviews", "views": 3, "steps": 1, "p": 1.0},
        {"settings": NetworkSettings(6, 3, conditioned=False, masked=False)},
    ],
)
def test_a_policy_comes_back_as_it_was(tmp_path, chosen, options):
    result = policy(chosen, **options)
    result.save(tmp_path / "p.safetensors")
    back = load_policy(tmp_path / "p.safetensors")
    assert back.network.flat.tobytes() == result.network.flat.tobytes()
    for name in ("kind", "views", "steps", "p", "statistics", "space"):
        assert getattr(back, name) == getattr(result, name)
    assert back.space.name == chosen.name
    assert back.network.settings == result.network.settings
    assert back.sample(50, np.random.default_rng(1)) == result.sample(50, np.random.default_rng(1))


def test_equal_policies_give_equal_bytes(tmp_path):
    files = []
    for i in range(10):
        policy().save(tmp_path / f"{i}.safetensors")
        files.append((tmp_path / f"{i}.safetensors").read_bytes())
    assert len(set(files)) == 1
    load_policy(tmp_path / "0.safetensors").save(str(tmp_path / "again.safetensors"))
    assert (tmp_path / "again.safetensors").read_bytes() == files[0]
    policy(seed=1).save(tmp_path / "other.safetensors")
    assert (tmp_path / "other.safetensors").read_bytes() != files[0]
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".safetensors"] * 12, "nothing else is left"


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "p.safetensors"
    policy().save(path)
    old = path.read_bytes()

    def fails(*_):
        raise OSError(28, "No space left on device")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fails)
            with pytest.raises(CoviewsError, match=r"cannot write .*p\.safetensors: No space left on device"):
                policy(seed=1).save(path)
        assert path.read_bytes() == old
        assert [p.name for p in tmp_path.iterdir()] == ["p.safetensors"]
    with pytest.raises(CoviewsError, match=r"cannot write .*No such file or directory"):
        policy().save(tmp_path / "missing" / "p.safetensors")


def rewritten(tmp_path, change, **options):
    """The path of a policy file whose description and weights went through `change`."""
    path = tmp_path / "p.safetensors"
    policy(**options).save(path)
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


def without(key):
    return lambda description, _: description.pop(key)


def weight(name, to):
    def change(_, weights):
        weights[name] = to(weights[name])
        if weights[name] is None:
            del weights[name]

    return change


def with_nan(w):
    w.flat[3] = math.nan
    return w


WRONG = {
    "newer format": (setting("format", to=2), "format 2, and this version of coviews reads 1"),
    "no format": (without("format"), "description is wrong: object missing required field format"),
    "unknown operation": (setting("space", "ops", 4, to="Rotat"), "unknown operation 'Rotat': did you mean 'Rotate'"),
    "operation of another type": (setting("space", "ops", 4, to=[]), "description is wrong"),
    "other values": (setting("space", "values", 4, 0, to=-31.0), "learned in another space 'autoaugment'"),
    "other operations": (setting("space", "ops", 4, to="Hue"), "learned in another space 'autoaugment'"),
    "other magnitudes": (setting("space", "has_magnitude", 4, to=False), "learned in another space"),
    "ragged values": (setting("space", "values", 4, to=[1.0]), "differ in their number of levels"),
    "values not finite": (setting("space", "values", 4, 0, to=math.inf), "description is not JSON: Infinity"),
    "too few values": (setting("space", "values", to=[[1.0, 2.0]]), "needs a finite value for each"),
    "no values": (setting("space", "values", to=[]), "needs a finite value for each"),
    "no space": (without("space"), "description is wrong: object missing required field space"),
    "one view": (setting("views", to=1), "views: expected int >= 2"),
    "views as text": (setting("views", to="2"), "views: expected int, got str"),
    "very many steps": (setting("steps", to=10**12), "steps: expected int <= 16"),
    "unknown kind": (setting("kind", to="coview"), "did you mean 'coviews'"),
    "p above one": (setting("p", to=1.5), "p: expected float <= 1"),
    "p as text": (setting("p", to="0.8"), "p: expected float, got str"),
    "statistics as a number": (setting("statistics", to=3), "description is wrong"),
    "unknown setting": (setting("network", "depth", to=3), "description of the network is wrong: it has no 'depth'"),
    "masked as a number": (setting("network", "masked", to=1), "masked: expected bool, got int"),
    "huge network": (setting("network", "hidden", to=10**9), "hidden must be a whole number from 1 to 1,024"),
    "other size": (setting("network", "hidden", to=9), "has the shape .*, not "),
    "missing weight": (weight("op_head", lambda w: None), "weight 'op_head' is missing"),
    "weight of another shape": (weight("op_head", lambda w: w[:, 1:].copy()), r"'op_head' has the shape \(8, 15\)"),
    "weight that is not finite": (weight("recurrent", with_nan), "'recurrent' is not made of finite"),
    "weight of another type": (weight("bias", lambda w: w.astype(np.float64)), "'bias' is not made of finite 32-bit"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused(tmp_path, case):
    change, says = WRONG[case]
    path = rewritten(tmp_path, change)
    with pytest.raises(CoviewsError, match=says) as caught:
        load_policy(path)
    assert "p.safetensors" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "p.safetensors"
    with pytest.raises(CoviewsError, match="there is no policy file"):
        load_policy(path)
    with pytest.raises(CoviewsError, match="not a regular file"):
        load_policy(tmp_path)

    contents = [b"", b"x", b"a text file, not a policy" * 10, pickle.dumps(Bomb()), struct.pack("<Q", 2**60) + b"{}"]
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(CoviewsError, match="not a policy file, or is damaged"):
            load_policy(path)
    path.write_bytes(safetensors.numpy.save({"op_head": np.zeros(3, np.float32)}))
    with pytest.raises(CoviewsError, match="no description of what they are of"):
        load_policy(path)
    for text in ("", "{", "[]", "3", "null", "[" * 100_000, '{"format": 1}'):
        path.write_bytes(safetensors.numpy.save({}, {"coviews": text}))
        with pytest.raises(CoviewsError, match="its description is"):
            load_policy(path)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a file was executed",))


def test_a_damaged_file_is_refused_or_read_but_never_breaks(tmp_path):
    path = tmp_path / "p.safetensors"
    policy(CUSTOM).save(path)
    whole = path.read_bytes()
    for end in [0, 4, 8, 9, 100, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:end])
        with pytest.raises(CoviewsError, match="not a policy file, or is damaged"):
            load_policy(path)
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        where = rng.integers(0, len(whole) if rng.random() < 0.3 else 1200)
        damaged[where] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            load_policy(path).sample(3, rng)
        except CoviewsError:
            refused += 1
    assert refused > 100


def test_a_policy_that_makes_no_sense(tmp_path):
    network = policy().network
    with pytest.raises(CoviewsError, match=r"16 operations at 11 levels.*'simclr' \(6 at 11\)"):
        Policy(space("simclr"), network)
    with pytest.raises(CoviewsError, match=r"in 0\.\.1, not 2"):
        Policy(PAPER, network, 2)
    with pytest.raises(CoviewsError, match="did you mean 'indepviews'"):
        Policy.untrained(PAPER, np.random.default_rng(0), kind="indepview")
    with pytest.raises(CoviewsError, match="needs Identity"):
        Space("bare", ("Rotate",), np.array([[0.0, 1.0]]))
    for statistics in ({"x": math.nan}, {"x": object()}, {"x": np.float32(1)}):
        with pytest.raises(CoviewsError, match="plain JSON"):
            policy().with_statistics(statistics).save(tmp_path / "p.safetensors")
    network.flat[5] = math.inf
    with pytest.raises(CoviewsError, match="not finite"):
        Policy(PAPER, network).save(tmp_path / "p.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_copy_is_trained_alone():
    result = policy()
    other = result.copy()
    other.network.flat += 1
    other.statistics["reward"] = 0
    assert result.network.flat.tobytes() == policy().network.flat.tobytes()
    assert result.statistics == policy().statistics
    assert other.space == result.space
