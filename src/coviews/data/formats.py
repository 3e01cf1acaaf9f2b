"""The table of data formats: what `load_images` and the commands accept as data.

A new format is one class and one entry in `FORMATS`.
"""

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coviews.console.progress import waiting
from coviews.data.arrays import ARRAYS, ArrayImages, array_file
from coviews.data.cache import in_words, memory_for_images
from coviews.data.class_labels import Labels
from coviews.data.format import Format, name_of
from coviews.data.image_files import ImageFiles, folder_images
from coviews.data.known.sets import KNOWN_SETS, known_images, split_names
from coviews.data.known.tiny_imagenet import NAME as TINY
from coviews.data.known.tiny_imagenet import SPLITS as TINY_SPLITS
from coviews.data.known.tiny_imagenet import is_tiny_imagenet, known_tiny_imagenet, tiny_imagenet
from coviews.data.lists import LISTS, listed_images
from coviews.data.parquet_pack import PARQUET, open_parquet
from coviews.data.python_formats import ArrayFormat, HuggingFaceFormat, LoadedImagesFormat, PythonDatasetFormat
from coviews.data.remote import is_url
from coviews.data.remote_folder import RemoteListing
from coviews.data.request import ImageRequest
from coviews.data.series import SeriesFormat
from coviews.data.shapes.draw import SHAPE_CLASSES, make_shapes
from coviews.data.shards import SUFFIX, open_shards, shard_names
from coviews.data.source import Source
from coviews.data.splits import folder_splits
from coviews.data.tar_pack import open_tar_pack
from coviews.errors import CoviewsError, unknown

SHAPES_COUNT = 5000
_DIGITS = 9  # of a number of shapes
_PACKED = (SUFFIX, PARQUET)  # files that hold many images


class _Shards(Format):
    """Image files in tar archives, as WebDataset writes them."""

    about = "shards of WebDataset (.tar), one, a range or a folder of them, or a URL"
    examples = ("shards/{000..127}.tar", "my/shards", "https://host/{000..127}.tar")

    def fits(self, data: Any) -> bool:
        return _shard_names(data) is not None

    def open(self, data: Any, request: ImageRequest) -> Source:
        names = _shard_names(data)
        assert names is not None
        return _open_shards(os.fspath(data), names, request)


class _Parquet(Format):
    """Image files in a column of parquet files, as Hugging Face keeps data sets."""

    about = "parquet files with a column of images (.parquet), as many, or a URL"
    examples = ("train.parquet", "train-{00000..00015}.parquet", "hf://datasets/USER/NAME/data/{0000..0015}.parquet")

    def fits(self, data: Any) -> bool:
        return _shard_names(data, PARQUET) is not None

    def open(self, data: Any, request: ImageRequest) -> Source:
        names = _shard_names(data, PARQUET)
        assert names is not None
        return _open_parquet(os.fspath(data), names, request)


class _RemoteFolder(Format):
    """A folder of image files, shards or parquet files on object storage."""

    about = "a folder of images, shards or parquet files on object storage"
    examples = ("s3://bucket/folder", "gs://bucket/folder")

    def fits(self, data: Any) -> bool:
        return isinstance(data, str) and is_url(data) and not _is_web_page(data)

    def open(self, data: Any, request: ImageRequest) -> Source:
        with waiting(request.title("looking for images")):
            listing = RemoteListing(data)
            images = listing.images(request.frames)
        if not len(images) and (names := listing.urls(SUFFIX)):
            return _open_shards(data, names, request)
        if not len(images) and (names := listing.urls(PARQUET)):
            return _open_parquet(data, names, request)
        return images


class _Folder(Format):
    """Image files in a folder and its sub folders."""

    about = "a folder of images"
    examples = ("my/folder",)

    def fits(self, data: Any) -> bool:
        path = _path(data)
        return (
            path is not None and os.path.isdir(path) and not is_tiny_imagenet(path) and not _shard_names(data, _PACKED)
        )

    def open(self, data: Any, request: ImageRequest) -> Source:
        folder = _expanded(data)
        splits = folder_splits(folder)
        if splits is not None:
            request.remarks.append(splits.remark)
            folder = splits.train
        with waiting(request.title("looking for images")):
            return folder_images(folder, request.remarks, request.frames)


