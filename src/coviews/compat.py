"""Other libraries and the machine, so that both work in more set-ups than they do by themselves."""

import importlib
import os
import sys
from types import ModuleType

_kept: list[object] = []  # an operator library is undone when it is collected


def cores() -> int:
    """How many cores this process may use: a scheduler may have given it fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def import_torchvision() -> ModuleType:
    """Import torchvision, also beside a torch that its compiled operators were not built for.

    That pair (say, a CPU build of torch and the usual torchvision) fails on import only because two box
    operators are not defined. Models, data sets and transforms need neither; calling one still fails.
    """
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
    import torch

    for name in [n for n in sys.modules if n.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _kept.append(library)
    return importlib.import_module("torchvision")
