"""Folders that hold a training and a test set, such as Training/ and Testing/."""

import os
from pathlib import Path
from typing import NamedTuple

from coviews.data.image_reader import extensions
from coviews.data.imageset import ImageSet

_NAMES = {
    "train": ("train", "training"), "test": ("test", "testing"), "validation": ("val", "valid", "validation"),
}  # fmt: skip


class Splits(NamedTuple):
    """The folders of a data set's splits."""

    train: Path
    test: Path | None
    validation: Path | None

    @property
    def held_out(self) -> Path:
        """The images to judge an encoder by: the test set, or else the validation set."""
        folder = self.test or self.validation
        assert folder is not None
        return folder

    @property
    def remark(self) -> str:
        """What is said when such a folder is loaded."""
        unused = f"; {self.validation.name} is not used" if self.test and self.validation else ""
        return (
            f"{self.train.parent} holds splits: {self.train.name} has the images to learn from, "
            f"{self.held_out.name} those to judge by{unused}"
        )


def folder_splits(folder: Path) -> Splits | None:
    """The splits of a folder that holds nothing else: a training set, and a test or validation set."""
    found: dict[str, Path] = {}
    try:
        entries = [entry for entry in os.scandir(folder) if not entry.name.startswith(".")]
    except OSError:
        return None
    for entry in entries:
        if not os.path.isdir(entry.path):
            if os.path.splitext(entry.name)[1].lower() in extensions():
                return None
            continue
        split = next((split for split, names in _NAMES.items() if entry.name.lower() in names), None)
        if split is None or split in found:
            return None
        found[split] = folder / entry.name
    if "train" not in found or len(found) < 2:
        return None
    return Splits(found["train"], found.get("test"), found.get("validation"))


def can_judge(test: ImageSet, train: ImageSet) -> bool:
    """Whether the test images have labels, and share a class with the training images."""
    return test.labels is not None and bool(set(test.classes or ()) & set(train.classes or ()))