class _ListFile(Format):
    """Paths of image files in a text file, with labels in a table."""

    about = f"a list of image files ({', '.join(LISTS)})"
    examples = ("list.txt", "list.csv")

    def fits(self, data: Any) -> bool:
        return _is_file(data, LISTS)

    def open(self, data: Any, request: ImageRequest) -> Source:
        with waiting(request.title("looking for images")):
            return listed_images(_expanded(data), request.notes, request.frames)


class _ArrayFile(Format):
    """An array of NumPy in a file."""

    about = f"an array ({', '.join(ARRAYS)})"
    examples = ("images.npy", "images.npz")

    def fits(self, data: Any) -> bool:
        return _is_file(data, ARRAYS)

    def open(self, data: Any, request: ImageRequest) -> Source:
        with waiting(request.title("looking for images")):
            return array_file(_expanded(data), request.notes)


class _NamedSet(Format):
    """A known data set by its name, in the folder of such sets."""

    names = tuple(KNOWN_SETS)
    about = f"the name of a known set ({', '.join(names)}, or with a split: stl10:train+unlabeled)"
    examples = ("cifar10", "cifar10:test", "stl10:train+unlabeled", "svhn:train+extra")

    def open(self, data: Any, request: ImageRequest) -> Source:
        return known_images(data, request.root, download=request.download, progress=request.progress)


class _TinyImageNet(Format):
    """TinyImageNet by its name, or by the path of its folder or archive; PATH:SPLIT for another split."""

    names = (TINY,)
    about = f"{TINY}, or the path of its folder or archive"
    examples = (TINY, f"{TINY}:val", "my/tiny-imagenet-200.zip")

    def fits(self, data: Any) -> bool:
        return super().fits(data) or _tiny_imagenet_at(data) is not None

    def open(self, data: Any, request: ImageRequest) -> Source:
        if name_of(data) in self.names:
            return known_tiny_imagenet(data, request.root, download=request.download, progress=request.progress)
        path = _tiny_imagenet_at(data)
        assert path is not None
        splits = ["train"] if path == _expanded(data) else split_names(os.fspath(data), TINY_SPLITS)
        with waiting(request.title("looking for images")):
            return tiny_imagenet(path, splits)


class _Shapes(Format):
    """The built-in images, drawn in the requested size."""

    names = ("shapes",)
    about = "'shapes', the built-in set ('shapes:2000' for 2000 images)"
    examples = ("shapes", "shapes:2000")

    def open(self, data: Any, request: ImageRequest) -> Source:
        _, colon, digits = data.partition(":")
        if colon and not (digits.isdecimal() and len(digits) <= _DIGITS and int(digits) > 0):
            raise CoviewsError(f"write {data!r} with a number of images, such as 'shapes:2000'")
        count = int(digits) if colon else SHAPES_COUNT
        if request.subset is None and request.limit is not None:
            count = min(count, request.limit)  # no need to draw more
        height, width = request.size or (32, 32)
        memory = memory_for_images() if request.memory is None else request.memory
        if memory is not None and count * height * width * 3 > memory:
            raise CoviewsError(
                f"{data} needs {in_words(count * height * width * 3)} of memory, and {in_words(memory)} are free for "
                "it: ask for fewer images, or for smaller ones"
            )
        images, labels = make_shapes(count, (height, width))
        return ArrayImages(data, [images], Labels(labels, SHAPE_CLASSES))


class _ImageFile(Format):
    """One file that no other format takes."""

    about = "an image file"
    examples = ("photo.jpg", "stack.tif", "scan.dcm")

    def fits(self, data: Any) -> bool:
        return _is_file(data)

    def open(self, data: Any, request: ImageRequest) -> Source:
        path = _expanded(data)
        return ImageFiles(str(path), path.parent, [path.name], frames=request.frames)


# the first one that fits opens the data
FORMATS: list[Format] = [
    _Folder(),
    _Shards(),
    _Parquet(),
    _RemoteFolder(),
    _ListFile(),
    _ArrayFile(),
    SeriesFormat(),
    _NamedSet(),
    _TinyImageNet(),
    _Shapes(),
    _ImageFile(),
    ArrayFormat(),
    LoadedImagesFormat(),
    HuggingFaceFormat(),
    PythonDatasetFormat(),
]


