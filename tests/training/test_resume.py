"""A run that was killed and resumed leaves the same bytes as one that was not."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import coviews
from coviews import CoviewsError, pretrain
from coviews.cli import main
from coviews.runs.folder import FORMAT, Run
from coviews.runs.settings_file import settings_yaml
from coviews.training.signals import Stopped
from small_runs import SMALL, content, differing, signalled

HERE = Path(__file__).parents[1]
ALONE = {**os.environ, "OMP_NUM_THREADS": "1"}
SLOW = ("moco", "hardviews", "viewmaker", "infomin-flow", "compare", "reproduce")


@pytest.mark.parametrize(
    ("what", "kills"),
    [("ppo", 4), ("table", 4), ("embed", 2), *(pytest.param(w, 8, marks=pytest.mark.slow) for w in SLOW)],
)
def test_stopped_at_any_moment_and_resumed(what, kills):
    command = [sys.executable, HERE / "killed_runs.py", what, "--kills", str(kills)]
    done = subprocess.run(command, env=ALONE, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 of them not equal" in done.stdout


@pytest.mark.parametrize("views", ["coviews", "hardviews", "indepviews"])
def test_one_seed_one_run_whatever_the_threads(views, tmp_path):
    for name, threads in (("one", 1), ("two", 3)):
        pretrain(
            settings=SMALL.replaced(views=views, hard_views=3, out=tmp_path / name), threads=threads, progress=False
        )
    one, two = content(tmp_path / "one"), content(tmp_path / "two")
    one.pop("config.yaml"), two.pop("config.yaml")
    assert not differing(one, two)
    pretrain(settings=SMALL.replaced(views=views, hard_views=3, out=tmp_path / "three"), seed=1, progress=False)
    assert "encoder.safetensors" in differing(one, content(tmp_path / "three"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_says_how_to_go_on(number, code, tmp_path):
    (tmp_path / "config").write_text(settings_yaml(SMALL.replaced(epochs=500)))
    command = [sys.executable, "-m", "coviews", "pretrain", "--config", tmp_path / "config", "--out", tmp_path / "run"]
    process = subprocess.Popen(command, env=ALONE, stderr=subprocess.PIPE, text=True)
    metrics, until = tmp_path / "run" / "metrics.jsonl", time.monotonic() + 100
    while time.monotonic() < until and not (metrics.exists() and '"epoch":2' in metrics.read_text()):
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code, said
    assert f"continue with: coviews pretrain --resume {tmp_path / 'run'}" in said
    assert "Traceback" not in said
    state = Run(tmp_path / "run").load()
    assert state["epoch"] >= 2


def test_one_command_begins_a_run_and_continues_it(tmp_path, capsys):
    options = "--size 16 --encoder resnet8 --projector 32 --epochs 2 --batch-size 32 --knn-every 0 --accelerator cpu"
    words = ["pretrain", "shapes:100", *options.split(), "--no-report", "--no-tensorboard", "--no-progress"]
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    again = [*words, "--out", str(tmp_path / "run"), "--auto-resume"]
    with signalled(1):
        assert main(again) == 143
    assert not (tmp_path / "run" / "encoder.safetensors").exists()
    assert main(again) == 0
    assert not differing(content(tmp_path / "whole"), content(tmp_path / "run"))
    for wrong in (words, [*again, "--overwrite"], [*again, "--views", "choose"]):
        capsys.readouterr()
        assert main([*wrong, *([] if "--auto-resume" in wrong else ["--auto-resume"])]) == 2
        assert "--auto-resume needs --out" in capsys.readouterr().err


def test_stopped_in_the_middle_of_a_search_and_resumed(tmp_path):
    pretrain(settings=SMALL.replaced(out=tmp_path / "whole"), progress=False)
    with signalled(3), pytest.raises(Stopped, match="--resume"):
        pretrain(settings=SMALL.replaced(out=tmp_path / "run"), progress=False)
    assert not (tmp_path / "run" / "encoder.safetensors").exists()
    pretrain(resume=tmp_path / "run", progress=False)
    assert not differing(content(tmp_path / "whole"), content(tmp_path / "run"))


def test_a_finished_run_is_finished_again(tmp_path):
    first = pretrain(settings=SMALL.replaced(out=tmp_path / "run", epochs=2), progress=False)
    before = content(tmp_path / "run")
    (tmp_path / "run" / "encoder.safetensors").unlink()
    again = pretrain(resume=tmp_path / "run", progress=False)
    assert not differing(before, content(tmp_path / "run"))
    assert again.quality == first.quality


def test_only_what_does_not_change_the_result_may_change(tmp_path):
    run = tmp_path / "run"
    pretrain(settings=SMALL.replaced(out=run, epochs=2), progress=False)
    pretrain(resume=run, threads=2, save_every=5.0, progress=False)
    with pytest.raises(CoviewsError, match="another lr"):
        pretrain(resume=run, lr=0.5, progress=False)
    with pytest.raises(CoviewsError, match="is not a run"):
        pretrain(resume=tmp_path, progress=False)


def damage(path, how):
    data = bytearray(path.read_bytes())
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "flipped":
        data[len(data) // 2] ^= 255
        path.write_bytes(data)
    elif how == "other":
        torch.save({"format": FORMAT, "metrics": 0, "method": {}}, path)
    elif how == "newer":
        torch.save({"format": 99}, path)
    else:
        path.write_bytes(b"not a checkpoint")


@pytest.mark.parametrize(
    ("how", "said"),
    [("cut", "damaged"), ("flipped", "damaged"), ("text", "damaged"), ("other", "is wrong"), ("newer", "format")],
)
def test_a_bad_checkpoint_is_named(how, said, tmp_path):
    run = tmp_path / "run"
    pretrain(settings=SMALL.replaced(out=run, epochs=2, knn_every=0), progress=False)
    damage(run / "checkpoints" / "last.pt", how)
    with pytest.raises(CoviewsError, match=said) as caught:
        pretrain(resume=run, progress=False)
    assert "last.pt" in str(caught.value)
    assert "begin anew with --overwrite" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 2


def test_a_damaged_checkpoint_is_replaced_by_a_kept_one(tmp_path):
    run, settings = tmp_path / "run", SMALL.replaced(views="uniform", epochs=3, keep_every=1)
    pretrain(settings=settings.replaced(out=run), progress=False)
    before, checkpoints = content(run), run / "checkpoints"
    damage(checkpoints / "last.pt", "cut")
    with pytest.raises(CoviewsError, match=r"damaged.*; copy epoch-0003.pt over it and resume"):
        pretrain(resume=run, progress=False)
    (checkpoints / "last.pt").write_bytes((checkpoints / "epoch-0001.pt").read_bytes())
    pretrain(resume=run, progress=False)
    assert not differing(before, content(run))


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_nothing_in_a_checkpoint_is_executed(tmp_path):
    run = tmp_path / "run"
    pretrain(settings=SMALL.replaced(out=run, epochs=2, knn_every=0), progress=False)
    bad = {"format": FORMAT, "metrics": 0, "x": Payload(str(tmp_path / "hacked"))}
    torch.save(bad, run / "checkpoints" / "last.pt")
    with pytest.raises(CoviewsError, match="damaged"):
        pretrain(resume=run, progress=False)
    assert not (tmp_path / "hacked").exists()


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    run = tmp_path / "run"
    saves = []
    save = torch.save

    def full(state, file):
        saves.append(state["epoch"])
        if len(saves) == 4:
            file.write(b"half of it")
            raise RuntimeError("PytorchStreamWriter failed writing file data/1: file write failed")
        save(state, file)

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(CoviewsError, match=r"cannot write .*last.pt.*full"):
        pretrain(settings=SMALL.replaced(out=run, save_every=0), progress=False)
    monkeypatch.undo()
    assert list(run.rglob("*.partial")) == []
    pretrain(settings=SMALL.replaced(out=tmp_path / "whole"), progress=False)
    pretrain(resume=run, progress=False)
    assert not differing(content(tmp_path / "whole"), content(run))


def test_two_processes_cannot_train_in_one_run(tmp_path):
    run = tmp_path / "run"
    pretrain(settings=SMALL.replaced(out=run, epochs=2, knn_every=0), progress=False)
    held = Run.open(run)
    with pytest.raises(CoviewsError, match="another process"):
        pretrain(resume=run, progress=False)
    held.close()
    pretrain(resume=run, progress=False)


def test_python_data_and_modules_resume_too(tmp_path):
    images = coviews.load_images("shapes:64", size=16).images
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16 * 16 * 3, 8))
    done = pretrain(
        images, encoder=module, settings=SMALL.replaced(views="uniform", epochs=2, out=tmp_path / "run"), progress=False
    )
    fresh = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16 * 16 * 3, 8))
    loaded = coviews.load_encoder(done.path, into=fresh)
    assert torch.equal(loaded[1].weight, done.encoder[1].weight)
    with pytest.raises(CoviewsError, match="into="):
        coviews.load_encoder(done.path)
    again = pretrain(images, encoder=fresh, resume=tmp_path / "run", progress=False)
    assert torch.equal(again.encoder[1].weight, done.encoder[1].weight)


def test_a_checkpoint_of_another_run_is_refused_and_nothing_is_lost(tmp_path):
    for name, seed in (("one", 0), ("two", 1)):
        pretrain(settings=SMALL.replaced(views="uniform", epochs=2, seed=seed, out=tmp_path / name), progress=False)
    (tmp_path / "two" / "checkpoints" / "last.pt").write_bytes(
        (tmp_path / "one" / "checkpoints" / "last.pt").read_bytes()
    )
    lines = (tmp_path / "two" / "metrics.jsonl").read_text()
    with pytest.raises(CoviewsError, match="another seed"):
        pretrain(resume=tmp_path / "two", progress=False)
    assert (tmp_path / "two" / "metrics.jsonl").read_text() == lines


def test_other_images_are_noticed(tmp_path):
    images = coviews.load_images("shapes:96", size=16).images
    pretrain(images, settings=SMALL.replaced(views="uniform", epochs=2, out=tmp_path / "run"), progress=False)
    with pytest.raises(CoviewsError, match="images are not those"):
        pretrain(images[:64], resume=tmp_path / "run", progress=False)


def test_a_resumed_run_does_not_need_the_run_it_started_from(tmp_path):
    pretrain(settings=SMALL.replaced(views="uniform", epochs=1, out=tmp_path / "first"), progress=False)
    second = SMALL.replaced(views="uniform", epochs=1, out=tmp_path / "second", init_from=tmp_path / "first")
    pretrain(settings=second, progress=False)
    (tmp_path / "first").rename(tmp_path / "moved")
    pretrain(resume=tmp_path / "second", progress=False)
