"""The known data sets: their files, the addresses of these, and the functions that read them.

The files are where torchvision puts them, so that its downloads are found.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coviews.boundary.regular import read_bounded
from coviews.console.progress import waiting
from coviews.data.arrays import ArrayImages
from coviews.data.class_labels import Labels, joined, labels_of_numbers
from coviews.data.known.download import fetch, unpack
from coviews.data.known.readers import Part, read_cifar, read_cifar_classes, read_stl, read_svhn
from coviews.errors import CoviewsError, unknown


@dataclass(frozen=True)
class Download:
    """A file that the authors publish."""

    url: str
    md5: str

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.url.rpartition("/")[2]

    @property
    def is_archive(self) -> bool:
        """Whether it is an archive of the files of a data set, not one of these files."""
        return self.name.endswith(".tar.gz")


@dataclass(frozen=True)
class KnownSet:
    """A known data set; paths of files are relative to the root."""

    splits: Mapping[str, Sequence[str]]  # the files of each split
    downloads: Mapping[str, Download]  # the source of the files of each split
    read: Callable[[Sequence[Path]], list[Part]]  # reads the files of a split
    classes: Callable[[Path], Sequence[str]]  # the names of the classes, given the root
    shared: Sequence[str] = ()  # files that every split needs

    def files(self, split: str) -> list[str]:
        """All files that a split needs."""
        return [*self.splits[split], *self.shared]


def _cifar(
    folder: str, train: Sequence[str], test: str, meta: str, keys: tuple[str, str], archive: Download
) -> KnownSet:
    label_key, names_key = keys
    return KnownSet(
        splits={"train": [f"{folder}/{name}" for name in train], "test": [f"{folder}/{test}"]},
        downloads=dict.fromkeys(("train", "test"), archive),
        read=lambda paths: [read_cifar(path, label_key) for path in paths],
        classes=lambda root: read_cifar_classes(root / folder / meta, names_key),
        shared=[f"{folder}/{meta}"],
    )


_STL = "stl10_binary"
KNOWN_SETS = {
    "cifar10": _cifar(
        "cifar-10-batches-py",
        [f"data_batch_{i}" for i in range(1, 6)],
        "test_batch",
        "batches.meta",
        ("labels", "label_names"),
        Download("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
    ),
    "cifar100": _cifar(
        "cifar-100-python",
        ["train"],
        "test",
        "meta",
        ("fine_labels", "fine_label_names"),
        Download("https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),
    ),
    "svhn": KnownSet(
        splits={split: [f"{split}_32x32.mat"] for split in ("train", "test", "extra")},
        downloads={
            split: Download(f"http://ufldl.stanford.edu/housenumbers/{split}_32x32.mat", md5)
            for split, md5 in (
                ("train", "e26dedcc434d2e4c54c9b2d4a06d8373"),
                ("test", "eb5a983be6a315427106f1b164d9cef3"),
                ("extra", "a93ce644f1a588dc4d68dda5feec44a7"),
            )
        },
        read=lambda paths: [read_svhn(paths[0])],
        classes=lambda root: [str(digit) for digit in range(10)],
    ),
    "stl10": KnownSet(
        splits={
            "train": [f"{_STL}/train_X.bin", f"{_STL}/train_y.bin"],
            "test": [f"{_STL}/test_X.bin", f"{_STL}/test_y.bin"],
            "unlabeled": [f"{_STL}/unlabeled_X.bin"],
        },
        downloads=dict.fromkeys(
            ("train", "test", "unlabeled"),
            Download("http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz", "91f7769df0f17e558f3565bffb0c7dfb"),
        ),
        read=lambda paths: [read_stl(paths[0], paths[1] if len(paths) > 1 else None)],
        classes=lambda root: read_bounded(root / _STL / "class_names.txt", 65_536).decode(errors="replace").split(),
        shared=[f"{_STL}/class_names.txt"],
    ),
}


def known_images(name: str, root: Path, *, download: bool, progress: bool) -> ArrayImages:
    """The images of NAME, NAME:SPLIT or NAME:SPLIT+SPLIT; without a split, those of the train split."""
    known = KNOWN_SETS[name.partition(":")[0]]
    splits = split_names(name, list(known.splits))
    for split in splits:
        _provide(name.partition(":")[0], known, split, root, download=download, progress=progress)
    parts: list[Part] = []
    labels: list[Labels | None] = []
    try:
        with waiting(f"reading {name}" if progress else ""):
            classes = known.classes(root)
            for split in splits:
                for images, values in known.read([root / file for file in known.splits[split]]):
                    if values is not None and values.max(initial=0) >= len(classes):
                        raise CoviewsError(f"the {split} split of {name} in {root} has labels beyond its classes")
                    parts.append((images, values))
                    labels.append(None if values is None else labels_of_numbers(values, classes))
    except OSError as error:
        raise CoviewsError(f"cannot read {name} in {root}: {error.strerror or error}") from error
    files = [root / file for split in splits for file in known.files(split)]
    return ArrayImages(name, [images for images, _ in parts], joined(labels), files=files)


def split_names(name: str, valid: Sequence[str]) -> list[str]:
    """The splits in NAME:SPLIT+SPLIT; without a colon, the train split."""
    head, colon, tail = name.rpartition(":")
    if not colon:
        return ["train"]
    splits = tail.split("+")
    for split in splits:
        if split not in valid:
            raise unknown(f"split of {head}", split, valid)
    return list(dict.fromkeys(splits))


def _provide(name: str, known: KnownSet, split: str, root: Path, *, download: bool, progress: bool) -> None:
    """Provide the files of a split: unpack their archive, or download it if that is allowed."""

    def missing() -> list[str]:
        return [file for file in known.files(split) if not (root / file).is_file()]

    source = known.downloads[split]
    archive = root / source.name
    downloaded = False
    if missing() and download and not archive.is_file():
        fetch(source.url, source.md5, archive, progress=progress)
        downloaded = True
    if missing() and source.is_archive and archive.is_file():
        unpack(
            archive, {file for any_split in known.splits for file in known.files(any_split)}, root, progress=progress
        )
        if downloaded:
            archive.unlink()
    if absent := missing():
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        file = f"{source.name}, which is unpacked then" if source.is_archive else source.name
        raise CoviewsError(
            f"{name} is not in {root}: there is no {absent[0]}{more}. "
            f"Download it with --download (download=True), or put {file}, into that folder"
        )
