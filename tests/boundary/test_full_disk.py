"""A full disk: whatever cannot be written is named in an error of one line."""

import errno

import pytest
import torch

from coviews import CoviewsError
from coviews.files.atomic import write_whole
from coviews.runs.folder import Run, torch_writer
from coviews.runs.settings import PretrainSettings
from coviews.training.trackers import Trackers

FULL = OSError(errno.ENOSPC, "No space left on device")


class FullFile:
    def write(self, *_):
        raise FULL

    def flush(self):
        raise FULL

    def close(self):
        raise FULL


class FullBoard:
    def add_scalar(self, *_):
        raise FULL

    def close(self):
        raise FULL


def test_the_event_file_of_tensorboard(tmp_path):
    trackers = Trackers(None, tmp_path)
    trackers._board = FullBoard()
    for use in (lambda: trackers({"loss": 1.0}, 1), trackers.close):
        with pytest.raises(
            CoviewsError, match="tensorboard: No space left on device; make room, or continue with --no"
        ):
            use()


def test_weights_that_torch_writes(tmp_path, monkeypatch):
    def fails(*_):
        raise RuntimeError("[enforce fail at inline_container.cc:659] . unexpected pos 64 vs 0")

    monkeypatch.setattr(torch, "save", fails)
    with pytest.raises(CoviewsError, match=r"cannot write .*w\.pt: the disk is full"):
        write_whole(tmp_path / "w.pt", torch_writer({"a": torch.zeros(3)}))
    assert list(tmp_path.iterdir()) == []


def test_metrics_and_folders_of_a_run(tmp_path):
    run = Run.create(tmp_path / "run", PretrainSettings(data="shapes:300"))
    run._metrics.close()
    run._metrics = FullFile()
    with pytest.raises(CoviewsError, match=r"cannot write .*metrics\.jsonl: No space"):
        run.log({"kind": "epoch"})
    with pytest.raises(CoviewsError, match=r"cannot write to .*metrics\.jsonl: No space"):
        run.close()  # which tries to write what is left
    Run.open(tmp_path / "run").close()  # nobody holds it any more
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "checkpoints").write_text("no folder")
    with pytest.raises(CoviewsError, match=r"cannot write to .*checkpoints: File exists"):
        Run.create(tmp_path / "other", PretrainSettings(data="shapes:300"))
