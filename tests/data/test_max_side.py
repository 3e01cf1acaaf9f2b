"""Images that are larger than a machine can train on."""

import numpy as np
import pytest
from PIL import Image

import coviews
from coviews.data.load import load_images
from coviews.runs.folder import Run
from coviews.training import setup
from small_runs import SMALL

SHORT = SMALL.replaced(views="recipe", epochs=1, batch_size=4, knn_every=0, size=None)


def write_images(folder, height=24, width=36, count=6):
    folder.mkdir()
    for i in range(count):
        pixels = np.random.default_rng(i).integers(0, 256, (height, width, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")


def test_larger_images_are_scaled_down_with_their_aspect(tmp_path, recwarn, capsys):
    write_images(tmp_path / "images")
    small = load_images(tmp_path / "images", max_side=18, progress=True)
    assert small.images.shape == (6, 12, 18, 3)
    assert np.array_equal(small.images, load_images(tmp_path / "images", size=(12, 18)).images)
    assert "images of 24 x 36 pixels are scaled down to 12 x 18; another size: --size 36" in capsys.readouterr().err
    assert not recwarn.list  # nothing is cut off


@pytest.mark.parametrize("options", [{"max_side": 36}, {"max_side": 16, "size": (24, 36)}])
def test_others_stay(tmp_path, options):
    write_images(tmp_path / "images")
    assert np.array_equal(load_images(tmp_path / "images", **options).images, load_images(tmp_path / "images").images)


def test_arrays_too():
    images = np.random.default_rng(0).integers(0, 256, (3, 40, 20, 1), np.uint8)
    assert load_images(images, max_side=10).images.shape == (3, 10, 5, 1)
    assert load_images(images, max_side=40).images is images


def test_a_run_keeps_the_size_of_the_machine_that_it_began_on(tmp_path, monkeypatch, capsys):
    write_images(tmp_path / "images", 24, 24)
    monkeypatch.setattr(setup, "CPU_SIZE", 16)
    run = tmp_path / "run"
    coviews.pretrain(str(tmp_path / "images"), settings=SHORT, out=run)
    assert "6 images of 16 x 16" in capsys.readouterr().err
    assert Run(run).settings.max_side == 16
    monkeypatch.setattr(setup, "CPU_SIZE", 20)
    coviews.pretrain(settings=SHORT.replaced(data=str(tmp_path / "images")), resume=run)
    assert "continuing" in capsys.readouterr().err
    coviews.pretrain(str(tmp_path / "images"), settings=SHORT, out=tmp_path / "own", size=24)
    assert "6 images of 24 x 24" in capsys.readouterr().err
