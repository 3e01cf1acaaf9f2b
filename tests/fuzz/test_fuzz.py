"""Hostile input ends as ok or as a short error, in bounded time and memory; here a few cases, all in `make fuzz`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# of every kind of content, those whose examples need no training
QUICK = ("policy", "state-dict", "config", "variants", "family", "results", "plan", "subpolicies", "npy", "npz", "csv",
         "image-x-png", "image-pages-tif", "image-scan-dcm")  # fmt: skip


def fuzzed(*words: str) -> str:
    done = subprocess.run([sys.executable, HERE, *words], capture_output=True, text=True, timeout=590)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_kind_of_content(tmp_path):
    assert "140 cases" in fuzzed("--cases", "140", "--formats", ",".join(QUICK), "--keep", str(tmp_path))


def test_a_command_of_its_own(tmp_path):
    os.mkfifo(tmp_path / "images.npy")
    command = [sys.executable, "-m", "coviews", "preview", tmp_path / "images.npy", "--out", tmp_path / "sheet.png"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.slow
def test_every_format(tmp_path):
    fuzzed("--cases", "1000", "--seed", "50000", "--keep", str(tmp_path))
