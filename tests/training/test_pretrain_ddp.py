"""Two processes that share each batch train as one with the whole batch would."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from coviews import CoviewsError

HERE = Path(__file__).parents[1]
ALONE = {**os.environ, "OMP_NUM_THREADS": "1"}


def records(run, kind="epoch"):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [r for r in lines if r["kind"] == kind]


def losses(run):
    return [r["loss"] for r in records(run)], records(run, "search")


@pytest.mark.parametrize("method", ["simclr", "moco"])
def test_two_ranks_are_one(method, tmp_path):
    for devices in (1, 2):
        command = [sys.executable, HERE / "two_ranks.py", str(devices), tmp_path, method]
        done = subprocess.run(command, env=ALONE, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    one, two = (losses(tmp_path / f"{method}-{n}") for n in (1, 2))
    assert len(one[0]) == 4
    assert np.allclose(one[0][:1], two[0][:1], atol=1e-5)  # before the first search: the same views
    assert np.allclose(one[0], two[0], atol=0.05)
    assert len(one[1]) == len(two[1]) == 3
    assert one[1][0]["reference"] == pytest.approx(two[1][0]["reference"], abs=1e-4)
    same = [(tmp_path / f"{method}-2-rank-{rank}.safetensors").read_bytes() for rank in (0, 1)]
    assert same[0] == same[1]  # all ranks have the same policy, byte for byte
    assert same[0] == (tmp_path / f"{method}-2" / "policies" / "0004.safetensors").read_bytes()
    assert not list((tmp_path / f"{method}-2").rglob("*.partial"))


def test_without_learned_views_the_weights_are_the_same(tmp_path):
    for devices in (1, 2):
        command = [sys.executable, HERE / "two_ranks.py", str(devices), tmp_path, "simclr", "uniform"]
        done = subprocess.run(command, env=ALONE, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    one, two = (safetensors.torch.load_file(tmp_path / f"simclr-{n}" / "encoder.safetensors") for n in (1, 2))
    assert all(torch.allclose(one[name], two[name], atol=1e-4) for name in one)
    kept = [records(tmp_path / f"simclr-{n}")[-1]["kept"] for n in (1, 2)]  # by the keeping head, of the whole batch
    assert kept[0] == pytest.approx(kept[1], abs=1e-4)
    assert {"Brightness", "position", "mirrored"} <= set(kept[0])


@pytest.mark.slow
def test_two_ranks_learn_the_same_flow(tmp_path):
    for devices in (1, 2):
        command = [sys.executable, HERE / "two_ranks.py", str(devices), tmp_path, "simclr", "infomin-flow"]
        done = subprocess.run(command, env=ALONE, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    for name in ("encoder", "viewmaker"):
        one, two = (safetensors.torch.load_file(tmp_path / f"simclr-{n}" / f"{name}.safetensors") for n in (1, 2))
        assert all(torch.allclose(one[key], two[key], atol=1e-3) for key in one)


@pytest.mark.slow
def test_a_rank_that_dies_is_restarted_and_the_run_ends_the_same(tmp_path):
    """As a scheduler does it: torchrun starts all ranks again, and the same command continues."""
    for name in ("whole", "killed"):
        run = tmp_path / name
        options = f"""shapes:100 --size 16 --encoder resnet8 --projector 32 --epochs 30 --batch-size 32 --knn-every 0
            --accelerator cpu --save-every 0 --no-report --no-tensorboard --no-progress --auto-resume --out {run}"""
        launcher = "-m torch.distributed.run --standalone --nproc-per-node 2 --max-restarts 1 -m coviews pretrain"
        meet_anew = {**ALONE, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # as docs/scale.md says
        process = subprocess.Popen([sys.executable, *launcher.split(), *options.split()], env=meet_anew)
        if name == "killed":
            until = time.monotonic() + 300
            while not ((run / "metrics.jsonl").exists() and len(records(run)) >= 5) and time.monotonic() < until:
                time.sleep(0.05)
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(children[-1]), signal.SIGKILL)
        assert process.wait(600) == 0
    whole, killed = ((tmp_path / name / "encoder.safetensors").read_bytes() for name in ("whole", "killed"))
    assert whole == killed
    assert len(records(tmp_path / "killed")) == 30


def test_two_ranks_fit_the_same_table(tmp_path):
    for devices in (1, 2):
        command = [sys.executable, HERE / "two_ranks.py", str(devices), tmp_path, "simclr", "coviews", "table"]
        done = subprocess.run(command, env=ALONE, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    one, two = (losses(tmp_path / f"simclr-{n}") for n in (1, 2))
    assert np.allclose(one[0][:1], two[0][:1], atol=1e-5)  # before the first fit: the same views
    assert np.allclose(one[0], two[0], atol=0.05)
    assert [r["pairs"] for r in one[1]] == [r["pairs"] for r in two[1]] == [96, 192, 288]
    for name in ("reference", "explained", "loss"):
        assert one[1][0][name] == pytest.approx(two[1][0][name], abs=1e-4)
    assert all(r["hardness"] > 0 for r in two[1])
    same = [(tmp_path / f"simclr-2-rank-{rank}.safetensors").read_bytes() for rank in (0, 1)]
    assert same[0] == same[1] == (tmp_path / "simclr-2" / "policies" / "0004.safetensors").read_bytes()


@pytest.mark.parametrize("sizes", [{}, {"LOCAL_WORLD_SIZE": "two", "WORLD_SIZE": "2"}, {"LOCAL_WORLD_SIZE": "0"}])
def test_an_environment_that_torchrun_did_not_make(sizes, monkeypatch):
    from coviews.training.setup import make_fabric
    from small_runs import SMALL

    for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TORCHELASTIC_RUN_ID": "x", **sizes}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CoviewsError, match="start it with torchrun, or unset it"):
        make_fabric(SMALL)


def test_machines_that_nobody_can_find_are_not_waited_for(monkeypatch):
    from coviews.training.setup import make_fabric
    from small_runs import SMALL

    for name in ("MASTER_ADDR", "SLURM_JOB_ID", "LSB_JOBID", "OMPI_COMM_WORLD_SIZE", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(CoviewsError, match="--num-nodes 2: nobody says where the other machines are"):
        make_fabric(SMALL.replaced(num_nodes=2))
