import os
import pickle
import warnings

import numpy as np
import pytest
from PIL import Image

from coviews import CoviewsError, Plan, load_images, make_views, view_source
from coviews.ops.images import check_images

PIXELS = np.random.default_rng(0).integers(0, 256, (7, 6, 5, 3), np.uint8)


def is_mapped(array: np.ndarray | None) -> bool:
    """Whether an array's bytes are those of a file."""
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = array.base if isinstance(array.base, np.ndarray) else None
    return False


def save(path, array):
    np.save(path, array)
    return path


def test_npy_stays_on_the_disk(tmp_path):
    made = load_images(save(tmp_path / "a.npy", PIXELS))
    assert np.array_equal(made.images, PIXELS)
    assert is_mapped(made.images)
    assert is_mapped(check_images(made.images))
    assert np.shares_memory(check_images(made.images), made.images)
    assert (made.labels, made.names, made.broken) == (None, None, ())
    grey = load_images(save(tmp_path / "b.npy", PIXELS[..., 0])).images
    assert grey.shape == (7, 6, 5, 1)
    assert is_mapped(grey)
    assert np.array_equal(grey[..., 0], PIXELS[..., 0])


def test_npy_is_resized_converted_and_chosen_from(tmp_path):
    path = save(tmp_path / "a.npy", PIXELS)
    assert np.array_equal(load_images(path, limit=2).images, PIXELS[[0, 3]])
    assert len(load_images(path, subset=3)) == 3
    grey = load_images(path, channels=1).images
    assert np.array_equal(grey[4, ..., 0], np.asarray(Image.fromarray(PIXELS[4]).convert("L")))
    small = load_images(path, size=(4, 3)).images
    assert np.array_equal(small, load_images(PIXELS, size=(4, 3)).images)
    assert np.array_equal(load_images(save(tmp_path / "f.npy", np.asfortranarray(PIXELS))).images, PIXELS)


def test_views_of_a_mapped_array(tmp_path):
    images = load_images(save(tmp_path / "a.npy", PIXELS)).images
    plan = Plan.draw(view_source("random"), 7, PIXELS.shape[1:3], np.random.default_rng(1))
    assert np.array_equal(make_views(images[np.arange(7)], plan), make_views(PIXELS, plan))


@pytest.mark.parametrize("key", ["images", "x", "X", "data", "whatever"])
@pytest.mark.parametrize("label_key", ["labels", "y", "targets", None])
def test_npz(tmp_path, key, label_key):
    more = {label_key: np.array([[4], [2], [9], [4], [4], [2], [2]], np.uint8)} if label_key else {}
    np.savez_compressed(tmp_path / "a.npz", **{key: PIXELS, **more})
    made = load_images(tmp_path / "a.npz")
    assert np.array_equal(made.images, PIXELS)
    if label_key:
        assert made.classes == ("2", "4", "9")
        assert made.labels.tolist() == [1, 0, 2, 1, 1, 0, 0]
    else:
        assert made.labels is None


def test_npz_with_texts_and_with_unknown_labels(tmp_path):
    np.savez(tmp_path / "a.npz", images=PIXELS, labels=np.array(list("bababab")), other=np.zeros(3))
    made = load_images(tmp_path / "a.npz", limit=2)
    assert made.classes == ("a", "b")
    assert made.labels.tolist() == [1, 0]
    np.savez(tmp_path / "b.npz", images=PIXELS, labels=np.array([0, 1, -1, 0, 0, 0, 0]))
    assert load_images(tmp_path / "b.npz").labels is None


def test_channels_first_is_understood_and_said(tmp_path):
    first = np.ascontiguousarray(PIXELS.transpose(0, 3, 1, 2))
    for data in (first, save(tmp_path / "a.npy", first)):
        with pytest.warns(UserWarning, match=r"\(N, C, H, W\)") as said:
            made = load_images(data)
        assert len(said) == 1
        assert said[0].filename == __file__
        assert np.array_equal(made.images, PIXELS)
        assert made.images.flags.c_contiguous
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_images(PIXELS[:, :3]).images.shape == (7, 3, 5, 3)  # it might be either: channels are last
        assert load_images(PIXELS[:, :3, :, 0]).images.shape == (7, 3, 5, 1)


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (PIXELS * 1j, "a.npy: an array with values of type complex128"),
        (PIXELS.astype("M8[s]"), "datetime64"),
        (PIXELS[0, 0], "of shape"),
        (np.zeros((4, 36, 36, 17), np.uint8), "of shape"),
        (np.asfortranarray(np.zeros((4, 36, 36, 17), np.uint8)), r"\(4, 36, 36, 17\)"),
        (np.zeros((4, 36, 36, 0), np.uint8), "no image"),
        (np.zeros((0, 6, 6, 3), np.uint8), "no image"),
        (np.array(5, np.uint8), "of shape"),
    ],
)
def test_arrays_that_are_not_images(tmp_path, array, says):
    with pytest.raises(CoviewsError, match=says):
        load_images(save(tmp_path / "a.npy", array))


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"images": PIXELS, "labels": np.arange(6)}, r"7 images, but labels of shape \(6,\)"),
        ({"images": PIXELS, "labels": np.eye(7)}, "labels of shape"),
        ({"images": PIXELS, "labels": np.linspace(0, 1, 7)}, "whole numbers or texts, not float64"),
        ({"a": PIXELS, "b": PIXELS}, "has the arrays a, b: call that of the images 'images'"),
        ({"images": PIXELS * 1j}, "complex128"),
    ],
)
def test_archives_that_are_wrong(tmp_path, arrays, says):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(CoviewsError, match=says):
        load_images(tmp_path / "a.npz")


class Payload:
    """What runs code when it is unpickled."""

    def __init__(self, target):
        self.target = str(target)

    def __reduce__(self):
        return os.mkdir, (self.target,)


def test_no_object_is_unpickled(tmp_path):
    evil = np.array([Payload(tmp_path / "hacked")], dtype=object)
    np.save(tmp_path / "a.npy", evil, allow_pickle=True)
    np.savez(tmp_path / "b.npz", images=evil)
    (tmp_path / "c.npy").write_bytes(pickle.dumps(Payload(tmp_path / "hacked")))
    for name, says in (("a.npy", "Python objects"), ("b.npz", "Python objects"), ("c.npy", "not a file of NumPy")):
        with pytest.raises(CoviewsError, match=says):
            load_images(tmp_path / name)
    assert not (tmp_path / "hacked").exists()
    np.load(tmp_path / "a.npy", allow_pickle=True)  # the payload is a real one
    assert (tmp_path / "hacked").exists()


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
@pytest.mark.parametrize("left", [0, 3, 40, 200])
def test_damaged_files(tmp_path, name, left):
    if name == "a.npy":
        np.save(tmp_path / name, PIXELS)
    else:
        np.savez(tmp_path / name, images=PIXELS)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:left])
    with pytest.raises(CoviewsError, match=name) as raised:
        load_images(tmp_path / name)
    assert len(str(raised.value).splitlines()) == 1
