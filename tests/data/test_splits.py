"""Folders with a training and a test set."""

import json

import numpy as np
import pytest
from PIL import Image

import coviews
from coviews.data.formats import held_out_split
from coviews.data.load import load_images
from small_runs import SMALL

SHORT = SMALL.replaced(views="recipe", epochs=1, batch_size=8, knn_every=1, size=None)


def write_images(folder, classes, count, seed=0):
    rng = np.random.default_rng(seed)
    for i, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for k in range(count):
            Image.fromarray(rng.integers(60 * i, 60 * i + 60, (16, 16, 3), np.uint8)).save(folder / name / f"{k}.png")


@pytest.mark.parametrize(
    ("names", "test"),
    [(("Training", "Testing"), "Testing"), (("train", "val", "test"), "test"), (("TRAIN", "Validation"), "Validation")],
)
def test_splits_are_no_classes(tmp_path, names, test, capsys):
    for seed, name in enumerate(names):
        write_images(tmp_path / name, ("cat", "dog"), 3, seed)
    (tmp_path / "README.txt").write_text("about")
    images = load_images(tmp_path, progress=True)
    assert images.classes == ("cat", "dog")
    assert len(images) == 6
    assert np.array_equal(images.images, load_images(tmp_path / names[0]).images)
    assert held_out_split(str(tmp_path)) == tmp_path / test
    said = capsys.readouterr().err
    assert f"{names[0]} has the images to learn from, {test} those to judge by" in said
    assert ("val is not used" in said) == (len(names) == 3)


@pytest.mark.parametrize("names", [("train", "plane"), ("test", "valid"), ("train", "training")])
def test_folders_that_are_no_splits_stay_classes(tmp_path, names):
    for name in names:
        write_images(tmp_path / name, ("a", "b"), 1)
    assert load_images(tmp_path).classes == tuple(sorted(names))
    assert held_out_split(tmp_path) is None


def test_a_run_and_its_evaluation_use_the_splits(tmp_path, capsys):
    data = tmp_path / "data"
    write_images(data / "Training", ("cat", "dog"), 8)
    write_images(data / "Testing", ("cat", "dog"), 3, seed=1)
    run = coviews.pretrain(str(data), settings=SHORT, out=tmp_path / "run")
    said = capsys.readouterr().err
    assert "2 classes" in said
    assert "cat, dog" in said
    assert "6 test images by 16 training images" in said
    assert "knn" in run.quality
    evaluation = coviews.evaluate(tmp_path / "run", progress=False, baselines=False)
    assert evaluation.results["images"]["test"] == 6
    assert evaluation.test_data == str(data / "Testing")


def test_test_images_without_labels_are_not_judged_by(tmp_path):
    write_images(tmp_path / "data" / "train", ("cat", "dog"), 8)
    write_images(tmp_path / "data" / "test", ("",), 3, seed=1)
    coviews.pretrain(str(tmp_path / "data"), settings=SHORT, out=tmp_path / "run", progress=False)
    start = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert start["looks_at"] == "16 training images, each by the others"
    evaluation = coviews.evaluate(tmp_path / "run", progress=False, baselines=False)
    assert evaluation.test_data is None
    assert "no test set" in evaluation.results["notes"][0]
