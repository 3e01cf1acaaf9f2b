"""Shards as WebDataset writes them: `made_up_shards.py FOLDER IMAGES` makes random images of 32 pixels."""

import io
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image


def write_shards(folder: Path, images: Iterable, labels: Iterable | None = None, *, per_shard: int = 10) -> list[Path]:
    """Write images (H, W, C), with labels or without, to 000.tar, 001.tar, ... of so many images each."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    archive = None
    known = iter(labels) if labels is not None else None
    for i, pixels in enumerate(images):
        if i % per_shard == 0:
            if archive is not None:
                archive.close()
            paths.append(folder / f"{i // per_shard:03d}.tar")
            archive = tarfile.open(paths[-1], "w")  # noqa: SIM115 - closed where the next begins
        picture = io.BytesIO()
        Image.fromarray(pixels).save(picture, "PNG")
        add(archive, f"{i:06d}.png", picture.getvalue())
        if known is not None:
            add(archive, f"{i:06d}.cls", str(next(known)).encode())
        add(archive, f"{i:06d}.json", b"{}")
    if archive is not None:
        archive.close()
    return paths


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    draws, count = np.random.default_rng(0), int(sys.argv[2])
    pictures = (draws.integers(0, 256, (32, 32, 3), np.uint8) for _ in range(count))
    write_shards(Path(sys.argv[1]), pictures, draws.integers(0, 10, count), per_shard=1000)
