"""Image files: find them in folders, decode them in threads into one array."""

import os
import stat
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageFile, ImageOps, UnidentifiedImageError

Broken = tuple[str, str]  # (file, reason)
Item = TypeVar("Item")
Result = TypeVar("Result")

_GREY_MODES = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16B", "I;16L", "I;16N")
_NOT_DECODED = ("EPS", "MPEG")  # the one is a program for another program to run, the other is a film
_COMMON = ("JPEG", "PNG")
_TURNED = (5, 6, 7, 8)  # EXIF orientations that swap width and height
_BLOCK = 16  # files in one task: few enough for an even end, many enough that handing them out costs nothing
_PATIENCE = 2.0  # seconds before a progress bar appears


class Header(NamedTuple):
    """What is known of an image before it is decoded."""

    height: int
    width: int
    grey: bool


class Decoded(NamedTuple):
    """The images (N, H, W, C) that could be decoded, which files these were, and why the others were not."""

    images: NDArray[np.uint8]
    kept: NDArray[np.int64]
    broken: list[Broken]
    resized: int  # how many files were of another size


def find_images(folder: Path) -> tuple[list[str], list[Broken]]:
    """All image files below a folder, sorted, relative to it with forward slashes; and what may not be read.

    Hidden names are left out. Links are followed, but no folder is entered twice, so that loops end.
    """
    found: list[str] = []
    unreadable: list[Broken] = []
    entered: set[str] = set()
    todo = deque([(folder, "")])
    while todo:
        here, prefix = todo.popleft()
        real = os.path.realpath(here)
        if real in entered:
            continue
        entered.add(real)
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError as error:
            unreadable.append((prefix or str(folder), reason(error)))
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if os.path.isdir(entry.path):
                below = (here / entry.name, f"{prefix}{entry.name}/")
                if entry.is_symlink():
                    todo.append(below)  # last, so that what is reached twice keeps its real name
                else:
                    todo.appendleft(below)
            elif os.path.splitext(entry.name)[1].lower() in extensions():
                found.append(prefix + entry.name)
    return sorted(found), unreadable


def decode_files(
    folder: Path,
    names: Sequence[str],
    *,
    size: tuple[int, int] | None,
    channels: int | None,
    progress: bool,
) -> Decoded:
    """Decode files into one array, of one size and number of channels; headers first, to know which."""
    headers = _map(lambda name: _header(folder / name), names, "looking at images" if progress else "")
    broken = [(n, h) for n, h in zip(names, headers, strict=True) if isinstance(h, str)]
    readable = [(i, h) for i, h in enumerate(headers) if isinstance(h, Header)]
    sizes = Counter((h.height, h.width) for _, h in readable)
    if not readable:
        return Decoded(np.empty((0, 1, 1, 1), np.uint8), np.empty(0, np.int64), broken, 0)
    height, width = size or _most_common(sizes)
    if channels is None:
        channels = 1 if all(h.grey for _, h in readable) else 3
    images = np.empty((len(readable), height, width, channels), np.uint8)

    def decode(place: int) -> str:
        try:
            picture = read_image(folder / names[readable[place][0]], channels)
            images[place] = fitted(picture, height, width).reshape(height, width, -1)
        except Exception as error:  # decoders of damaged files raise anything
            return reason(error)
        return ""

    failures = _map(decode, range(len(readable)), "decoding images" if progress else "")
    good = np.array([not failure for failure in failures])
    kept = np.array([i for i, _ in readable], np.int64)[good]
    broken += [(names[i], failure) for (i, _), failure in zip(readable, failures, strict=True) if failure]
    if not good.all():
        for to, of in enumerate(np.flatnonzero(good)):  # in place: a copy might not fit into the memory
            images[to] = images[of]
        images = images[: len(kept)]
    return Decoded(images, kept, broken, len(readable) - sizes[height, width])


def read_image(path: Path, channels: int) -> Image.Image:
    """One file as a Pillow image of mode L or RGB, upright."""
    # not by its name: Pillow maps a plain TIFF file that it knows by name, and garbles it where it is turned
    with open(path, "rb") as file, Image.open(file, formats=_formats()) as picture:
        picture.load()
        upright = ImageOps.exif_transpose(picture) if _orientation(picture) != 1 else picture
        return converted(upright, channels)


