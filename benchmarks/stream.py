"""Training on a stream: its peak memory, and whether a run that was killed ends as one that was not.

    python benchmarks/stream.py                      # 200,000 images in shards, one epoch, twice
    python benchmarks/stream.py --images 5000        # a trial
    python benchmarks/stream.py --url                # the same shards by URLs: fetched, and dropped again

Makes the shards in a folder that is removed at the end, unless --folder names one.
"""

import argparse
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from coviews.data.shapes.draw import make_shapes
from measure import versions, write

BASES = 500  # drawn shapes, of which all images are made
MOST_BYTES = 1.5e9  # of resident memory, that a run may take
PER_SHARD = 1000


def make_shards(folder: Path, count: int, side: int) -> int:
    """Write so many different images with labels into shards; return the bytes of all."""
    bases, labels = make_shapes(BASES, (side, side))
    for first in range(0, count, PER_SHARD):
        path = folder / f"{first // PER_SHARD:04d}.tar"
        if path.exists():
            continue
        with tarfile.open(path.with_suffix(".partial"), "w") as archive:
            for i in range(first, min(first + PER_SHARD, count)):
                turned = np.roll(bases[i % BASES], (i // BASES, i // BASES // side), (0, 1))
                file = io.BytesIO()
                Image.fromarray(turned).save(file, "PNG", compress_level=1)
                for suffix, content in (("png", file.getvalue()), ("cls", str(labels[i % BASES]).encode())):
                    entry = tarfile.TarInfo(f"{i:09d}.{suffix}")
                    entry.size = len(content)
                    archive.addfile(entry, io.BytesIO(content))
        path.with_suffix(".partial").rename(path)
    return sum(path.stat().st_size for path in folder.glob("*.tar"))


def resident(process: int) -> int:
    """The resident bytes of a process and of all its children."""
    total = 0
    with contextlib.suppress(OSError, IndexError):
        status = Path(f"/proc/{process}/status").read_text()
        total = int(status.partition("VmRSS:")[2].split()[0]) * 1024
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        total += sum(resident(int(child)) for child in children)
    return total


def watched(command: list[str], kill_after: float | None = None, saves: Path | None = None) -> tuple[float, int]:
    """Run a command; its seconds, and the most resident bytes.

    It is killed after so many seconds, if given, but not before there is the file that it saves.
    """
    start, most = time.monotonic(), 0
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    while process.poll() is None:
        most = max(most, resident(process.pid))
        if kill_after is not None and time.monotonic() - start > kill_after and (saves is None or saves.exists()):
            process.send_signal(signal.SIGKILL)
            kill_after = None
        time.sleep(0.05)
    if process.returncode not in (0, -signal.SIGKILL):
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return time.monotonic() - start, most


def last_epoch(run: Path) -> dict:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return next(r for r in reversed(records) if r["kind"] == "epoch")


def measure(folder: Path, o: argparse.Namespace) -> dict[str, float]:
    shards = folder / "shards"
    shards.mkdir(parents=True, exist_ok=True)
    size = make_shards(shards, o.images, o.size)
    count = -(-o.images // PER_SHARD)
    print(f"{o.images:,} images of {o.size} pixels in {count} shards, {size / 1e6:.0f} MB", flush=True)
    where = f"{'file://' if o.url else ''}{shards}/{{0000..{count - 1:04d}}}.tar"
    train = [sys.executable, "-m", "coviews", "pretrain"]
    options = [
        where, "--stream", "--size", str(o.size), "--encoder", "resnet8", "--epochs", str(o.epochs), "--batch-size",
        str(o.batch_size), "--save-every", "10", "--knn-every", "0", "--no-report", "--no-tensorboard", "--accelerator",
        "cpu", "--view-size", str(o.view_size or o.size), "--threads", "1", "--cache", str(folder / "cache"),
    ]  # fmt: skip
    seconds, most = watched([*train, *options, "--out", str(folder / "whole")])
    saves = folder / "killed" / "checkpoints" / "last.pt"
    half, most_before = watched([*train, *options, "--out", str(folder / "killed")], seconds / 2, saves)
    if (folder / "killed" / "encoder.safetensors").exists():
        sys.exit("the run was over before it could be killed: take more images")
    _, most_after = watched([*train, "--resume", str(folder / "killed")])
    whole, killed = ((folder / name / "encoder.safetensors").read_bytes() for name in ("whole", "killed"))
    speed = last_epoch(folder / "whole")["time"]
    figures = {
        "stream_images": o.images,
        "stream_peak_bytes": max(most, most_before, most_after),
        "stream_seconds": seconds,
        "stream_killed_after_seconds": half,
        "stream_images_per_second": speed["images_per_second"],
        "stream_waiting": speed["waiting"],
        "stream_resumed_equal": float(whole == killed),
    }
    print(f"\nwhole run               {seconds:8.0f} s, {speed['images_per_second']:,.0f} images a second")
    print(f"waiting for views       {speed['waiting']:8.0%} of the time, decoding included")
    for name, value in (("uninterrupted", most), ("until the kill", most_before), ("after it", most_after)):
        print(f"peak memory {name:14}{value / 1e6:7.0f} MB resident")
    print(f"killed after {half:.0f} s and resumed: weights {'equal, byte for byte' if whole == killed else 'DIFFER'}")
    print(versions("coviews", "torch", "numpy", "pillow"))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=32, help="pixels a side")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--view-size", type=int, help="pixels a side of the views, if not those of the images")
    parser.add_argument("--url", action="store_true", help="fetch the shards by URLs, though they are here")
    parser.add_argument("--folder", type=Path, help="for shards and runs; by default one that is removed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        figures = measure(o.folder or Path(temporary), o)
    write(o.json, figures)
    if figures["stream_peak_bytes"] > MOST_BYTES or not figures["stream_resumed_equal"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
