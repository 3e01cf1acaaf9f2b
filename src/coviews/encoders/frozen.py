"""An encoder that is only looked at: its modes and torch's own generator are put back afterwards."""

import contextlib
from collections.abc import Iterator

import torch
from torch import nn


@contextlib.contextmanager
def evaluating(module: nn.Module | None) -> Iterator[None]:
    """Every part of the module in eval mode and without gradients, then each part in the mode it was in."""
    modes = [(part, part.training) for part in module.modules()] if module is not None else []
    try:
        for part, _ in modes:
            part.training = False
        with torch.no_grad():  # not inference mode: what an encoder keeps of a pass stays usable
            yield
    finally:
        for part, mode in modes:
            part.training = mode


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """What draws from torch's own generator (initial weights, dropout) draws by this seed, and leaves no trace."""
    on_cuda = device.type == "cuda"
    with torch.random.fork_rng([device] if on_cuda else []):
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed: that reaches devices which are not put back
        if on_cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def device_of(module: nn.Module, wanted: torch.device | str | None = None) -> torch.device:
    """The device that is wanted, or where the module's first parameter is."""
    return torch.device(wanted) if wanted is not None else next((p.device for p in module.parameters()), _CPU)


_CPU = torch.device("cpu")
