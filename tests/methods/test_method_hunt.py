"""A method is one class and one entry: everything else finds it by itself."""

import json

import pytest
import yaml

from coviews import CoviewsError, PPOSettings, TableSettings
from coviews.cli import main
from coviews.methods.known import METHODS, methods_table
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import read_settings
from small_runs import content, differing
from toy_method import Toy, ToySettings

WORDS = (
    "pretrain shapes:100 --size 16 --encoder resnet8 --epochs 3 --warmup-epochs 1 --batch-size 32 --projector "
    "32 --knn-every 0 --no-tensorboard --no-progress --accelerator cpu --method toy --redundancy 2.5"
)
SEARCH = "--search.iterations 2 --search.samples 8 --search.minibatch 8 --search.batch 32 --search.every 1"


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    monkeypatch.setitem(METHODS, "toy", Toy)


def test_it_is_trained_evaluated_and_reported(tmp_path, capsys):
    run = tmp_path / "run"
    assert main([*WORDS.split(), *SEARCH.split(), "--out", str(run)]) == 0
    written = yaml.safe_load((run / "config.yaml").read_text())
    assert written["method"] == {"name": "toy", "temperature": 0.5, "projector": 32, "redundancy": 2.5}
    assert read_settings(run / "config.yaml").method == ToySettings(projector=32, redundancy=2.5)
    assert written["search"]["name"] == "ppo"  # its losses do not say how hard a pair is
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [r["epoch"] for r in records if r["kind"] == "search"] == [2, 3]
    losses = [r["loss"] for r in records if r["kind"] == "epoch"]
    assert len(losses) == 3
    assert losses[-1] < losses[0]
    assert "toy" in (run / "report.html").read_text()

    capsys.readouterr()
    assert main(["evaluate", str(run), "--device", "cpu", "--no-progress"]) == 0
    assert "kNN" in capsys.readouterr().out
    (run / "report.html").unlink()
    assert main(["report", str(run)]) == 0
    page = (run / "report.html").read_text()
    assert "toy" in page
    assert "linear" in page.lower()


def test_it_is_the_same_again_and_resumes(tmp_path):
    for name in ("one", "two"):
        assert main([*WORDS.split(), "--views", "uniform", "--no-report", "--out", str(tmp_path / name)]) == 0
    (tmp_path / "two" / "encoder.safetensors").unlink()
    assert main(["pretrain", "--no-progress", "--resume", str(tmp_path / "two")]) == 0
    assert not differing(content(tmp_path / "one"), content(tmp_path / "two"))


def shown(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["pretrain", *words, "--help"])
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_its_options_are_in_the_help(capsys):
    page = shown(["--method", "toy"], capsys)
    assert "--redundancy" in page
    assert "The weight of the correlations between features." in page
    usual = shown([], capsys)
    assert "simclr, moco, byol, simsiam, dino, vicreg, rotation, toy" in usual
    assert "--redundancy" not in usual


def test_it_is_in_the_table_of_methods():
    heads, rows = methods_table()
    assert len(heads) == 3
    assert rows[-1] == [
        "`toy`", "both views of an image are alike, and features of a batch do not say the same.",
        "`--temperature`, `--projector`, `--redundancy`",
    ]  # fmt: skip


def test_python_knows_it():
    settings = PretrainSettings().replaced(method="toy", redundancy=2)
    assert settings.method == ToySettings(redundancy=2.0)
    assert settings.search == PPOSettings()
    assert settings.replaced(method="moco").search == TableSettings()
    for changes, said in (
        ({"redundancy": 2}, "redundancy is an option of the method toy, and the method is simclr"),
        ({"method": "toy", "redundancy": -1.0}, "--redundancy must be 0 or more"),
        ({"method": "toy", "bank": 64}, "bank is an option of the method moco, and the method is toy"),
        ({"method": "toy", "search": "table"}, "those of toy do not reveal how hard a pair is"),
    ):
        with pytest.raises(CoviewsError, match=said):
            PretrainSettings().replaced(**changes)


def test_its_option_without_it_says_whose_it_is(capsys):
    assert main(["pretrain", "shapes:100", "--redundancy", "3"]) == 2
    assert "--redundancy is an option of --method toy, and the method is simclr" in capsys.readouterr().err
