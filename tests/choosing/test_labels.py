"""The labelled images of `choose`: in every form, and what is wrong with them."""

import numpy as np
import pytest
from PIL import Image

from coviews import CoviewsError, load_images
from coviews.choosing.labelled import MOST, describe, labelled_images
from coviews.choosing.options import ChooseOptions


@pytest.fixture(scope="module")
def loaded(images):
    return load_images(images, size=16)


def labelled(images, loaded, labels=None, python=None, **changes):
    return labelled_images(ChooseOptions(labels=labels, progress=False, **changes), loaded, python, str(images))


def names(images, count=40):
    return [f"{'ab'[i % 2]}/{i:02d}.png" for i in range(count)]


def table(path, rows, head="file,label"):
    path.write_text("\n".join([head, *rows]) + "\n")
    return str(path)


def test_class_folders_of_the_images_themselves(images, loaded):
    made = labelled(images, loaded)
    assert len(made) == 40
    assert describe(made, str(images)) == "40 labelled images of 2 classes (20 a class), from images"
    few = labelled(images, loaded, per_class=3)
    assert np.bincount(few.labels).tolist() == [3, 3]
    assert (labelled(images, loaded, per_class=3).images == few.images).all()
    assert labelled(images, loaded, "none") is None


def test_other_class_folders(images, loaded, tmp_path):
    for i in range(6):
        path = tmp_path / "few" / "xyz"[i % 3] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((30, 40), i, np.uint8)).save(path)
    made = labelled(images, loaded, str(tmp_path / "few"))
    assert made.images.shape == (6, 16, 16, 3)
    assert made.classes == ("x", "y", "z")


def test_a_table_in_any_folder_with_some_labels(images, loaded, tmp_path):
    some = names(images)
    rows = [f"{n},{'left' if i < 4 else 'right' if i < 9 else ''}" for i, n in enumerate(some)]
    made = labelled(images, loaded, table(tmp_path / "labels.csv", rows))
    assert made.classes == ("left", "right")
    assert np.bincount(made.labels).tolist() == [4, 5]  # rows without a label are skipped
    places = [loaded.names.index(n) for n in some[:9]]
    assert (np.asarray(made.images) == loaded.images[places]).all()
    # files beside the table come first
    (tmp_path / "a").mkdir()
    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(tmp_path / "a" / "00.png")
    assert labelled(images, loaded, table(tmp_path / "labels.csv", rows)).images[0].max() == 0


def test_arrays_of_labels(images, loaded, tmp_path):
    values = np.full(40, -1)
    values[[1, 2, 3]], values[[5, 6]] = 7, 9
    np.save(tmp_path / "labels.npy", values)
    from_file = labelled(images, loaded, str(tmp_path / "labels.npy"))
    from_python = labelled(images, loaded, python=[None if v < 0 else int(v) for v in values])
    from_floats = labelled(images, loaded, python=np.where(values < 0, np.nan, values))
    assert from_file.classes == from_python.classes == ("7", "9")
    for made in (from_file, from_python, from_floats):
        assert (made.images == loaded.images[[1, 2, 3, 5, 6]]).all()
        assert made.labels.tolist() == [0, 0, 0, 1, 1]
    np.savez(tmp_path / "few.npz", images=loaded.images[:8], labels=np.arange(8) % 2)
    assert len(labelled(images, loaded, str(tmp_path / "few.npz"))) == 8


def test_classes_with_one_image_are_left_out_and_there_are_not_too_many(images, loaded):
    made = labelled(images, loaded, python=["a"] * 4 + ["b"] * 4 + ["c"] + [None] * 31)
    assert set(made.labels.tolist()) == {0, 1}
    assert MOST == 2000


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["a/00.png,x", f"{'y' * 5000}.png,y"], "1 of the 2 files"),
        (["a/00.png,x", "gone.png,y"], r"1 of the 2 files that .*labels.csv labels are not in .*: gone.png"),
        ([f"gone{i},x" for i in range(5)], "gone0, gone1, gone2 and 2 more"),
        (["a/00.png,x", "a/02.png,x"], "all labels are of one class"),
        (["a/00.png,x", "a/02.png,y"], "too few labels: .* label 2 more at least"),
        (["a/00.png,x", "a/02.png,y", "a/04.png,y", "a/06.png,z"], "label 1 more at least"),
        (["a/00.png,", "a/02.png,"], "has no labels"),
    ],
)
def test_bad_tables(images, loaded, tmp_path, rows, said):
    with pytest.raises(CoviewsError, match=said):
        labelled(images, loaded, table(tmp_path / "labels.csv", rows))


def test_other_bad_labels(images, loaded, tmp_path):
    with pytest.raises(CoviewsError, match="3 labels for 40 images"):
        labelled(images, loaded, python=[0, 1, 2])
    with pytest.raises(CoviewsError, match="none of the labels is known"):
        labelled(images, loaded, python=[None] * 40)
    with pytest.raises(CoviewsError, match="there is no list"):
        labelled(images, loaded, str(tmp_path / "gone.csv"))
    with pytest.raises(CoviewsError, match="no file or folder"):
        labelled(images, loaded, str(tmp_path / "gone"))
    with pytest.raises(CoviewsError, match="has no labels"):
        labelled(images, loaded, str(images / "a"))
    (tmp_path / "labels.npy").write_bytes(b"no array")
    with pytest.raises(CoviewsError, match="cannot read the array of labels"):
        labelled(images, loaded, str(tmp_path / "labels.npy"))
    (tmp_path / "broken.png").write_bytes(b"no image")
    with pytest.raises(CoviewsError, match=r"cannot read .*broken.png, which .* labels"):
        labelled(images, loaded, table(tmp_path / "t.csv", ["broken.png,x", "a/00.png,x", "a/02.png,y", "a/04.png,y"]))
