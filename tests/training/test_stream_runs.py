"""Training on a stream: exact after a kill and with two processes, and in little memory."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import pytest
import safetensors.torch
import torch

import coviews
from coviews import CoviewsError, ViewSettings, pretrain, view_source
from coviews.data.request import ImageRequest
from coviews.data.stream import Stream, open_stream
from coviews.data.tar_pack import TarPack
from coviews.training.batches import Batches
from coviews.training.signals import Stopped
from coviews.training.state import Training
from made_up_shards import write_shards
from small_runs import SMALL, content, differing

HERE = Path(__file__).parents[1]
COUNT = 120
STREAMED = SMALL.replaced(
    data=".", views="recipe", epochs=2, batch_size=16, stream=True, stream_buffer=48, knn_every=1, threads=2
)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    images = coviews.load_images(f"shapes:{COUNT}", size=16)
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder, images.images, images.labels, per_shard=10)
    return folder


@pytest.fixture
def with_broken(shards, tmp_path):
    """The shards with two images that cannot be read."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for path in shards.iterdir():
        whole = bytearray(path.read_bytes())
        if path.name in ("003.tar", "007.tar"):
            start = whole.find(b".png") + 512
            whole[start : start + 50] = bytes(50)
        (folder / path.name).write_bytes(whole)
    return folder


def weights(run):
    return safetensors.torch.load_file(run / "encoder.safetensors")


@pytest.mark.parametrize("where", ["{}", "memory://streamed"])
def test_a_run_that_was_stopped_goes_on_exactly(where, with_broken, tmp_path, monkeypatch):
    monkeypatch.setattr("coviews.training.setup.BROKEN", 0.5)
    system = fsspec.filesystem("memory")
    for path in with_broken.iterdir():
        system.pipe_file(f"/streamed/{path.name}", path.read_bytes())
    settings = STREAMED.replaced(cache=tmp_path / "cache")
    data = where.format(with_broken)
    pretrain(data, settings=settings.replaced(out=tmp_path / "whole"), progress=False)
    old, calls = Training.stop_if_asked, []

    def asks(training):
        calls.append(training.step)
        if len(calls) in (4, 9):  # in the middle of the first epoch and of the second
            training.stop_request.signal = signal.SIGTERM
        old(training)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "stop_if_asked", asks)
        with pytest.raises(Stopped):
            pretrain(data, settings=settings.replaced(out=tmp_path / "run"), progress=False)
        with pytest.raises(Stopped):
            pretrain(resume=tmp_path / "run", progress=False)
    pretrain(resume=tmp_path / "run", progress=False)
    assert not differing(content(tmp_path / "whole"), content(tmp_path / "run"))
    broken = (tmp_path / "run" / "broken.txt").read_text().splitlines()
    assert [line.split("\t")[0] for line in broken] == ["003.tar/000030.png", "007.tar/000070.png"]


def test_a_killed_process_goes_on_exactly(shards, tmp_path):
    options = f"""{shards} --stream --stream-buffer 48 --size 16 --encoder resnet8 --projector 32 --epochs 2
        --batch-size 16 --knn-every 0 --accelerator cpu --save-every 0 --no-report --no-tensorboard --no-progress
        --cache {tmp_path / "cache"}"""
    command = [sys.executable, "-m", "coviews", "pretrain"]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = tmp_path / "killed"
    process = subprocess.Popen([*command, *options.split(), "--out", run], env=alone, stderr=subprocess.PIPE)
    until = time.monotonic() + 300
    while not (run / "checkpoints" / "last.pt").exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert not (run / "encoder.safetensors").exists(), "it was over before it was killed"
    torch.set_num_threads(1)
    pretrain(resume=run, progress=False)
    settings = coviews.PretrainSettings(
        data=str(shards), stream=True, stream_buffer=48, size=16, encoder="resnet8", epochs=2, batch_size=16,
        knn_every=0, accelerator="cpu", report=False, tensorboard=False, cache=tmp_path / "cache",
        out=tmp_path / "whole",
    ).replaced(projector=32)  # fmt: skip
    pretrain(str(shards), settings=settings, progress=False)
    one, other = weights(tmp_path / "whole"), weights(run)
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_make_together_what_one_makes(ranks, shards, tmp_path):
    request = ImageRequest(
        size=None, channels=None, limit=None, subset=None, subset_seed=0, root=tmp_path, download=False, max_broken=0.5,
        cache=tmp_path, memory=None, progress=False, stream=True,
    )  # fmt: skip
    source = view_source("simclr")
    with contextlib.closing(open_stream(shards, request, 48)) as stream:
        whole = Batches(stream, 16, 3, ViewSettings(threads=1))
        parts = [replace(whole, rank=rank, ranks=ranks) for rank in range(ranks)]
        for step in (0, whole.steps - 1):
            (views,), plan = whole.make(source, 1, step, whole.order(1))
            made = [part.make(source, 1, step, part.order(1)) for part in parts]
            assert np.array_equal(np.concatenate([groups[0] for groups, _ in made]), views)
            assert all(other == plan for _, other in made)


