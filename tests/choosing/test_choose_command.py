"""`coviews choose` and `coviews pretrain --views choose`, with true pilots."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from coviews import CoviewsError, choose, pretrain, read_family
from coviews.cli import main
from coviews.policies.factors import VIEW_FACTORS

LOCKED = "--matters=" + ",".join(set(VIEW_FACTORS) - {"colour", "mirror"})
SMALL = ["--size", "16", "--pilots", "4", "--epochs", "1", "--jobs", "2", LOCKED, "--no-keep"]


@pytest.fixture
def away(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_from_images_to_a_choice_and_an_encoder(here, images, away, capsys):
    assert main(["choose", str(images), "--per-class", "5", *SMALL]) == 0
    said = capsys.readouterr()
    assert here == [f"crop-whole-{rest}-0" for rest in ("mirror-colour", "colour", "mirror")] + ["crop-whole-0"]
    sentence = json.loads((away / "choice" / "choice.json").read_text())["sentence"]
    assert " ".join(said.out.split()).startswith(sentence)
    assert "do not mirror" in said.out
    assert "wrote choice/views.yaml and choice/choice.html" in said.out
    assert f"next: coviews pretrain {images} --views choice/views.yaml" in said.out
    assert "[4/4]" in said.err
    page = (away / "choice" / "choice.html").read_text()
    for part in (sentence.split(".")[0], "Is the mirror image the same thing?", "you said no", "data:image/png"):
        assert part in page
    views = read_family(away / "choice" / "views.yaml")
    small = ["--encoder", "resnet8", "--size", "16", "--epochs", "1", "--batch-size", "16"]
    assert main(["pretrain", str(images), "--views", "choice/views.yaml", "--out", "run", *small]) == 0
    assert "coviews choose" not in capsys.readouterr().err  # its views were chosen
    assert f"views: {views.text}" in (away / "run" / "config.yaml").read_text()
    assert main(["pretrain", str(images), "--views", "recipe", "--out", "other", *small]) == 0
    assert f"coviews choose {images}: which views are useful" in capsys.readouterr().err


def test_pretrain_chooses_first(images, away, pilots, monkeypatch, capsys):
    monkeypatch.setattr("coviews.training.pretrain.pretrain", lambda settings, **_: trained.append(settings))
    trained = []
    words = ["pretrain", str(images), "--views", "choose", "--out", "run", "--budget", "5m", "--epochs", "3"]
    assert main([*words, "--matters", "colour,turns,tilt,blur"]) == 0
    assert "recipe" in capsys.readouterr().out
    (settings,) = trained
    assert settings.views == "run/choice/views.yaml"
    assert settings.out.name == "run"
    assert settings.epochs == 3
    assert not settings.family.colour
    begun = list(pilots.started)
    assert main([*words, "--matters", "colour,turns,tilt,blur"]) == 0
    assert pilots.started == begun  # the same command goes on
    (away / "run" / "config.yaml").write_text("epochs: 3")
    assert main(words) == 2
    assert "holds a run" in capsys.readouterr().err


def test_a_choice_does_not_hinder_the_run_in_its_folder(away, images):
    (away / "run" / "choice").mkdir(parents=True)
    (away / "run" / "choice" / "views.yaml").write_text("format: 1\nviews: {crop: small}\n")
    options = {"encoder": "resnet8", "size": 16, "epochs": 1, "batch_size": 16, "report": False, "progress": False}
    pretrain(str(images), views="cropflip", out=away / "run", **options)
    pretrain(str(images), views="cropflip", out=away / "run", overwrite=True, **options)
    assert (away / "run" / "choice" / "views.yaml").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["choose", "nowhere"], "there is no file or folder 'nowhere'"),
        (["choose", "shapes:40", "--labels", "gone.csv"], "there is no list gone.csv"),
        (["choose", "shapes:40", "--budget", "1s"], "too little for two pilots"),
        (["choose", "shapes:40", "--matters", "color"], "did you mean 'colour'"),
        (["pretrain", "shapes:40", "--labels", "x.csv"], "--labels goes with --views choose"),
        (["pretrain", "shapes:40", "--views", "chose"], "did you mean 'choose'"),
        (["compare", "shapes:40", "--views", "choose,simclr"], "choose views first"),
    ],
)
def test_bad_input_is_a_line_or_two(away, capsys, words, said):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) <= 2


def test_in_python_views_are_chosen_before(away):
    with pytest.raises(CoviewsError, match=r"call coviews.choose\(data\) first"):
        pretrain("shapes:40", views="choose", progress=False)


@pytest.mark.slow
def test_killed_processes_go_on(images, away):
    options = [*SMALL, "--no-progress"]
    command = [sys.executable, "-m", "coviews", "choose", str(images), "--out", "killed", *options]
    process = subprocess.Popen(command, start_new_session=True)
    end = time.monotonic() + 300
    while not list((away / "killed").rglob("signals.json")):
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (away / "killed" / "choice.json").exists()
    deadline = time.monotonic() + 60
    while subprocess.run(command, check=False, capture_output=True).returncode:
        assert time.monotonic() < deadline  # the last pilots save and end first
        time.sleep(1)
    assert subprocess.run([*command[: -len(options) - 1], "whole", *options], check=False).returncode == 0
    results = [json.loads((away / name / "choice.json").read_text()) for name in ("killed", "whole")]
    assert results[0] == results[1]
    assert not choose(str(images), out=away / "whole", dry_run=True, size=16, matters=LOCKED[10:]).failed
