"""Ctrl-C is answered at once, also in the middle of a long step."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from coviews.training.signals import StopRequest, listening

# one call that takes minutes in C, lets other threads run, and hears no signal: as a step of torch
STUCK = """
import hashlib
from coviews.training.signals import StopRequest, listening
def say(text): print(text, flush=True)
with listening(StopRequest(), say):
    say("ready")
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**30)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_is_answered_and_the_second_ends(number):
    process = subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)  # until it is in that call
    process.send_signal(number)
    assert process.stdout.readline().startswith("stopping after this step")
    process.send_signal(number)
    assert process.stdout.readline().startswith("stopped at once")
    assert process.wait(30) == 128 + number
    process.stdout.close()


def test_a_request_is_noted_and_the_handlers_come_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    request, said = StopRequest(), []
    with listening(request, said.append):
        assert not request
        signal.raise_signal(signal.SIGTERM)
        until = time.monotonic() + 10
        while not said and time.monotonic() < until:
            time.sleep(0.01)
    assert request.signal == signal.SIGTERM
    assert said == ["stopping after this step; the signal again to stop now"]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert signal.set_wakeup_fd(-1) == -1
    assert "signals" not in [thread.name for thread in threading.enumerate()]


def test_a_second_ctrl_c_is_a_keyboard_interrupt_where_python_hears_it():
    with listening(StopRequest(), lambda _: None):
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
