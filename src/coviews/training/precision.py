"""In which precision a machine trains fastest, without a loss of accuracy."""

from typing import Any

import torch

from coviews.runs.settings import AUTO, PretrainSettings

FULL, MIXED = "32-true", "bf16-mixed"
_IN_HARDWARE = ("avx512_bf16", "amx_bf16")  # instructions of processors that multiply bfloat16 numbers


def with_precision(settings: PretrainSettings) -> PretrainSettings:
    """The same with the precision that is chosen for this machine, unless one is given."""
    s = settings
    return s.replaced(precision=fast_precision(s.accelerator)) if s.precision == AUTO else s


def fast_precision(accelerator: str) -> str:
    """bf16-mixed where the device computes in bfloat16 by hardware, otherwise 32 bits.

    Args:
        accelerator: as in the settings; with auto, a GPU if there is one.
    """
    if accelerator == "cuda" or (accelerator == "auto" and torch.cuda.is_available()):
        fast = torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    elif accelerator == "mps" or (accelerator == "auto" and torch.backends.mps.is_available()):
        fast = False  # not tried yet
    else:
        has: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # torch before 2.8 does not tell
        fast = any(has.get(name) for name in _IN_HARDWARE)
    return MIXED if fast else FULL
