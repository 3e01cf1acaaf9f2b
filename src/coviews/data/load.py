"""Where images come from: folders, lists, archives, arrays, data sets and the built-in set, all as one array."""

import difflib
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coviews.console.progress import waiting
from coviews.data.arrays import ARRAYS, ArrayImages, array_file, as_batch, load_arrays
from coviews.data.cache import default_cache
from coviews.data.datasets import DatasetImages, is_dataset
from coviews.data.decode import read_source
from coviews.data.files import ImageFiles, folder_images
from coviews.data.imageset import ImageSet
from coviews.data.known.sets import KNOWN_SETS, known_images, wanted_splits
from coviews.data.known.tiny_imagenet import NAME as TINY
from coviews.data.known.tiny_imagenet import SPLITS as TINY_SPLITS
from coviews.data.known.tiny_imagenet import is_tiny_imagenet, known_tiny_imagenet, tiny_imagenet
from coviews.data.labels import Labels
from coviews.data.lists import LISTS, listed_images
from coviews.data.request import Wanted, checked_size
from coviews.data.shapes.draw import SHAPE_CLASSES, make_shapes
from coviews.data.source import Source
from coviews.errors import CoviewsError, unknown

if TYPE_CHECKING:
    from torch.utils.data import Dataset

__all__ = ["NAMES", "ImageSet", "load_images"]

NAMES = ("shapes", *KNOWN_SETS, TINY)
SHAPES_COUNT = 5000


def load_images(
    data: "str | os.PathLike[str] | NDArray[np.uint8] | ImageSet | Dataset[Any] | Sequence[Any]",
    *,
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    limit: int | None = None,
    subset: str | int | float | None = None,
    subset_seed: int = 0,
    root: str | os.PathLike[str] = "data",
    download: bool = False,
    max_broken: float = 1.0,
    cache: str | os.PathLike[str] | None = None,
    memory: int | None = None,
    progress: bool = False,
) -> ImageSet:
    """Load images from wherever they are.

    Args:
        data: a folder of image files in any nesting (its sub folders are the classes, if there are several
            and every image is in one), an image file, a list of files (.txt, .csv, .tsv), a .npy or .npz file,
            TinyImageNet's folder or archive; a uint8 array (N, H, W) or (N, H, W, C), a torch data set of
            images; or a name: "shapes" (built in; "shapes:2000" for as many), "cifar10", "cifar100", "svhn",
            "stl10", "tinyimagenet", each with a split if not the train split: "cifar10:test", "stl10:unlabeled",
            "svhn:train+extra". A name is never a path: for a folder of that name write "./cifar10".
        size: the side of the images, or (height, width); otherwise their own, or the most common one.
        channels: 1 for grey, 3 for colour; otherwise grey only if all images are.
        limit: load at most this many, spread evenly over all there are (or over the subset).
        subset: load only so many, 5000 or "10%", of each class equally many if labels are known.
        subset_seed: chooses the subset; the same one chooses the same images.
        root: the folder where data sets with a name are, or are downloaded to.
        download: download a data set with a name if it is not in the root.
        max_broken: the largest share of broken images that is skipped with a warning; more are an error. Of 20
            images or more one may always be broken, unless this is 0. By default nothing but a source with
            no readable image at all is an error, as it should be to have a look; 0.01 is right for training.
        cache: the folder for decoded images that do not fit into memory; by default `coviews` in the user's
            cache folder.
        memory: the largest array in bytes that is held in memory; by default half of what is free.
        progress: show a progress bar if it takes long.
    """
    folder = default_cache() if cache is None else Path(os.path.expanduser(cache))
    want = Wanted(checked_size(size), channels, limit, subset, subset_seed, max_broken, folder, memory, progress)
    notes: list[str] = []
    try:
        made = _load(data, want, Path(os.path.expanduser(root)), download, notes)
    except MemoryError as error:
        raise CoviewsError(f"not enough memory: {error}; choose a smaller size, or fewer by a limit") from error
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return made


