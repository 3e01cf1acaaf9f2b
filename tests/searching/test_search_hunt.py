"""A search is one class and one entry: everything else finds it by itself."""

import json
import signal

import numpy as np
import pytest
import torch
import yaml

from coviews import CoviewsError, PPOSettings, load_policy
from coviews.cli import main
from coviews.comparison.plan import view_variants
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import read_settings
from coviews.searching.known import SEARCHES, searches_table
from small_runs import SMALL, content, differing, signalled
from toy_search import ToySearch, ToySettings

WORDS = (
    "pretrain shapes:100 --size 16 --encoder resnet8 --epochs 4 --warmup-epochs 1 --batch-size 32 --projector "
    "32 --knn-every 0 --no-tensorboard --accelerator cpu --search toy --search.strength 3"
)


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    monkeypatch.setitem(SEARCHES, "toy", ToySearch)


def records(run, kind):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [r for r in lines if r["kind"] == kind]


def test_the_command_line_trains_with_it(tmp_path, capsys):
    run = tmp_path / "run"
    assert main([*WORDS.split(), "--out", str(run)]) == 0
    said = capsys.readouterr().err
    assert "3 guesses" in said
    assert "epoch 2: guessed: mean loss" in said
    searches = records(run, "search")
    assert [r["epoch"] for r in searches] == [2, 3, 4]
    assert searches[0]["mean"] == pytest.approx(records(run, "epoch")[0]["loss"], abs=1e-4)
    policies = [load_policy(run / "policies" / f"{epoch:04d}.safetensors") for epoch in (2, 3, 4)]
    assert len({p.network.flat.tobytes() for p in policies}) == 3

    written = yaml.safe_load((run / "config.yaml").read_text())["search"]
    assert (written["name"], written["strength"], written["every_second"]) == ("toy", 3.0, False)
    assert read_settings(run / "config.yaml").search == ToySettings(strength=3.0)
    state = torch.load(run / "checkpoints" / "last.pt", weights_only=True)["search"]
    assert state["pairs"] == 4 * 96
    assert np.sum(state["sums"].numpy()) == pytest.approx(sum(r["loss"] for r in records(run, "epoch")) * 96, rel=1e-4)
    assert (run / "report.html").stat().st_size > 10_000


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    assert main([*WORDS.split(), "--no-progress", "--out", str(tmp_path / "whole")]) == 0
    with signalled(lambda training: (training.epoch, training.step) == (3, 1)):
        assert main([*WORDS.split(), "--no-progress", "--out", str(tmp_path / "run")]) == 128 + signal.SIGTERM
    assert not (tmp_path / "run" / "encoder.safetensors").exists()
    assert main(["pretrain", "--no-progress", "--resume", str(tmp_path / "run")]) == 0
    assert not differing(content(tmp_path / "whole"), content(tmp_path / "run"))


def test_it_may_have_nothing_new(tmp_path):
    run = tmp_path / "run"
    assert main([*WORDS.split(), "--no-progress", "--search.every-second", "--out", str(run)]) == 0
    assert [r["epoch"] for r in records(run, "search")] == [2, 4]
    assert sorted(p.stem for p in (run / "policies").iterdir()) == ["0002", "0004"]


def shown(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["pretrain", *words, "--help"])
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_its_options_are_in_the_help(capsys):
    page = shown(["--search", "toy"], capsys)
    assert "--search.strength" in page
    assert "How far a policy departs from an untrained one." in page
    assert "--search.every-second" in page
    assert "--search.hardness" not in page
    usual = shown(["--help-all"], capsys)
    assert "table, ppo, toy" in usual
    assert "--search.hardness" in usual
    assert "--search.strength" not in usual


def test_it_is_in_the_table_of_searches():
    heads, rows = searches_table()
    assert len(heads) == 3
    assert rows[-1] == [
        "`toy`", "A random policy, the further from uniform the higher the losses of training were.",
        "`--search.strength`, `--search.every-second`",
    ]  # fmt: skip


def test_python_and_comparisons_know_it():
    settings = PretrainSettings().replaced(search={"name": "toy", "strength": 2, "steps": 3})
    assert settings.search == ToySettings(strength=2.0, steps=3)
    assert settings.replaced(search="ppo").search == PPOSettings(steps=3)
    assert view_variants(SMALL, ["coviews:toy"])["coviews:toy"].search == ToySettings()
    with pytest.raises(CoviewsError, match=r"search\.strength is an option of the search toy, and the search is table"):
        PretrainSettings().replaced(search={"strength": 2})
    with pytest.raises(CoviewsError, match="those of byol do not reveal how hard a pair is: use --search ppo"):
        PretrainSettings().replaced(method="byol", search="toy")


def test_its_option_without_it_says_whose_it_is(capsys):
    assert main(["pretrain", "shapes:100", "--search.strength", "3"]) == 2
    assert "--search.strength is an option of --search toy, and the search is table" in capsys.readouterr().err
