"""What does not fit into memory, and how much may be broken."""

import errno
import json
import os
import shutil
import subprocess
import sys
import time
import tracemalloc
import warnings

import numpy as np
import pytest
from PIL import Image

from coviews import CoviewsError, compat, load_images
from coviews.data import cache, image_files, picture_reader
from coviews.data.imageset import ImageSet
from coviews.ops.images import check_images

SIDE = 8
EACH = SIDE * SIDE * 3


def noise(seed: int, side: int = SIDE) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Forty images in two classes."""
    for i in range(40):
        path = tmp_path / "pics" / "ab"[i % 2] / f"{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(i)).save(path)
    return tmp_path / "pics"


@pytest.fixture
def store(tmp_path):
    return tmp_path / "cache"


def load(folder, store, **options):
    """Load as if there were no memory; that it is said is not what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_images(folder, **{"memory": 0, "cache": store, **options})


def no_decoding(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("an image is decoded")

    monkeypatch.setattr(image_files, "read_image", refuse)
    monkeypatch.setattr(image_files, "read_header", refuse)
    monkeypatch.setattr(picture_reader.Image, "open", refuse)


def same(one: ImageSet, other: ImageSet) -> bool:
    return (
        np.array_equal(one.images, other.images)
        and np.array_equal(one.labels, other.labels)
        and (one.classes, one.names, one.broken) == (other.classes, other.names, other.broken)
    )


# ------------------------------------------------------------------------------------- on the disk or not


@pytest.mark.parametrize("options", [{}, {"size": (5, 7)}, {"channels": 1}, {"subset": "50%"}, {"limit": 7}])
def test_the_same_pixels_as_in_memory(folder, store, options):
    (folder / "a" / "broken.png").write_bytes(b"no image")
    whole = (folder / "b" / "21.png").read_bytes()
    (folder / "a" / "11-cut.png").write_bytes(whole[:-60])  # found when it is decoded, in the middle
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        held = load_images(folder, **options)
    mapped = load(folder, store, **options)
    assert not isinstance(held.images, np.memmap)
    assert isinstance(mapped.images, np.memmap)
    assert same(held, mapped)
    assert same(held, load(folder, store, **options))


def test_the_limit_decides(folder, store):
    assert not isinstance(load_images(folder, memory=40 * EACH, cache=store).images, np.memmap)
    assert not store.exists()
    with pytest.warns(
        UserWarning, match=r"need 7\.7 kB, more than the 7\.7 kB of memory.*decoded into .*cache"
    ) as said:
        made = load_images(folder, memory=40 * EACH - 1, cache=store)
    assert len([w for w in said if w.category is UserWarning]) == 1
    assert isinstance(made.images, np.memmap)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        load_images(folder, memory=0, cache=store)


def test_the_second_load_decodes_nothing(folder, store, monkeypatch):
    first = load(folder, store)
    no_decoding(monkeypatch)
    assert same(load(folder, store), first)
    assert same(load(folder, store, memory=None), first)  # it is there: why decode it again
    with pytest.raises(CoviewsError, match="an image is decoded"):
        load(folder, store, size=9)


def test_the_cache_follows_the_files_and_not_their_place(folder, store, monkeypatch, tmp_path):
    first = load(folder, store)
    moved = tmp_path / "moved"
    folder.rename(moved)
    with monkeypatch.context() as patch:
        no_decoding(patch)
        assert same(load(moved, store), first)
    changed = moved / "a" / "00.png"
    Image.fromarray(noise(99)).save(changed)
    assert np.array_equal(load(moved, store).images[0], noise(99))
    stamp = changed.stat()
    os.utime(changed, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
    assert len(list(store.iterdir())) == 2
    load(moved, store)
    assert len(list(store.iterdir())) == 3


def test_it_is_read_only_and_no_copy_is_made(folder, store):
    made = load(folder, store)
    with pytest.raises(ValueError, match="read-only"):
        made.images[0] = 0
    checked = check_images(made.images)
    assert np.shares_memory(checked, made.images)
    assert np.shares_memory(made.subset(range(3, 9)).images, made.images)
    assert isinstance(made.images[:5], np.memmap)


def test_the_mean_colour_of_a_mapped_array_needs_no_memory(tmp_path):
    pixels = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", np.uint8, (4000, 32, 32, 3))
    pixels[::2], pixels[..., 1] = 100, 7
    made = load_images(tmp_path / "a.npy")
    tracemalloc.start()
    try:
        mean = made.mean
        check_images(made.images)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert mean == (50, 7, 50)
    assert peak < pixels.nbytes / 10


def test_by_default_half_of_what_is_free(monkeypatch, folder, store):
    monkeypatch.setattr(compat, "_available", lambda: 1000)
    monkeypatch.setattr(compat, "_memory_of_container", lambda: None)
    assert cache.memory_for_images() == 500
    assert isinstance(load(folder, store, memory=None).images, np.memmap)
    monkeypatch.setattr(compat, "_memory_of_container", lambda: 800)
    assert cache.memory_for_images() == 400
    monkeypatch.undo()
    assert 10**6 < cache.memory_for_images() < 10**14


def test_the_users_cache_folder(monkeypatch, tmp_path, folder):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.default_cache() == tmp_path / "xdg" / "coviews"
    load(folder, None)
    assert len(list((tmp_path / "xdg" / "coviews").iterdir())) == 1
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the standard says to ignore
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache.default_cache() == tmp_path / "home" / ".cache" / "coviews"


def test_bytes_in_words():
    assert [cache.in_words(n) for n in (7, 1500, 2_000_000, 3 * 10**9, 10**13, 10**17)] == [
        "7 bytes", "1.5 kB", "2.0 MB", "3.0 GB", "10.0 TB", "100000.0 TB"
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------ accidents


@pytest.mark.parametrize(
    "harm",
    [
        lambda entry: (entry / "images.npy").write_bytes((entry / "images.npy").read_bytes()[:-1]),
        lambda entry: (entry / "images.npy").write_bytes(b""),
        lambda entry: (entry / "images.npy").unlink(),
        lambda entry: (entry / "about.json").unlink(),
        lambda entry: (entry / "about.json").write_text("{"),
        lambda entry: (entry / "about.json").write_text("{}"),
        lambda entry: (entry / "about.json").write_text(json.dumps({"kept": 41, "failures": [], "resized": 0})),
        lambda entry: np.save(entry / "images.npy", np.zeros((40, SIDE, SIDE, 3))),
    ],
)
def test_a_damaged_entry_is_made_again(folder, store, harm):
    first = load(folder, store)
    pixels = np.array(first.images)
    (entry,) = store.iterdir()
    copy = store.parent / "copy"
    shutil.copytree(entry, copy)  # the mapped file itself must not be cut while it is mapped
    shutil.rmtree(entry)
    shutil.copytree(copy, entry)
    harm(entry)
    assert np.array_equal(load(folder, store).images, pixels)
    assert cache.find_stored(store, entry.name) is not None


def test_a_process_that_is_killed_leaves_nothing_that_is_trusted(folder, store):
    code = f"""
import os, sys
from coviews.data import image_files, load
count = 0
real = image_files.read_image
def read_image(*arguments):
    global count
    count += 1
    if count == 25:
        os.kill(os.getpid(), 9)
    return real(*arguments)
image_files.read_image = read_image
load.load_images({str(folder)!r}, memory=0, cache={str(store)!r})
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    (left,) = store.iterdir()
    assert left.name.startswith(".draft-")
    made = load(folder, store)
    assert same(made, load_images(folder, cache=store.parent / "other"))
    assert left.exists()  # it might be another process's
    long_ago = time.time() - 3 * 24 * 3600
    for path in (*left.iterdir(), left):
        os.utime(path, (long_ago, long_ago))
    load(folder, store, size=5)
    assert not left.exists()
    assert len(list(store.iterdir())) == 2


def test_stopped_in_the_middle_nothing_is_left(folder, store, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(image_files, "read_image", stop)
    with pytest.raises(KeyboardInterrupt):
        load(folder, store)
    assert list(store.iterdir()) == []


def test_two_at_once_agree(folder, store, monkeypatch):
    """Another process is done with the same images first."""
    first = load(folder, store)
    (entry,) = store.iterdir()
    aside = store.parent / "aside"
    entry.rename(aside)
    real = cache.os.rename

    def late(source, target):
        shutil.copytree(aside, target)
        real(source, target)

    monkeypatch.setattr(cache.os, "rename", late)
    assert same(load(folder, store), first)
    assert [path.name for path in store.iterdir()] == [entry.name]


def test_a_full_disk_is_said(folder, store, monkeypatch):
    says = rf"need {40 * EACH:,} bytes \(7\.7 kB\) in .*cache, where .* are free"

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(cache.os, "posix_fallocate", full)
        with pytest.raises(CoviewsError, match=says):
            load(folder, store)
    with monkeypatch.context() as patch:
        usage = shutil.disk_usage(store.parent)
        patch.setattr(cache.shutil, "disk_usage", lambda _: usage._replace(free=40 * EACH - 1))
        with pytest.raises(CoviewsError, match=says):
            load(folder, store)
    with monkeypatch.context() as patch:
        patch.setattr(cache.json, "dump", full)
        with pytest.raises(CoviewsError, match=says):
            load(folder, store)
    assert list(store.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_said(folder, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CoviewsError, match=r"cannot keep decoded images in .*file.below: .*another folder"):
        load(folder, tmp_path / "file" / "below")
    assert len(load_images(folder, cache=tmp_path / "file" / "below")) == 40  # it is not needed


def test_images_that_all_fail_are_not_kept(tmp_path, store):
    for i in range(3):
        Image.fromarray(noise(i, 40)).save(tmp_path / f"{i}.png")
        content = (tmp_path / f"{i}.png").read_bytes()
        (tmp_path / f"{i}.png").write_bytes(content[: len(content) // 2])
    with pytest.raises(CoviewsError, match="no readable image"):
        load(tmp_path, store)
    assert list(store.iterdir()) == []


# ----------------------------------------------------------------------------------------- broken images


def with_broken(folder, n, broken):
    folder.mkdir()
    for i in range(n):
        if i < broken:
            (folder / f"{i:03}.png").write_bytes(b"no image")
        else:
            Image.new("L", (4, 4), i % 256).save(folder / f"{i:03}.png")
    return folder


@pytest.mark.parametrize(
    ("n", "broken", "share", "allowed"),
    [
        (10, 9, 1.0, True),
        (200, 2, 0.01, True),
        (200, 3, 0.01, False),
        (199, 2, 0.01, False),
        (20, 1, 0.01, True),  # of twenty or more, one always
        (20, 2, 0.01, False),
        (19, 1, 0.01, False),
        (19, 0, 0.01, True),
        (40, 1, 0, False),
        (40, 0, 0, True),
        (10, 5, 0.5, True),
        (10, 6, 0.5, False),
    ],
)
def test_how_many_may_be_broken(tmp_path, n, broken, share, allowed):
    folder = with_broken(tmp_path / "x", n, broken)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if allowed:
            made = load_images(folder, max_broken=share)
            assert (len(made), len(made.broken)) == (n - broken, broken)
            return
        with pytest.raises(CoviewsError, match=rf"{broken} of {n} images in .*x are broken.*000\.png \(not an image\)"):
            load_images(folder, max_broken=share)


def test_too_many_broken_are_said_before_anything_is_decoded(tmp_path, monkeypatch):
    folder = with_broken(tmp_path / "x", 60, 5)
    monkeypatch.setattr(image_files, "read_image", None)
    with pytest.raises(CoviewsError, match=r"5 of 60 images .* more than the 1 that may be"):
        load_images(folder, max_broken=0.01)


def test_what_breaks_while_it_is_decoded_counts_too(tmp_path, store):
    folder = with_broken(tmp_path / "x", 40, 1)
    Image.fromarray(noise(1, 50)).save(folder / "zz.png")
    content = (folder / "zz.png").read_bytes()
    (folder / "zz.png").write_bytes(content[: len(content) // 2])
    for options in ({}, {"memory": 0, "cache": store}, {"memory": 0, "cache": store}):
        with pytest.raises(CoviewsError, match="2 of 41 images"):
            load_images(folder, max_broken=0.01, **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_broken": -0.1}, "0 to 1"),
        ({"max_broken": 1.5}, "0 to 1"),
        ({"max_broken": float("nan")}, "0 to 1"),
        ({"memory": -1}, "number of bytes"),
    ],
)
def test_wrong_options(options, says):
    with pytest.raises(CoviewsError, match=says):
        load_images("shapes:20", **options)


def test_a_subset_of_a_folder_decodes_nothing_else(folder, monkeypatch):
    looked, decoded = [], []
    header, picture = image_files.read_header, image_files.read_image
    monkeypatch.setattr(image_files, "read_header", lambda *a: looked.append(1) or header(*a))
    monkeypatch.setattr(image_files, "read_image", lambda *a: decoded.append(1) or picture(*a))
    made = load_images(folder, subset="10%", subset_seed=7)
    assert np.bincount(made.labels).tolist() == [2, 2]
    assert (len(looked), len(decoded)) == (4, 4)
    assert made.names == tuple(sorted(made.names))
    assert load_images(folder, subset=4, subset_seed=7).names == made.names
    assert load_images(folder, subset=4, subset_seed=8).names != made.names
    for image, name in zip(made.images, made.names, strict=True):
        assert np.array_equal(image, noise(int(name[2:4])))