def converted(picture: Image.Image, channels: int) -> Image.Image:
    """The image as L or RGB, as Pillow converts it."""
    if channels == 1 or picture.mode in _GREY_MODES:
        picture = picture.convert("L")
    elif picture.mode == "P" and "transparency" in picture.info:
        picture = picture.convert("RGBA")  # Pillow warns otherwise; the colours are the same
    return picture.convert("L" if channels == 1 else "RGB")


def fitted(picture: Image.Image, height: int, width: int) -> NDArray[np.uint8]:
    """The image resized until its shorter side fits, and the middle cropped."""
    if picture.size != (width, height):
        picture = ImageOps.fit(picture, (width, height), Image.Resampling.BILINEAR)
    return np.asarray(picture)


def reason(error: Exception) -> str:
    """Why a file cannot be read, in few words and without its path."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__


@cache
def extensions() -> frozenset[str]:
    """The file name extensions of what can be decoded."""
    known = _formats()
    return frozenset(ext for ext, name in Image.registered_extensions().items() if name in known)


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    stubs = (name for name, (opener, _) in Image.OPEN.items() if _is_stub(opener))
    left_out = {*stubs, *_NOT_DECODED}
    # Pillow tries one after the other: what is common comes first
    return tuple(name for name in dict.fromkeys((*_COMMON, *Image.OPEN)) if name not in left_out)


def _is_stub(opener: object) -> bool:
    """Whether Pillow knows the format by name only."""
    return isinstance(opener, type) and issubclass(opener, ImageFile.StubImageFile)


def _header(path: Path) -> Header | str:
    """Size and colour of an image without decoding it, or why it cannot be read."""
    try:
        info = os.stat(path)
        if not stat.S_ISREG(info.st_mode):
            return "not a regular file"
        if info.st_size == 0:
            return "an empty file"
        with Image.open(path, formats=_formats()) as picture:
            width, height = picture.size
            if _is_turned(picture):
                width, height = height, width
            return Header(height, width, picture.mode in _GREY_MODES)
    except Exception as error:  # decoders of damaged files raise anything
        return reason(error)


def _is_turned(picture: Image.Image) -> bool:
    """Whether width and height will be swapped once it is decoded and upright."""
    if picture.format == "TIFF":
        return False  # Pillow has swapped them already
    if picture.format == "PNG" and "exif" not in picture.info:
        return False  # Pillow would decode it to look behind the pixels
    return _orientation(picture) in _TURNED


def _orientation(picture: Image.Image) -> int:
    """The EXIF orientation; upright where the EXIF is damaged, for the image may be whole."""
    try:
        return int(picture.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:
        return 1


def _most_common(sizes: Counter[tuple[int, int]]) -> tuple[int, int]:
    """The most common size; among equally common ones the one in the middle by area."""
    most = max(sizes.values())
    tied = sorted((s for s, n in sizes.items() if n == most), key=lambda s: (s[0] * s[1], s))
    return tied[(len(tied) - 1) // 2]


def _map(function: Callable[[Item], Result], items: Sequence[Item], title: str) -> list[Result]:
    """Apply a function to all items in threads, in order, with a progress bar if there is a title."""
    blocks = [items[i : i + _BLOCK] for i in range(0, len(items), _BLOCK)]
    results: list[Result] = []
    pool = ThreadPoolExecutor(os.cpu_count(), "images")  # not more: small images are mostly interpreter time
    try:
        done = pool.map(lambda block: [function(item) for item in block], blocks)
        for block in _shown(done, title, len(items)) if title else done:
            results += block
    finally:
        pool.shutdown(cancel_futures=True)
    return results


def _shown(blocks: Iterable[list[Result]], title: str, total: int) -> Iterator[list[Result]]:
    """Pass blocks on, and show a progress bar on a terminal once it has taken a while."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    console = Console(stderr=True)
    start, count = time.monotonic(), 0
    with ExitStack() as stack:
        bar: Progress | None = None
        for block in blocks:
            count += len(block)
            if bar is None and console.is_terminal and time.monotonic() - start > _PATIENCE:
                columns = (*Progress.get_default_columns(), MofNCompleteColumn())
                bar = stack.enter_context(Progress(*columns, console=console, transient=True))
                task = bar.add_task(title, total=total)
            if bar is not None:
                bar.update(task, completed=count)
            yield block
