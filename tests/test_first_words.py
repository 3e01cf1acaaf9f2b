"""What the command says first: nothing of a compiler that does not run, and no traceback where its reader leaves."""

import subprocess
import sys

import numba
import numpy as np
from numba.core.event import install_listener

from coviews.ops import engine
from coviews.ops.space import space


def test_loading_kernels_is_not_called_compiling(monkeypatch, capsys):
    said = []
    monkeypatch.setattr(engine._Announcement, "_say", lambda self: said.append("compiling"))
    monkeypatch.setattr(engine.threading, "Timer", lambda _, say: Now(say))
    engine._kernels.__wrapped__(space("autoaugment"), np.dtype(np.uint8))  # compiled or loaded, once
    said.clear()
    engine._kernels.__wrapped__(space("autoaugment"), np.dtype(np.uint8))
    assert not said
    with install_listener("numba:run_pass", engine._Announcement()):
        numba.njit(lambda x: x + 1)(1)
    assert said == ["compiling"]


class Now:
    """A timer that does not wait."""

    ident = None

    def __init__(self, say):
        self.say = say

    def start(self):
        self.ident = 1
        self.say()

    def cancel(self):
        pass


def test_a_reader_that_leaves_is_no_error():
    """As `coviews --help | head -1`."""
    code = "import sys, coviews.cli as c; print('first', flush=True); sys.stdin.read(); sys.exit(c.main(['--help']))"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "first\n"
    process.stdout.close()
    process.stdin.close()
    said = process.stderr.read()
    assert process.wait(60) == 1
    assert said == ""
    process.stderr.close()
