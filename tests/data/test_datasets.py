"""Data sets of Python, torch's among them."""

import numpy as np
import pytest
from PIL import Image

from coviews import CoviewsError, load_images

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 6, 5, 3), np.uint8)


class Items:
    """A data set whose items are what a function makes of their index."""

    def __init__(self, make, n=12, **more):
        self.make, self.n, self.read = make, n, []
        self.__dict__.update(more)

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        assert type(index) is int
        self.read.append(index)
        return self.make(index)


def tensor(array):
    import torch

    return torch.from_numpy(np.ascontiguousarray(array))


@pytest.mark.parametrize(
    "make",
    [
        lambda i: Image.fromarray(PIXELS[i]),
        lambda i: PIXELS[i],
        lambda i: PIXELS[i].transpose(2, 0, 1),
        lambda i: tensor(PIXELS[i]),
        lambda i: tensor(PIXELS[i].transpose(2, 0, 1)),
        lambda i: (Image.fromarray(PIXELS[i]), "no label"),
        lambda i: [PIXELS[i]],
        lambda i: (PIXELS[i], True),
        lambda i: (PIXELS[i], 0.5, 3),
    ],
)
def test_every_kind_of_item(make):
    made = load_images(Items(make))
    assert np.array_equal(made.images, PIXELS)
    assert (made.labels, made.classes, made.names) == (None, None, None)


def test_grey_items():
    for make in (
        lambda i: PIXELS[i, ..., 0],
        lambda i: PIXELS[i, ..., :1],
        lambda i: tensor(PIXELS[i, None, ..., 0]),
        lambda i: Image.fromarray(PIXELS[i, ..., 0]),
    ):
        assert np.array_equal(load_images(Items(make)).images, PIXELS[..., :1])
        assert load_images(Items(make), channels=3).images.shape == (12, 6, 5, 3)
    # an image of three columns: a tensor's channels come first, an array's last
    square = PIXELS[:, :3, :3]
    assert np.array_equal(load_images(Items(lambda i: tensor(square[i].transpose(2, 0, 1)))).images, square)
    assert np.array_equal(load_images(Items(lambda i: square[i])).images, square)


@pytest.mark.parametrize("kind", [int, np.int32, lambda v: np.array(v), lambda v: tensor(np.array([v]))[0]])
def test_labels(kind):
    made = load_images(Items(lambda i: (PIXELS[i], kind(3 * (i % 2)), "more")))
    assert made.labels.tolist() == [0, 1] * 6
    assert made.classes == ("0", "3")
    made = load_images(Items(lambda i: (PIXELS[i], kind(i % 2)), classes=["cat", "dog", "owl"]))
    assert made.labels.tolist() == [0, 1] * 6
    assert made.classes == ("cat", "dog", "owl")
    made = load_images(Items(lambda i: (PIXELS[i], kind(i % 2)), classes=["cat"]))
    assert made.classes == ("0", "1")
    assert load_images(Items(lambda i: (PIXELS[i], kind(i - 1)))).labels is None  # -1 means: not known
    assert load_images(Items(lambda i: (PIXELS[i], kind(i)) if i else PIXELS[i])).labels is None


def test_torch_data_sets():
    import torch
    from torch.utils.data import ConcatDataset, Subset, TensorDataset

    pixels = tensor(PIXELS.transpose(0, 3, 1, 2))
    whole = TensorDataset(pixels, torch.arange(12) % 3)
    made = load_images(whole)
    assert np.array_equal(made.images, PIXELS)
    assert made.labels.tolist() == [0, 1, 2] * 4
    assert np.array_equal(load_images(Subset(whole, [3, 1])).images, PIXELS[[3, 1]])
    assert len(load_images(ConcatDataset([whole, whole]))) == 24
    assert np.array_equal(load_images(pixels).images, PIXELS)
    assert np.array_equal(load_images(list(PIXELS)).images, PIXELS)


def test_torchvisions_folder(tmp_path):
    from coviews.compat import import_torchvision

    import_torchvision()
    from torchvision.datasets import ImageFolder

    for i in range(6):
        path = tmp_path / "xy"[i % 2] / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(PIXELS[i]).save(path)
    made, ours = load_images(ImageFolder(tmp_path)), load_images(tmp_path)
    assert np.array_equal(made.images, ours.images)
    assert np.array_equal(made.labels, ours.labels)
    assert made.classes == ours.classes


