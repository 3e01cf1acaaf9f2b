"""Features on their way to the disk: part by part, so that a kill costs one part and no set is too large."""

import contextlib
import fcntl
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from coviews.encoders.features import Features, check_features
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole
from coviews.ops.images import Images

PART = 1024  # images

Encode = Callable[[Images], Iterator[Features]]  # images -> the features of one batch after the other

_OURS = re.compile(r"\d{6,}\.(npy|json)|\.lock|\..*\.partial")


class FeatureParts:
    """A folder with the features of images: NNNNNN.npy, and beside it in JSON what each was made from.

    Args:
        folder: belongs to one process at a time.
        made_from: of which encoder and which images; parts that were made from others are not used.
        images: (N, H, W, C), in memory or mapped from a file.
        say: is told what became of parts that were there.
    """

    def __init__(self, folder: Path, made_from: dict[str, Any], images: Images, say: Callable[[str], None]) -> None:
        self.folder, self.images, self.say, self.part = folder, images, say, PART
        self.made_from = {**made_from, "images": len(images), "part": PART}
        self._lock: IO[str] | None = None

    def __enter__(self) -> "FeatureParts":
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.folder / ".lock", "w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CoviewsError(f"another process is at work in {self.folder}") from error
        except OSError as error:
            raise CoviewsError(f"cannot write to {self.folder}: {error.strerror}") from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()

    def fill(self, encode: Encode, advance: Callable[[int], None]) -> None:
        """Make the parts that are missing."""
        self._remove_others()
        starts = range(0, len(self.images), self.part)
        there = [start for start in starts if self._is_whole(start)]
        if there:
            self.say(f"{len(there)} of {len(starts)} parts are there from before: going on with the others")
            advance(sum(len(self._images_of(start)) for start in there))
        for start in sorted(set(starts) - set(there)):
            images, found = self._images_of(start), []
            for batch in encode(images):
                found.append(batch)
                advance(len(batch))
            values = check_features(np.concatenate(found), f"features from image {start} on:")
            content = io.BytesIO()
            np.save(content, values, allow_pickle=False)
            write_whole(self._path(start), content.getvalue())
            # last: a part without it does not count
            write_whole(self._path(start, "json"), json.dumps(self._manifest(start), sort_keys=True).encode())

    def __iter__(self) -> Iterator[Features]:
        """One part after the other."""
        for start in range(0, len(self.images), self.part):
            yield self._read(start)

    def rows(self, indices: NDArray[np.int64]) -> Features:
        """The features of some images, in rising order of their indices."""
        parts = indices // self.part
        return np.concatenate(
            [self._read(int(p) * self.part)[indices[parts == p] % self.part] for p in np.unique(parts)]
        )

    def remove(self) -> None:
        """Delete the parts, and their folder if nothing else is in it."""
        for entry in list(self.folder.iterdir()):
            if _OURS.fullmatch(entry.name):
                entry.unlink()
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def _images_of(self, start: int) -> Images:
        return self.images[start : start + self.part]

    def _path(self, start: int, kind: str = "npy") -> Path:
        return self.folder / f"{start // self.part:06d}.{kind}"

    def _read(self, start: int) -> Features:
        return np.load(self._path(start), mmap_mode="r", allow_pickle=False)

    def _manifest(self, start: int) -> dict[str, Any]:
        images = np.ascontiguousarray(self._images_of(start))
        pixels = hashlib.blake2b(images.data, digest_size=16).hexdigest()
        return {**self.made_from, "first": start, "count": len(images), "pixels": pixels}

    def _is_whole(self, start: int) -> bool:
        """Whether a part is there, and its images are still the same, pixel by pixel."""
        try:
            manifest = json.loads(self._path(start, "json").read_bytes())
            if len(self._read(start)) != len(self._images_of(start)):
                return False
        except (OSError, ValueError, EOFError, RecursionError):
            return False
        return bool(manifest == self._manifest(start))

    def _remove_others(self) -> None:
        """Start anew if parts are there that were made from something else."""
        for path in self.folder.glob("*.json"):
            try:
                manifest = json.loads(path.read_bytes())
                other = [key for key, value in self.made_from.items() if manifest.get(key) != value]
            except (OSError, ValueError, AttributeError, RecursionError):
                continue  # a damaged one is made again
            if other and _OURS.fullmatch(path.name):
                what = {"encoder": "another encoder", "images": "other images", "data": "other images"}
                self.say(f"the parts in {self.folder} are of {what.get(other[0], 'another kind')}: starting anew")
                for entry in list(self.folder.iterdir()):
                    if _OURS.fullmatch(entry.name) and entry.name != ".lock":
                        entry.unlink()
                return
