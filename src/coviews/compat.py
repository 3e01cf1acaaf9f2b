"""Other libraries and the machine, so that both work in more set-ups than they do by themselves."""

import ctypes
import importlib
import mmap
import os
import sys
from pathlib import Path
from types import ModuleType

_kept: list[object] = []  # an operator library is undone when it is collected
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # what glibc's mallopt calls them
_MOST_FREE = 1 << 30  # bytes at the end of the heap, which otherwise go back from 128 kB on
_CGROUP = Path("/sys/fs/cgroup")  # of a container
_LARGEST_IN_HEAP = 32 << 20  # bytes of an allocation, the most that glibc takes


def _c_library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None)
        library.mallopt, library.malloc_trim  # noqa: B018
    except (AttributeError, OSError, TypeError):  # not glibc
        return None
    return library


_glibc = _c_library()


def cores() -> int:
    """How many cores this process may use: a scheduler may have given it fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> int | None:
    """The memory that this process can still get, in bytes; None if the system does not tell."""
    limits = [bytes for bytes in (_available(), _memory_of_container(), _memory_of_process()) if bytes is not None]
    return min(limits) if limits else None


def keep_freed_memory() -> None:
    """Let this process keep the memory that it frees, where the C library is glibc.

    A training on processors asks for the same tens of megabytes at every step. By default they go back to the system
    in between, and it clears each page anew: a tenth of the time of a step.
    """
    if _glibc is not None:
        _glibc.mallopt(_MMAP_THRESHOLD, _LARGEST_IN_HEAP)
        _glibc.mallopt(_TRIM_THRESHOLD, _MOST_FREE)


def return_freed_memory() -> None:
    """End what `keep_freed_memory` began, and give free memory back to the system."""
    if _glibc is not None:
        _glibc.mallopt(_TRIM_THRESHOLD, 2 * _LARGEST_IN_HEAP)  # what glibc itself sets beside such allocations
        _glibc.malloc_trim(0)


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


def _available() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _memory_of_container() -> int | None:
    """What the memory limit of the container leaves, if there is one; pages of files that can be dropped are free."""
    try:
        limit, used = (int((_CGROUP / f"memory.{name}").read_text(encoding="ascii")) for name in ("max", "current"))
        lines = (_CGROUP / "memory.stat").read_text(encoding="ascii").splitlines()
        files = next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)
    except (OSError, ValueError):  # "max" means no limit
        return None
    return max(0, limit - used + files)


def _memory_of_process() -> int | None:
    """Half of what a limit of the address space (`ulimit -v`) leaves to this process, if there is one.

    Half, because address space is taken in larger pieces than memory is used; and what is taken but not used is free.
    """
    try:
        limits = Path("/proc/self/limits").read_text(encoding="ascii").splitlines()
        limit = int(next(line.split()[3] for line in limits if line.startswith("Max address space")))
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, StopIteration):  # "unlimited" is no number
        return None
    return max(0, limit - pages * mmap.PAGESIZE) // 2
