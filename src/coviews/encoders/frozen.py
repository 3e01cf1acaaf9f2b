"""Using an encoder without changing it: its modes and torch's generator are restored afterwards."""

import contextlib
from collections.abc import Iterator

import torch
from torch import nn


@contextlib.contextmanager
def evaluating(module: nn.Module | None) -> Iterator[None]:
    """All parts of the module in eval mode and without gradients; afterwards each part has its old mode."""
    with in_eval_mode(module), torch.no_grad():  # not inference mode, whose tensors could not be used in training later
        yield


@contextlib.contextmanager
def in_eval_mode(module: nn.Module | None) -> Iterator[None]:
    """All parts of the module in eval mode; afterwards each part has its old mode."""
    modes = [(part, part.training) for part in module.modules()] if module is not None else []
    try:
        for part, _ in modes:
            part.training = False
        yield
    finally:
        for part, mode in modes:
            part.training = mode


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's own generator (for initial weights, dropout), and restore its state afterwards."""
    on_cuda = device.type == "cuda"
    with torch.random.fork_rng([device] if on_cuda else []):
        seed_generators(seed, device)
        yield


def seed_generators(seed: int, device: torch.device) -> None:
    """Seed torch's own generators of this device and of the CPU.

    Not `torch.manual_seed`: it seeds all devices, and takes a third of a millisecond where there is none.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


def device_of(module: nn.Module, device: torch.device | str | None = None) -> torch.device:
    """The device, or the one of the module's first parameter if None."""
    return torch.device(device) if device is not None else next((p.device for p in module.parameters()), _CPU)


_CPU = torch.device("cpu")