@pytest.mark.slow
def test_two_processes_train_as_one(shards, tmp_path):
    for devices in (1, 2):
        command = [sys.executable, HERE / "two_ranks.py", str(devices), tmp_path, "simclr", "recipe", "", shards]
        done = subprocess.run(
            command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
    one, two = (weights(tmp_path / f"simclr-{n}") for n in (1, 2))
    assert all(torch.allclose(one[name], two[name], atol=1e-4) for name in one)


def test_few_images_are_held_at_once(tmp_path, monkeypatch):
    """A batch and the sample, however many images there are; and a few shards of those that are fetched."""
    shards = tmp_path / "shards"
    write_shards(shards, coviews.load_images(f"shapes:{COUNT}", size=16).images, per_shard=3)
    held, fetched, read = [], [], Stream.__getitem__

    def counted(stream, indices):
        held.append(len(indices))
        fetched.append(len(stream.source.pack.kept))
        return read(stream, indices)

    monkeypatch.setattr(Stream, "__getitem__", counted)
    monkeypatch.setattr("coviews.data.stream.SAMPLED", 20)
    settings = STREAMED.replaced(out=tmp_path / "run", cache=tmp_path / "cache", report=True, views="coviews", epochs=3)
    settings = settings.replaced(search={"batch": 16, "samples": 4, "minibatch": 4}, stream_buffer=8)
    done = pretrain(f"file://{shards}/{{000..039}}.tar", settings=settings, progress=False)
    assert set(held) == {16}
    assert max(fetched) <= 3 * 8 < 40  # of each lane the shard in use, and those around it
    assert len(list((tmp_path / "cache").rglob("*.npy"))) == 0  # nothing is kept decoded
    start = json.loads((done.path / "metrics.jsonl").read_text().splitlines()[0])
    assert (start["images"], start["sampled"]) == (COUNT, 20)
    assert "No images are shown" not in (done.path / "report.html").read_text()


def test_a_stream_is_not_read_to_learn_its_mean(shards, tmp_path, monkeypatch):
    reads, read = [], TarPack.read

    def counted(pack, shard, row, most):
        reads.append((shard, row))
        return read(pack, shard, row, most)

    monkeypatch.setattr(TarPack, "read", counted)
    monkeypatch.setattr("coviews.data.stream.SAMPLED", 16)
    monkeypatch.setattr("coviews.data.stream._TRIED", 8)
    pretrain(shards, settings=STREAMED.replaced(epochs=1, cache=tmp_path, out=tmp_path / "run"), progress=False)
    images = (COUNT // 16) * 16
    assert len(reads) <= images + 2 * (8 + 16) + 8  # the epoch; headers and pixels of two samples
    assert len(set(reads)) >= images


def test_the_console_says_what_is_sampled_and_what_is_broken(with_broken, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("coviews.data.stream.SAMPLED", 16)
    monkeypatch.setattr("coviews.data.stream._TRIED", 8)
    settings = STREAMED.replaced(cache=tmp_path / "cache", out=tmp_path / "run")
    pretrain(with_broken, settings=settings)
    said = capsys.readouterr().err
    assert "120 images of 16 x 16" in said
    assert "streaming: images are decoded when they are needed" in said
    assert "take a sample of 16" in said
    assert "2 of 120 images are broken, and other images took their places: 003.tar/000030.png (" in said


def test_test_images_are_loaded_too(shards, tmp_path):
    settings = STREAMED.replaced(cache=tmp_path / "cache", out=tmp_path / "run", epochs=1, test_data=str(shards))
    done = pretrain(shards, settings=settings, progress=False)
    assert done.quality["knn"] > 50  # they are the training images


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"frames": "each"}, "--frames each has to open all files"),
        ({"views": "choose"}, "--views choose looks at all images"),
        ({"views": "selfrandaugment"}, "--views selfrandaugment looks at all images"),
        ({"stream_buffer": 0}, "--stream-buffer must be a whole number from 1"),
    ],
)
def test_what_does_not_go_with_a_stream_is_refused(changes, message):
    with pytest.raises(CoviewsError, match=message) as caught:
        STREAMED.replaced(**changes)
    assert len(str(caught.value).splitlines()) == 1


def test_arrays_and_comparisons_are_refused(tmp_path):
    for data in ("shapes:100", np.zeros((40, 8, 8, 3), np.uint8)):
        with pytest.raises(CoviewsError, match="leave out --stream"):
            pretrain(data, settings=STREAMED.replaced(out=tmp_path / "run"), progress=False)
    with pytest.raises(CoviewsError, match="a comparison judges by all images: leave out --stream"):
        coviews.compare("shapes:100", views="random", stream=True, out=tmp_path / "comparison", progress=False)
