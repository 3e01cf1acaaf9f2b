"""Stands for a pilot: writes the signals of an encoder that was never trained."""

import sys
from pathlib import Path

SIGNALS = "signals.json"

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SIGNALS).write_text('{"mirrored": 52.0, "rankme": 20.0}')
