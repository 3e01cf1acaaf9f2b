import numpy as np
import pytest

from coviews import CoviewsError, load_images
from coviews.data.imageset import ImageSet
from coviews.data.subset import choose_subset


def counts(labels: np.ndarray, chosen: np.ndarray) -> list[int]:
    return np.bincount(labels[chosen], minlength=labels.max() + 1).tolist()


@pytest.mark.parametrize(
    ("subset", "size"),
    [(None, 200), (200, 200), (50, 50), ("50", 50), (" 50 ", 50), (np.int64(7), 7), (1, 1), ("10%", 20), ("12.5 %", 25),
     ("100%", 200), (0.1, 20), ("0.1", 20), (1.0, 200), (1e-2, 2), ("1e-2", 2), ("0.3%", 1)],
)  # fmt: skip
def test_size_in_every_spelling(subset, size):
    chosen = choose_subset(200, None, subset, 0)
    assert len(chosen) == len(set(chosen.tolist())) == size
    assert np.all(np.diff(chosen) > 0)
    assert chosen[0] >= 0
    assert chosen[-1] < 200
    assert chosen.dtype == np.int64


@pytest.mark.parametrize("labels", [None, np.arange(200) % 7])
def test_the_seed_chooses(labels):
    first = choose_subset(200, labels, 50, 3)
    assert np.array_equal(first, choose_subset(200, labels, "25%", 3))
    assert not np.array_equal(first, choose_subset(200, labels, 50, 4))


@pytest.mark.parametrize("size", [1, 6, 7, 8, 50, 69, 70])
def test_each_class_equally_often(size):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(7), 10))
    found = counts(labels, choose_subset(70, labels, size, 1))
    assert sum(found) == size
    assert max(found) - min(found) <= 1


def test_the_remainder_is_spread_by_the_seed():
    labels = np.repeat(np.arange(10), 10)
    extra = sum(np.array(counts(labels, choose_subset(100, labels, 15, seed))) - 1 for seed in range(40))
    assert extra.sum() == 200
    assert extra.min() > 5  # each class is sometimes lucky


def test_a_small_class_gives_all_and_the_others_fill_up():
    labels = np.repeat(np.arange(4), [2, 100, 5, 100])
    found = counts(labels, choose_subset(207, labels, 60, 0))
    assert found[0] == 2
    assert found[2] == 5
    assert sorted((found[1], found[3])) == [26, 27]
    assert counts(labels, choose_subset(207, labels, 207, 0)) == [2, 100, 5, 100]


@pytest.mark.parametrize(
    ("subset", "says"),
    [(0, "no image: there are 40"), ("0", "no image"), ("0%", "no image"), (0.0, "no image"), ("0.1%", "no image"),
     (-3, "no image"), (41, "more than there are: 40"), ("41", "40 in all"), ("101%", "40 in all"),
     (1.5, "such as '10%'"), ("ten", "such as '10%'"), ("", "'10%'"), ("%", "'10%'"), ("-5", "'10%'"), ("5 5", "'10%'"),
     ("nan", "'10%'"), (float("inf"), "'10%'"), (True, "'10%'"), ([5], "'10%'"), ("9" * 400, "'10%'"), ("٣", "'10%'")],
)  # fmt: skip
def test_wrong_subsets(subset, says):
    with pytest.raises(CoviewsError, match=says) as raised:
        choose_subset(40, None, subset, 0)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("seed", [-1, 1.5, True, "a"])
def test_wrong_seeds(seed):
    with pytest.raises(CoviewsError, match="seed of the subset"):
        choose_subset(40, None, 5, seed)


def test_subset_of_the_built_in_images():
    whole = load_images("shapes:60")
    part = load_images("shapes:60", subset="50%", subset_seed=2)
    chosen = choose_subset(60, whole.labels, 30, 2)
    assert np.array_equal(part.images, whole.images[chosen])
    assert np.array_equal(part.labels, whole.labels[chosen])
    assert np.bincount(part.labels).tolist() == [3] * 10
    assert np.array_equal(load_images("shapes:60", subset=30, subset_seed=2, limit=10).images, part.images[::3])
    with pytest.raises(CoviewsError, match="60 in all"):
        load_images("shapes:60", subset=61)


def test_some_of_a_set():
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 4, 3), np.uint8)
    whole = ImageSet(images, np.arange(6) % 2, ("a", "b"), tuple("uvwxyz"), (("q", "why"),))
    some = whole.subset([4, 0, 3])
    assert np.array_equal(some.images, images[[4, 0, 3]])
    assert some.labels.tolist() == [0, 0, 1]
    assert some.names == ("y", "u", "x")
    assert (some.classes, some.broken) == (whole.classes, whole.broken)
    row = whole.subset(range(2, 5))
    assert np.shares_memory(row.images, images)
    assert row.names == ("w", "x", "y")
    assert whole.subset(np.array([True, False] * 3)).names == ("u", "w", "y")
    assert len(whole.subset([])) == 0
    bare = ImageSet(images).subset([5])
    assert (bare.labels, bare.names) == (None, None)
    with pytest.raises(IndexError):
        whole.subset([6])


def test_a_set_can_be_loaded_again():
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 4, 3), np.uint8)
    whole = ImageSet(images, np.arange(6) % 3, ("a", "b", "c"), tuple("uvwxyz"), (("q", "why"),))
    same = load_images(whole)
    assert np.shares_memory(same.images, images)
    assert (same.labels.tolist(), same.classes, same.names) == ([0, 1, 2] * 2, whole.classes, whole.names)
    part = load_images(whole, subset=3, size=2, channels=1)
    assert part.images.shape == (3, 2, 2, 1)
    assert sorted(part.labels.tolist()) == [0, 1, 2]
    assert part.broken == whole.broken
