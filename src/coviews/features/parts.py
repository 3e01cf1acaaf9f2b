"""Features written part by part: a kill costs at most one part, and only one part has to fit into memory."""

import contextlib
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coviews.boundary.arrays import map_array
from coviews.boundary.json_text import read_json
from coviews.encoders.features import Features, check_features
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole
from coviews.files.lock import FolderLock, lock_folder
from coviews.ops.images import Images

PART = 1024  # images

Encode = Callable[[Images], Iterator[Features]]  # images -> the features of one batch after the other

_OURS = re.compile(r"\d{6,}\.(npy|json)|\.lock|\..*\.partial")


class FeatureParts:
    """A folder with the features of images: NNNNNN.npy, each with a manifest NNNNNN.json of its encoder and images.

    Args:
        folder: locked by one process at a time.
        origin: hashes of the encoder and the data; parts of another origin are not used.
        images: (N, H, W, C), in memory or mapped from a file.
        report: called with a line of text on parts of an earlier call.
    """

    def __init__(self, folder: Path, origin: dict[str, Any], images: Images, report: Callable[[str], None]) -> None:
        self.folder, self.images, self.report, self.part = folder, images, report, PART
        self.origin = {**origin, "images": len(images), "part": PART}
        self._lock: FolderLock | None = None

    def __enter__(self) -> "FeatureParts":
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CoviewsError(f"cannot write to {self.folder}: {error.strerror}") from error
        self._lock = lock_folder(self.folder)
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()

    def fill(self, encode: Encode, advance: Callable[[int], None]) -> None:
        """Compute the missing parts."""
        self._remove_others()
        starts = range(0, len(self.images), self.part)
        complete = [start for start in starts if self._is_complete(start)]
        if complete:
            self.report(f"{len(complete)} of {len(starts)} parts are there from before: going on with the others")
            advance(sum(len(self._images_of(start)) for start in complete))
        for start in sorted(set(starts) - set(complete)):
            batches = []
            for batch in encode(self._images_of(start)):
                batches.append(batch)
                advance(len(batch))
            values = check_features(np.concatenate(batches), f"features from image {start} on:")
            content = io.BytesIO()
            np.save(content, values, allow_pickle=False)
            write_whole(self._path(start), content.getvalue())
            # last: a part without a manifest does not count
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
        if self._lock is not None:
            self._lock.close()  # Windows does not delete a file that is open
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
        return map_array(self._path(start))

    def _manifest(self, start: int) -> dict[str, Any]:
        images = np.ascontiguousarray(self._images_of(start))
        pixels = hashlib.blake2b(images.data, digest_size=16).hexdigest()
        return {**self.origin, "first": start, "count": len(images), "pixels": pixels}

    def _is_complete(self, start: int) -> bool:
        """Whether a part exists and its images still have the same pixels."""
        try:
            manifest = read_json(self._path(start, "json"), dict[str, Any])
            features = self._read(start)
        except CoviewsError:
            return False
        if features.ndim != 2 or features.dtype.kind != "f" or len(features) != len(self._images_of(start)):
            return False
        return bool(manifest == self._manifest(start))

    def _remove_others(self) -> None:
        """Delete all parts if one of them has another origin."""
        for path in self.folder.glob("*.json"):
            try:
                manifest = read_json(path, dict[str, Any])
            except CoviewsError:
                continue  # damaged: the part is computed again
            differing = [key for key, value in self.origin.items() if manifest.get(key) != value]
            if differing and _OURS.fullmatch(path.name):
                origins = {"encoder": "another encoder", "images": "other images", "data": "other images"}
                self.report(
                    f"the parts in {self.folder} are of {origins.get(differing[0], 'another kind')}: starting anew"
                )
                for entry in list(self.folder.iterdir()):
                    if _OURS.fullmatch(entry.name) and entry.name != ".lock":
                        entry.unlink()
                return