def test_broken_items_are_named_skipped_and_counted():
    def make(i):
        if i in (0, 1, 7):
            raise OSError("cannot open it")
        return PIXELS[i], i % 2

    with pytest.warns(UserWarning, match=r"3 broken and skipped in the Items: item 0 \(cannot open it\)"):
        made = load_images(Items(make))
    kept = [2, 3, 4, 5, 6, 8, 9, 10, 11]
    assert np.array_equal(made.images, PIXELS[kept])
    assert made.labels.tolist() == [i % 2 for i in kept]
    assert sorted(made.broken) == [(f"item {i}", "cannot open it") for i in (0, 1, 7)]
    with pytest.raises(CoviewsError, match="3 of 12 images in the Items are broken"):
        load_images(Items(make), max_broken=0.1)
    with pytest.raises(CoviewsError, match="no readable image in the Items"):
        load_images(Items(lambda i: 1 // 0))
    with pytest.warns(UserWarning, match="broken"):
        assert np.bincount(load_images(Items(make), subset=8).labels, minlength=2).sum() >= 5


def test_a_subset_is_chosen_by_the_targets_without_reading():
    items = Items(lambda i: (PIXELS[i], i // 6), targets=[i // 6 for i in range(12)])
    made = load_images(items, subset=4)
    assert made.labels.tolist() == [0, 0, 1, 1]
    assert len(set(items.read)) == 4
    items = Items(lambda i: (PIXELS[i], i // 6))
    assert np.array_equal(load_images(items, subset=4).images, made.images)  # it has to read all, and finds the same
    assert len(load_images(Items(lambda i: PIXELS[i]), subset="25%")) == 3


def test_items_of_other_sizes_are_fitted():
    big = np.zeros((9, 9, 3), np.uint8)
    with pytest.warns(UserWarning, match="1 of 12 images are not of the most common size, 6 x 5"):
        assert load_images(Items(lambda i: big if i == 3 else PIXELS[i])).images.shape == (12, 6, 5, 3)


def test_late_colours_are_not_lost_silently():
    items = Items(lambda i: PIXELS[i % 12, ..., 0] if i != 5 else PIXELS[5], n=100)
    with pytest.raises(CoviewsError, match=r"item 5 of the Items has colours.*give channels=3"):
        load_images(items)
    assert load_images(items, channels=1).images.shape == (100, 6, 5, 1)
    assert load_images(items, channels=3).images.shape == (100, 6, 5, 3)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda i: tensor(PIXELS[i] / 255), "item 0 of the Items is an image of float64: leave ToTensor"),
        (lambda i: (PIXELS[i].astype(np.float32), 1), "float32: leave ToTensor"),
        (lambda i: PIXELS[i].astype(np.int64), "int64: it must be uint8 or uint16"),
        (lambda i: "a.png", "is a str: it must be an image"),
        (lambda i: {"image": PIXELS[i]}, "is a dict"),
        (lambda i: (), "is a tuple"),
        (lambda i: PIXELS, "of shape"),
        (lambda i: np.zeros((25, 26, 17), np.uint8), r"of shape \(25, 26, 17\)"),
        (lambda i: np.zeros((0, 6, 3), np.uint8), "of shape"),
    ],
)
def test_items_that_are_no_images(make, says):
    with pytest.raises(CoviewsError, match=says) as raised:
        load_images(Items(make))
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("data", [{}, b"abc", object(), (i for i in range(3)), None])
def test_what_is_no_data_set(data):
    with pytest.raises(CoviewsError, match=f"not {type(data).__name__}"):
        load_images(data)


def test_an_empty_data_set():
    with pytest.raises(CoviewsError, match="no image in the list"):
        load_images([])
    with pytest.raises(CoviewsError, match="no image in the list"):
        load_images([], subset=3)


def test_what_does_not_fit_goes_to_the_disk_and_leaves_nothing_there(tmp_path):
    with pytest.warns(UserWarning, match="until the process ends"):
        made = load_images(Items(lambda i: (PIXELS[i], i % 4)), memory=100, cache=tmp_path / "cache")
    assert isinstance(made.images, np.memmap)
    assert np.array_equal(made.images, PIXELS)
    assert made.labels.tolist() == [0, 1, 2, 3] * 3
    assert not made.images.flags.writeable
    assert list((tmp_path / "cache").iterdir()) == []
