"""A data format from outside the package: one class and one entry, and everything else follows."""

from pathlib import Path

import numpy as np
import pytest

from coviews import load_images
from coviews.cli import main
from coviews.data.arrays import ArrayImages
from coviews.data.formats import FORMATS, Format, data_help, formats_table

SIDE = 16


class RawGray(Format):
    """A file of grey images of 16 x 16 pixels, one after the other, without a header."""

    about = "raw bytes (.rawgray)"
    examples = ("scan.rawgray",)

    def fits(self, data):
        return str(data).endswith(".rawgray")

    def open(self, data, request):
        pixels = np.fromfile(data, np.uint8).reshape(-1, SIDE, SIDE, 1)
        return ArrayImages(str(data), [pixels], files=[Path(data)])


@pytest.fixture
def raw(tmp_path, monkeypatch):
    """The path of such a file, and its images; the format is in the table."""
    monkeypatch.setattr("coviews.data.formats.FORMATS", [RawGray(), *FORMATS])
    images = np.random.default_rng(0).integers(0, 256, (40, SIDE, SIDE, 1), np.uint8)
    images.tofile(tmp_path / "toy.rawgray")
    return tmp_path / "toy.rawgray", images


def test_it_loads_with_every_option(raw):
    path, images = raw
    assert np.array_equal(load_images(path).images, images)
    assert np.array_equal(load_images(str(path), subset="50%").images, load_images(images, subset="50%").images)
    assert load_images(path, size=8, channels=3, limit=5).images.shape == (5, 8, 8, 3)


def test_it_can_be_trained_on(raw, tmp_path):
    path, _ = raw
    options = "--views simclr --encoder resnet8 --projector 32 --epochs 1 --batch-size 20 --knn-every 1"
    quiet = "--no-tensorboard --no-report --no-progress --accelerator cpu"
    assert main(["pretrain", str(path), *options.split(), *quiet.split(), "--out", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "encoder.safetensors").exists()
    assert main(["embed", str(tmp_path / "run"), "--out", str(tmp_path / "features.npz"), "--no-progress"]) == 0
    with np.load(tmp_path / "features.npz") as archive:
        assert archive["features"].shape == (40, 256)


def test_it_is_in_the_help_text_and_in_the_table(raw):
    assert data_help().startswith("Raw bytes (.rawgray); a folder of images; ")
    heads, rows = formats_table()
    assert ("raw bytes (.rawgray)", "`scan.rawgray`") in rows
    assert all(len(row) == len(heads) for row in rows)


def test_every_example_of_a_name_is_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for entry in FORMATS:
        for example in entry.examples:
            if example.partition(":")[0] in entry.names:
                assert next(other for other in FORMATS if other.fits(example)) is entry
