"""Stands for a training: works until it is asked to save and end, or as long as its input says. Starts at once."""

import os
import signal
import sys
import time
from pathlib import Path


def main() -> int:
    folder, parent = Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "begun", "a") as file:
        file.write(f"{os.getpid()}\n")
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    seconds, code = sys.stdin.read().split()
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        if asked or os.getppid() != parent:
            (folder / "saved").write_text(os.getcwd())
            return 143
        time.sleep(0.05)
    print("error: as asked" if code != "0" else "done", flush=True)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
