"""More epochs for a run that is there; a warm-up that shrinks with the epochs."""

import pytest

from coviews import CoviewsError
from coviews.cli import main
from coviews.runs.folder import Run
from coviews.runs.settings import PretrainSettings
from coviews.training.pretrain import pretrain
from coviews.training.schedule import learning_rate
from small_runs import SMALL, content

SHORT = SMALL.replaced(views="recipe", knn_every=0, epochs=2)


def test_a_run_is_extended_and_its_schedule_said(tmp_path, capsys):
    run = tmp_path / "run"
    pretrain(settings=SHORT, out=run, progress=False)
    first = content(run)["metrics.jsonl"]
    assert main(["pretrain", "--resume", str(run), "--epochs", "4"]) == 0
    said = capsys.readouterr().err
    rates = [learning_rate(SHORT.replaced(epochs=4), step, 3) for step in range(12)]
    assert "extended from 2 to 4 epochs" in said
    assert f"that of a run of 4 epochs, {rates[6]:.4f} now (it was 0.0000)" in said
    records = content(run)["metrics.jsonl"]
    assert records[: len(first)] == first
    assert [r["lr"] for r in records if r["kind"] == "epoch"][2:] == [rates[8], rates[11]]
    extension = next(r for r in records if r["kind"] == "extension")
    assert extension == {"kind": "extension", "epoch": 3, "from": 2, "to": 4, "lr": rates[6]}
    assert Run(run).settings.epochs == 4
    assert (run / "encoder.safetensors").exists()
    with pytest.raises(CoviewsError, match="has 4 epochs: more --epochs extend it"):
        pretrain(resume=run, epochs=3)


@pytest.mark.parametrize(("epochs", "warmup"), [(1, 0), (3, 1), (60, 6), (100, 10), (800, 10)])
def test_the_warm_up_shrinks_with_the_epochs(epochs, warmup):
    settings = PretrainSettings(epochs=epochs, views="coviews")
    assert settings.warmup == settings.settled().warmup_epochs == warmup
    assert settings.searches_at(warmup + 1)
    assert not settings.searches_at(warmup)


def test_a_warm_up_that_is_given_stays():
    assert PretrainSettings(epochs=30, warmup_epochs=10, views="coviews").warmup == 10
    with pytest.raises(CoviewsError, match="leave none for a search"):
        PretrainSettings(epochs=3, warmup_epochs=10, views="coviews")
