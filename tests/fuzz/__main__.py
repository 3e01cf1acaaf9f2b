"""Hostile input of every format, as a program: `python tests/fuzz --help`."""

import os
import sys
from pathlib import Path


def start() -> int:
    """Load the program, with the tests' modules at hand, and run it."""
    if "LOCAL_RANK" in os.environ:  # a rank that a case asked for: there is nothing to train here
        return 1
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")  # so that the limit of memory is for data
    sys.path.insert(1, str(Path(__file__).parents[1]))
    from fuzz_command import main

    return main()


if __name__ == "__main__":
    sys.exit(start())