def open_data(data: Any, request: ImageRequest) -> Source:
    """The images of the data, opened by the first format that fits; an error if none does."""
    if isinstance(data, ImageFiles):  # opened already
        return data
    for format in FORMATS:
        if format.fits(data):
            if name_of(data) in format.names and os.path.lexists(data):
                request.notes.append(
                    f"{data!r} is the data set of that name; for what is here under this name write './{data}'"
                )
            return format.open(data, request)
    if isinstance(data, str | os.PathLike):
        raise _nothing_there(os.fspath(data))
    raise CoviewsError(
        f"images must be a folder, a file, an array, a data set or a name such as 'shapes', not {type(data).__name__}"
    )


def held_out_split(data: Any) -> Path | None:
    """The folder of test images that lies beside the training images of `data`; None if there is none."""
    path = _path(data)
    if path is None or not os.path.isdir(path) or is_tiny_imagenet(path):
        return None
    splits = folder_splits(path)
    return None if splits is None else splits.held_out


def data_help() -> str:
    """All that the command line accepts as data, in one sentence for the help text."""
    *abouts, last = [format.about for format in FORMATS if format.examples]
    text = f"{'; '.join(abouts)}; or {last}."
    return text[0].upper() + text[1:]


def formats_table() -> tuple[tuple[str, str], list[tuple[str, str]]]:
    """The heads and rows of a table of the formats, in Markdown."""
    rows = [
        (format.about, ", ".join(f"`{example}`" for example in format.examples) or "the object, in Python")
        for format in FORMATS
    ]
    return ("what you have", "what you write"), rows


def _all_names() -> list[str]:
    return [name for format in FORMATS for name in format.names]


def _path(data: Any) -> Path | None:
    """The data as a path; None if they are none. The name of a data set is never a path."""
    if not isinstance(data, str | os.PathLike) or not os.fspath(data) or name_of(data) in _all_names():
        return None
    return _expanded(data)


def _shard_names(data: Any, suffix: str | tuple[str, ...] = SUFFIX) -> list[str] | None:
    """The shards that the data mean; None if they are none."""
    return shard_names(os.fspath(data), suffix) if _path(data) is not None else None


def _open_shards(where: str, names: Sequence[str], request: ImageRequest) -> Source:
    title = request.title("looking through shards")
    if request.stream:
        return open_tar_pack(where, names, request.cache, title, request.frames)
    return open_shards(where, names, title, request.frames)


def _open_parquet(where: str, names: Sequence[str], request: ImageRequest) -> Source:
    return open_parquet(where, names, request.cache, request.title("looking through files"), request.frames)


def _is_web_page(url: str) -> bool:
    """Whether a URL is of a server that need not list its files."""
    return url.lower().startswith(("http://", "https://"))


def _expanded(data: str | os.PathLike[str]) -> Path:
    return Path(os.path.expanduser(data))


def _is_file(data: Any, suffixes: Sequence[str] | None = None) -> bool:
    """Whether the data are the path of something that is there and is not a folder."""
    path = _path(data)
    if path is None or not os.path.exists(path) or os.path.isdir(path):
        return False
    return suffixes is None or path.suffix.lower() in suffixes


def _tiny_imagenet_at(data: Any) -> Path | None:
    """The folder or archive of TinyImageNet that PATH or PATH:SPLIT means."""
    path = _path(data)
    if path is None or is_tiny_imagenet(path):
        return path
    before, colon, _ = os.fspath(data).rpartition(":")
    return _expanded(before) if colon and not os.path.exists(path) and is_tiny_imagenet(_expanded(before)) else None


def _nothing_there(text: str) -> CoviewsError:
    if is_url(text):
        return CoviewsError(f"{text!r} cannot be read: of web servers, only shards (.tar) and .parquet files are read")
    name = text.partition(":")[0]
    if difflib.get_close_matches(name.lower(), _all_names(), cutoff=0.6):
        return unknown("folder, file or data set", name, _all_names())
    return CoviewsError(f"there is no file or folder {text!r}; for images to try things out, write 'shapes'")
