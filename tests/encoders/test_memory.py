"""How tensors lie in memory, and how the process keeps it."""

import ctypes
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from coviews.encoders.features import features
from coviews.encoders.memory import kept_memory
from coviews.encoders.pixels import to_tensors
from coviews.methods.method import encode_views

CPU, LARGE = torch.device("cpu"), 64 << 20


def page_faults(tensors: int) -> list[int]:
    """Of large tensors, one after another."""
    import resource

    counts = [resource.getrusage(resource.RUSAGE_SELF).ru_minflt]
    for _ in range(tensors):
        torch.empty(LARGE, dtype=torch.uint8).fill_(1)
        counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
    return np.diff(counts).tolist()


@pytest.fixture
def no_settings(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("MALLOC_", "GLIBC_TUNABLES"))]:
        monkeypatch.delenv(name)


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc")
def test_memory_is_kept_in_the_block_and_returned_after_it(no_settings):
    with kept_memory(CPU):
        assert min(page_faults(6)) < 100  # not all: small objects may settle in the memory of the first ones
    assert page_faults(1)[0] > LARGE // os.sysconf("SC_PAGESIZE") // 2


@pytest.mark.parametrize(("device", "setting"), [("cpu", True), ("meta", False)])
def test_memory_is_left_alone_on_other_devices_and_with_settings_of_the_user(device, setting, no_settings, monkeypatch):
    if setting:
        monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    calls = []
    libc = SimpleNamespace(mallopt=lambda *_: calls.append("mallopt"), malloc_trim=lambda _: calls.append("trim"))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: libc)
    with kept_memory(torch.device(device)):
        pass
    assert not calls


@pytest.mark.parametrize("channels", [1, 3])
def test_encoders_see_channels_last_images(channels):
    seen = []

    class Layout(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(channels, 4, 3)

        def forward(self, x):
            out = self.convolution(x)
            seen.append(out.is_contiguous(memory_format=torch.channels_last))
            return out.mean((2, 3))

    views = np.random.default_rng(0).integers(0, 256, (4, 2, 16, 16, channels), dtype=np.uint8)
    mean, std = (0.5,) * channels, (0.25,) * channels
    encode_views(Layout(), to_tensors(views, mean, std))
    features(Layout(), views[:, 0], mean, std)
    assert seen == [True, True]