def _load(data: Any, want: Wanted, root: Path, download: bool, notes: list[str]) -> ImageSet:
    source: Source
    if isinstance(data, np.ndarray):
        return load_arrays(ArrayImages("the array", [as_batch(data, "the array", notes)]), want, notes)
    if isinstance(data, ImageSet):
        return _from_image_set(data, want, notes)
    if isinstance(data, str) and data.partition(":")[0] in NAMES:
        return _from_name(data, want, root, download, notes)
    if isinstance(data, str | os.PathLike):
        with waiting(want.title("looking for images")):
            source = _at_path(os.fspath(data), notes)
    elif is_dataset(data):
        source = DatasetImages(data, grey_is_wanted=want.channels == 1, title=want.title("reading labels"))
    else:
        raise CoviewsError(
            f"images must be a folder, a file, a uint8 array, a data set or a name such as 'shapes', "
            f"not {type(data).__name__}"
        )
    return load_arrays(source, want, notes) if isinstance(source, ArrayImages) else read_source(source, want, notes)


def _from_image_set(images: ImageSet, want: Wanted, notes: list[str]) -> ImageSet:
    labels = None
    if images.labels is not None:
        classes = images.classes or tuple(str(i) for i in range(int(images.labels.max(initial=0)) + 1))
        labels = Labels(images.labels, classes)
    batch = as_batch(images.images, "the set", notes)
    made = load_arrays(ArrayImages("the set", [batch], labels, images.names), want, notes)
    return replace(made, broken=images.broken)


def _from_name(name: str, want: Wanted, root: Path, download: bool, notes: list[str]) -> ImageSet:
    """A data set by its name, whatever is in the current folder: a command means the same everywhere."""
    if os.path.lexists(name):
        notes.append(f"{name!r} is the data set of that name; for what is here under this name write './{name}'")
    head = name.partition(":")[0]
    if head == "shapes":
        return load_arrays(_shapes(name, want), want, notes)
    if head == TINY:
        return read_source(known_tiny_imagenet(name, root, download=download, progress=want.progress), want, notes)
    return load_arrays(known_images(name, root, download=download, progress=want.progress), want, notes)


def _shapes(name: str, want: Wanted) -> ArrayImages:
    """The built-in images, drawn in the size that is wanted."""
    _, colon, digits = name.partition(":")
    if colon and not (digits.isdecimal() and int(digits) > 0):
        raise CoviewsError(f"write {name!r} with a number of images, such as 'shapes:2000'")
    count = int(digits) if colon else SHAPES_COUNT
    if want.subset is None and want.limit is not None:
        count = min(count, want.limit)  # no need to draw more
    images, labels = make_shapes(count, want.size or 32)
    return ArrayImages(name, [images], Labels(labels, SHAPE_CLASSES))


def _at_path(name: str, notes: list[str]) -> Source:
    """What is at a path, or at PATH:SPLIT for TinyImageNet."""
    path = Path(os.path.expanduser(name))
    if not name or not os.path.exists(path):
        before = Path(os.path.expanduser(name.rpartition(":")[0]))
        if ":" in name and is_tiny_imagenet(before):
            return tiny_imagenet(before, wanted_splits(name, TINY_SPLITS))
        raise _nothing_there(name)
    if is_tiny_imagenet(path):
        return tiny_imagenet(path, ["train"])
    if path.is_dir():
        return folder_images(path)
    suffix = path.suffix.lower()
    if suffix in LISTS:
        return listed_images(path, notes)
    if suffix in ARRAYS:
        return array_file(path, notes)
    return ImageFiles(str(path), path.parent, [path.name])


def _nothing_there(name: str) -> CoviewsError:
    head = name.partition(":")[0]
    if difflib.get_close_matches(head.lower(), NAMES, cutoff=0.6):
        return unknown("folder, file or data set", head, NAMES)
    return CoviewsError(f"there is no file or folder {name!r}; for images to try things out, write 'shapes'")
