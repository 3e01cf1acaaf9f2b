"""SelfRandAugment: pilots of a grid, of which the rotation probe chooses, and the training that follows."""

import json

import pytest

import coviews
from coviews import CoviewsError, pretrain, self_randaugment
from coviews.cli import main
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import read_settings
from small_runs import SMALL

TINY = SMALL.replaced(views="selfrandaugment", space=None, epochs=20)


def rotation(file):
    runs = json.loads(file.read_text())["runs"]
    return {run["variant"]: run["quality"]["rotation"] for run in runs}


def test_the_pilot_that_tells_turns_best_is_chosen(here, tmp_path):
    out = tmp_path / "pilots"
    choice = self_randaugment(TINY, out, epochs=1, steps=[1, 3], magnitudes=[25], progress=False)
    assert here == ["N=1-M=25-0", "N=3-M=25-0"]
    for n in (1, 3):
        pilot = read_settings(out / "runs" / f"N={n}-M=25-0" / "config.yaml")
        assert (pilot.views, pilot.randaugment_steps, pilot.magnitude, pilot.epochs) == ("randaugment", n, 25, 1)
    scores = rotation(out / "results.json")
    assert choice.scores == {(1, 25): scores["N=1 M=25"], (3, 25): scores["N=3 M=25"]}
    best = max(choice.scores, key=choice.scores.get)
    s = choice.settings
    assert (s.views, s.randaugment_steps, s.magnitude, s.epochs) == ("randaugment", *best, 20)
    assert s.named_source("randaugment").steps == best[0]
    assert f"{max(choice.scores.values()):.3f}" in choice.sentence
    again = self_randaugment(TINY, out, epochs=1, steps=[1, 3], magnitudes=[25], progress=False)
    assert again == choice
    assert len(here) == 2  # nothing was trained again


def test_the_command_trains_with_what_it_found(here, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(self_randaugment.__kwdefaults__, "steps", (1,))
    monkeypatch.setitem(self_randaugment.__kwdefaults__, "magnitudes", (3, 20))
    words = ["shapes:60", "--size", "16", "--encoder", "resnet8", "--batch-size", "16", "--epochs", "2"]
    command = ["pretrain", *words, "--views", "selfrandaugment", "--knn-every", "0", "--out", str(tmp_path / "run")]
    assert main([*command, "--no-report", "--pilot-epochs", "1"]) == 0
    scores = rotation(tmp_path / "run" / "choice" / "results.json")
    best = max(scores, key=scores.get)
    settings = read_settings(tmp_path / "run" / "config.yaml")
    assert (settings.views, settings.epochs) == ("randaugment", 2)
    assert best == f"N={settings.randaugment_steps} M={settings.magnitude}"
    assert f"at magnitude {settings.magnitude}" in capsys.readouterr().out
    assert (tmp_path / "run" / "encoder.safetensors").exists()


def test_what_cannot_be_done_is_named(tmp_path):
    with pytest.raises(CoviewsError, match=r"call coviews\.self_randaugment\(settings, out\) first"):
        pretrain(settings=TINY, progress=False)
    with pytest.raises(CoviewsError, match="two different pairs"):
        self_randaugment(TINY, tmp_path / "p", steps=[1], magnitudes=[3], progress=False)
    with pytest.raises(CoviewsError, match="--randaugment-steps must be a whole number from 1"):
        PretrainSettings(randaugment_steps=0)
    assert main(["pretrain", "shapes:60", "--pilot-epochs", "2"]) == 2


def test_images_that_are_not_square_are_refused(here, tmp_path, monkeypatch):
    from coviews.comparison import results

    old = results.collect

    def without(*given):
        result = old(*given)
        if result is not None:
            result.quality.pop("rotation")
        return result

    monkeypatch.setattr(coviews.comparison.compare, "collect", without)
    with pytest.raises(CoviewsError, match="needs square images"):
        self_randaugment(TINY, tmp_path / "p", epochs=1, steps=[1], magnitudes=[3, 9], progress=False)
