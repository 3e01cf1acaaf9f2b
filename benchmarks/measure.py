"""What every benchmark shares: its options, fair timing in one run, and where the figures came from."""

import argparse
import importlib.metadata
import json
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path


def options(description: str, parts: Sequence[str] = ()) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    if parts:
        parser.add_argument("--part", choices=parts, help="measure this part only")
    parser.add_argument("--quick", action="store_true", help="under a minute, less exact")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    return parser.parse_args()


def seconds(systems: dict[str, Callable[[], object]], rounds: int, least: float) -> dict[str, float]:
    """Seconds of one call of each: the best of several rounds, taken in turn so that noise hits all alike."""
    repeats, best = {}, {}
    for name, call in systems.items():
        call()  # compile, warm up
        start = time.perf_counter()
        call()
        repeats[name] = max(1, round(least / (time.perf_counter() - start)))
        best[name] = float("inf")
    for _ in range(rounds):
        for name, call in systems.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / repeats[name])
    return best


def versions(*packages: str) -> str:
    texts = [f"{p} {importlib.metadata.version(p)}" for p in packages]
    return f"Python {platform.python_version()}, {platform.machine()}; " + ", ".join(texts)


def write(path: Path | None, figures: dict[str, float]) -> None:
    if path:
        path.write_text(json.dumps({k: round(v, 4) for k, v in figures.items()}, indent=2) + "\n")
        print(f"written to {path}")
