"""Data sets with a name, on small files in the true formats. Nothing here reaches the network."""

import hashlib
import io
import os
import pickle
import struct
import subprocess
import sys
import tarfile
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.io

from coviews import CoviewsError, load_images
from coviews.data.known import download
from coviews.data.known import sets as known_sets
from coviews.data.known.sets import KNOWN_SETS

TEN = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Only files of this machine may be opened by an address."""
    real = download.urllib.request.urlopen

    def only_files(url, *args, **options):
        assert url.startswith("file://"), url
        return real(url, *args, **options)

    monkeypatch.setattr(download.urllib.request, "urlopen", only_files)


def noise(n, side, seed):
    return np.random.default_rng(seed).integers(0, 256, (n, side, side, 3), np.uint8)


# ------------------------------------------------------------------------------------------- the formats


class Python2:
    """Writes a pickle as Python 2 and the NumPy of its time did, which is what CIFAR's files are."""

    def dumps(self, value):
        return b"\x80\x02" + self.written(value) + b"."

    def written(self, value):
        if isinstance(value, str):
            return b"T" + struct.pack("<i", len(value)) + value.encode()
        if isinstance(value, int):
            return b"J" + struct.pack("<i", value)
        if isinstance(value, list):
            return b"](" + b"".join(map(self.written, value)) + b"e"
        if isinstance(value, dict):
            return b"}(" + b"".join(self.written(k) + self.written(v) for k, v in value.items()) + b"u"
        assert value.dtype == np.uint8
        made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        shape = b"M" + struct.pack("<H", value.shape[0]) + b"M" + struct.pack("<H", value.shape[1]) + b"\x86"
        content = value.tobytes()
        return made + b"(K\x01" + shape + kind + b"\x89T" + struct.pack("<i", len(content)) + content + b"tb"


def python3(value):
    return pickle.dumps(value, protocol=2)


WRITERS = [Python2().dumps, python3, pickle.dumps]


def rows(images):
    """(n, 32, 32, 3) as CIFAR stores it: (n, 3072), red first."""
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2).reshape(len(images), -1))


def write_cifar10(root, write=WRITERS[0], n=4):
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True, exist_ok=True)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    images, labels = noise(6 * n, 32, 1), [(3 * i) % 10 for i in range(6 * n)]
    for i, name in enumerate(names):
        part = slice(i * n, (i + 1) * n)
        files = [f"{k}.png" for k in range(n)]
        batch = {"batch_label": name, "labels": labels[part], "data": rows(images[part]), "filenames": files}
        (folder / name).write_bytes(write(batch))
    meta = {"num_cases_per_batch": n, "label_names": TEN, "num_vis": 3072}
    (folder / "batches.meta").write_bytes(write(meta))
    return (images[: 5 * n], labels[: 5 * n]), (images[5 * n :], labels[5 * n :])


def write_cifar100(root):
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    images = noise(8, 32, 2)
    fine = [99, 0, 5, 5, 17, 3, 2, 1]
    for name, part in (("train", slice(0, 6)), ("test", slice(6, 8))):
        coarse = [0] * len(fine[part])
        content = {"fine_labels": fine[part], "coarse_labels": coarse, "data": rows(images[part])}
        (folder / name).write_bytes(Python2().dumps(content))
    names = {"fine_label_names": [f"fine{i}" for i in range(100)], "coarse_label_names": ["c"] * 20}
    (folder / "meta").write_bytes(Python2().dumps(names))
    return images, fine


def write_svhn(root):
    root.mkdir(parents=True, exist_ok=True)
    images = noise(9, 32, 3)
    digits = [0, 1, 9, 0, 5, 7, 8, 2, 3]
    for name, part in (("train", slice(0, 4)), ("test", slice(4, 6)), ("extra", slice(6, 9))):
        labels = np.array([[digit or 10] for digit in digits[part]], np.uint8)
        scipy.io.savemat(root / f"{name}_32x32.mat", {"X": images[part].transpose(1, 2, 3, 0), "y": labels})
    return images, digits


def write_stl10(root):
    folder = root / "stl10_binary"
    folder.mkdir(parents=True)
    images = noise(9, 96, 4)
    labels = [3, 0, 9, 9, 1]
    for name, part in (("train", slice(0, 3)), ("test", slice(3, 5)), ("unlabeled", slice(5, 9))):
        (folder / f"{name}_X.bin").write_bytes(images[part].transpose(0, 3, 2, 1).tobytes())  # column by column
        if name != "unlabeled":
            (folder / f"{name}_y.bin").write_bytes(bytes(label + 1 for label in labels[part]))
    (folder / "class_names.txt").write_text("\n".join(TEN) + "\n")
    return images, labels


@pytest.mark.parametrize("write", WRITERS)
def test_cifar10(tmp_path, write):
    (images, labels), (test_images, test_labels) = write_cifar10(tmp_path, write)
    made = load_images("cifar10", root=tmp_path)
    assert np.array_equal(made.images, images)
    assert made.images.flags.c_contiguous
    assert made.labels.tolist() == labels
    assert made.classes == tuple(TEN)
    assert np.array_equal(load_images("cifar10:train", root=str(tmp_path)).images, images)
    test = load_images("cifar10:test", root=tmp_path)
    assert np.array_equal(test.images, test_images)
    assert test.labels.tolist() == test_labels
    both = load_images("cifar10:test+train", root=tmp_path)
    assert np.array_equal(both.images, np.concatenate([test_images, images]))
    assert both.labels.tolist() == test_labels + labels


def test_python2_pickles_are_what_pickle_reads(tmp_path):
    """The test's own writer is right: NumPy makes the same array of it."""
    images = rows(noise(2, 32, 0))
    content = pickle.loads(Python2().dumps({"data": images, "labels": [1, 300]}), encoding="latin1")
    assert np.array_equal(content["data"], images)
    assert content["labels"] == [1, 300]


def test_cifar_by_columns(tmp_path):
    (images, _), _ = write_cifar10(tmp_path, lambda value: pickle.dumps(by_columns(value), protocol=2))
    assert np.array_equal(load_images("cifar10", root=tmp_path).images, images)


def by_columns(value):
    return {k: np.asfortranarray(v) if isinstance(v, np.ndarray) else v for k, v in value.items()}


def test_cifar100(tmp_path):
    images, fine = write_cifar100(tmp_path)
    made = load_images("cifar100", root=tmp_path)
    assert np.array_equal(made.images, images[:6])
    assert made.labels.tolist() == fine[:6]
    assert made.classes[99] == "fine99"
    test = load_images("cifar100:test", root=tmp_path)
    assert np.array_equal(test.images, images[6:])
    assert test.labels.tolist() == fine[6:]
    assert test.classes == made.classes


def test_svhn(tmp_path):
    images, digits = write_svhn(tmp_path)
    for name, part in (("svhn", slice(0, 4)), ("svhn:test", slice(4, 6)), ("svhn:extra", slice(6, 9))):
        made = load_images(name, root=tmp_path)
        assert np.array_equal(made.images, images[part])
        assert made.images.flags.c_contiguous
        assert made.labels.tolist() == digits[part]
        assert made.classes == tuple("0123456789")
    more = load_images("svhn:train+extra", root=tmp_path)
    assert np.array_equal(more.images, images[[0, 1, 2, 3, 6, 7, 8]])


def test_stl10(tmp_path):
    images, labels = write_stl10(tmp_path)
    train = load_images("stl10", root=tmp_path)
    assert np.array_equal(train.images, images[:3])
    assert train.images.flags.c_contiguous
    assert train.labels.tolist() == labels[:3]
    assert train.classes == tuple(TEN)
    test = load_images("stl10:test", root=tmp_path)
    assert np.array_equal(test.images, images[3:5])
    assert test.labels.tolist() == labels[3:]
    unlabeled = load_images("stl10:unlabeled", root=tmp_path)
    assert np.array_equal(unlabeled.images, images[5:])
    assert (unlabeled.labels, unlabeled.classes) == (None, None)
    both = load_images("stl10:train+unlabeled", root=tmp_path)
    assert np.array_equal(both.images, images[[0, 1, 2, 5, 6, 7, 8]])
    assert both.labels is None


def test_options_work_on_known_sets(tmp_path):
    write_stl10(tmp_path)
    write_cifar10(tmp_path)
    some = load_images("cifar10", root=tmp_path, subset="50%", subset_seed=1, size=16, channels=1)
    assert some.images.shape == (10, 16, 16, 1)
    assert np.bincount(some.labels, minlength=10).tolist() == [1] * 10
    held = load_images("stl10:unlabeled", root=tmp_path, memory=10**9, cache=tmp_path / "cache")
    with pytest.warns(UserWarning, match="more than the 10 bytes of memory"):
        mapped = load_images("stl10:unlabeled", root=tmp_path, memory=10, cache=tmp_path / "cache")
    assert isinstance(mapped.images, np.memmap)
    assert np.array_equal(mapped.images, held.images)


def test_the_files_and_addresses_are_those_of_torchvision():
    """So that what torchvision has downloaded is found, and the other way round."""
    from coviews.compat import import_torchvision

    import_torchvision()
    from torchvision.datasets import CIFAR10, CIFAR100, STL10, SVHN

    for name, theirs in (("cifar10", CIFAR10), ("cifar100", CIFAR100), ("stl10", STL10)):
        ours = KNOWN_SETS[name]
        assert {(d.url, d.md5) for d in ours.downloads.values()} == {(theirs.url, theirs.tgz_md5)}
        listed = {f"{theirs.base_folder}/{file}" for file, _ in theirs.train_list + theirs.test_list}
        assert {file for files in ours.splits.values() for file in files} == listed
    for split, (url, file, md5) in SVHN.split_list.items():
        ours = KNOWN_SETS["svhn"]
        assert (ours.downloads[split].url, ours.downloads[split].md5, list(ours.splits[split])) == (url, md5, [file])


# -------------------------------------------------------------------------------------- names and absence


def test_names_that_are_almost_right(tmp_path):
    for wrong, right in (("cifar-10", "cifar10"), ("CIFAR100", "cifar100"), ("tiny-imagenet", "tinyimagenet")):
        with pytest.raises(CoviewsError, match=f"did you mean '{right}'"):
            load_images(wrong, root=tmp_path)
    with pytest.raises(CoviewsError, match="did you mean 'svhn'"):
        load_images("svnh:test", root=tmp_path)
    with pytest.raises(CoviewsError, match="unknown split of cifar10 'tests': did you mean 'test'"):
        load_images("cifar10:tests", root=tmp_path)
    with pytest.raises(CoviewsError, match="unknown split of cifar10 ''"):
        load_images("cifar10:", root=tmp_path)
    with pytest.raises(CoviewsError, match="unknown split of stl10 'labeled'"):
        load_images("stl10:train+labeled", root=tmp_path)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cifar10", r"no cifar-10-batches-py/data_batch_1 and 5 more.*--download.*put cifar-10-python\.tar\.gz"),
        ("svhn:extra", r"no extra_32x32\.mat\. .*--download.*put extra_32x32\.mat"),
        ("stl10:unlabeled", "no stl10_binary/unlabeled_X.bin"),
        ("tinyimagenet", r"no tiny-imagenet-200 and no tiny-imagenet-200\.zip.*--download"),
    ],
)
def test_what_is_not_there_is_said(tmp_path, name, says):
    with pytest.raises(CoviewsError, match=says) as raised:
        load_images(name, root=tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_a_name_is_never_a_path(tmp_path, monkeypatch):
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    (tmp_path / "cifar10").mkdir()
    Image.fromarray(noise(1, 9, 0)[0]).save(tmp_path / "cifar10" / "a.png")
    (images, _), _ = write_cifar10(tmp_path / "data")
    with pytest.warns(UserWarning, match="write './cifar10'"):
        assert np.array_equal(load_images("cifar10").images, images)
    assert load_images("./cifar10").names == ("a.png",)
    assert load_images(tmp_path / "cifar10").names == ("a.png",)


# -------------------------------------------------------------------------------------- files of strangers


class Payload:
    """What runs code when it is unpickled."""

    def __init__(self, target):
        self.target = str(target)

    def __reduce__(self):
        return os.mkdir, (self.target,)


def hostile(tmp_path):
    """Pickles that run code, each in another way."""
    target = str(tmp_path / "hacked").encode()
    call = b"(S'" + target + b"'\n"
    yield pickle.dumps({"labels": Payload(tmp_path / "hacked"), "data": 1})
    yield pickle.dumps(Payload(tmp_path / "hacked"), protocol=0)
    yield b"cos\nmkdir\n" + call + b"tR."
    yield b"(ios\nmkdir\nS'" + target + b"'\n."
    yield b"\x80\x04\x8c\x05posix\x8c\x05mkdir\x93" + call + b"tR."
    yield b'cbuiltins\neval\n(S\'__import__("os").mkdir("' + target + b"\")'\ntR."
    yield b"cnumpy\nndarray.__class__.__base__\n."
    yield b"\x80\x04\x8c\x05numpy\x8c\x0bf2py.crackfo\x93."
    yield b"\x82\x01."  # by a number in Python's list of extensions
    yield b"cbuiltins\ngetattr\n(cnumpy\ndtype\nS'mro'\ntR."


def test_a_hostile_batch_is_not_executed(tmp_path):
    for i, content in enumerate(hostile(tmp_path)):
        write_cifar10(tmp_path)
        for name in ("data_batch_2", "batches.meta"):
            (tmp_path / "cifar-10-batches-py" / name).write_bytes(content)
        with pytest.raises(CoviewsError, match=r"cannot read .*(is not data|damaged)") as raised:
            load_images("cifar10", root=tmp_path)
        assert len(str(raised.value).splitlines()) == 1
        assert not (tmp_path / "hacked").exists(), i
    pickle.loads(next(hostile(tmp_path)))  # the payload is a real one
    assert (tmp_path / "hacked").exists()


@pytest.mark.parametrize(
    "content",
    [
        {"labels": [0, 1, 2, 3]},
        {"data": np.zeros((4, 3072), np.uint8)},
        {"data": np.zeros((3, 3072), np.uint8), "labels": [0, 1, 2, 3]},
        {"data": np.zeros((4, 3072), np.int64), "labels": [0, 1, 2, 3]},
        {"data": b"abc", "labels": [0]},
        {"data": np.zeros((4, 3072), np.uint8), "labels": ["a"] * 4},
        {"data": np.zeros((4, 3072), np.uint8), "labels": [10**30] * 4},
        {"data": np.zeros((4, 3072), np.uint8), "labels": [0, 1, 2, 10]},
        [1, 2, 3],
    ],
)
def test_batches_that_are_wrong(tmp_path, content):
    write_cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").write_bytes(python3(content))
    with pytest.raises(CoviewsError, match=r"data_batch_3|labels beyond"):
        load_images("cifar10", root=tmp_path)


def test_damaged_files_are_named(tmp_path):
    write_cifar10(tmp_path)
    write_svhn(tmp_path)
    write_stl10(tmp_path)
    stl = tmp_path / "stl10_binary"
    for path, name in (
        (tmp_path / "cifar-10-batches-py" / "data_batch_4", "cifar10"),
        (tmp_path / "train_32x32.mat", "svhn"),
        (stl / "unlabeled_X.bin", "stl10:unlabeled"),
        (stl / "train_y.bin", "stl10"),
    ):
        whole = path.read_bytes()
        for left in (0, len(whole) // 3, len(whole) * 4 // 5):
            path.write_bytes(whole[:left])
            with pytest.raises(CoviewsError, match=path.name):
                load_images(name, root=tmp_path)
    scipy.io.savemat(tmp_path / "train_32x32.mat", {"X": np.zeros((32, 32, 3, 2)), "y": np.ones((2, 1))})
    with pytest.raises(CoviewsError, match=r"train_32x32\.mat is not a file of SVHN: X is float64"):
        load_images("svhn", root=tmp_path)
    scipy.io.savemat(tmp_path / "train_32x32.mat", {"X": np.zeros((32, 32, 3, 1), np.uint8), "y": [[77]]})
    with pytest.raises(CoviewsError, match="other labels"):
        load_images("svhn", root=tmp_path)


def test_known_sets_do_not_import_torch(tmp_path):
    write_cifar10(tmp_path)
    code = (
        f"import sys, coviews; coviews.load_images('cifar10', root={str(tmp_path)!r}); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---------------------------------------------------------------------------------------------- downloads


def archive_of(folder, target, *, more=()):
    """A .tar.gz as the authors publish it, at an address of this machine."""
    with tarfile.open(target, "w:gz") as tar:
        for name, content in more:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        tar.add(folder, folder.name)
    return target.as_uri(), hashlib.md5(target.read_bytes()).hexdigest()


def published(monkeypatch, name, url, md5):
    known = KNOWN_SETS[name]
    come = dict.fromkeys(known.downloads, known_sets.Download(url, md5))
    monkeypatch.setitem(KNOWN_SETS, name, replace(known, downloads=come))


def test_download_once_and_then_never_again(tmp_path, monkeypatch, capsys):
    (images, _), (test_images, _) = write_cifar10(tmp_path / "server")
    traps = [("../escaped", b"x"), ("/tmp/coviews-escaped", b"x"), ("cifar-10-batches-py/../../escaped", b"x")]
    server = tmp_path / "server" / "cifar-10-python.tar.gz"
    published(monkeypatch, "cifar10", *archive_of(tmp_path / "server" / "cifar-10-batches-py", server, more=traps))
    root = tmp_path / "a" / "root"
    made = load_images("cifar10", root=root, download=True, progress=True)
    assert "downloading file://" in capsys.readouterr().err
    assert np.array_equal(made.images, images)
    server.unlink()
    assert np.array_equal(load_images("cifar10:test", root=root, download=True).images, test_images)
    assert [path.name for path in root.iterdir()] == ["cifar-10-batches-py"]  # neither the archive nor anything else
    assert not (tmp_path / "a" / "escaped").exists()
    assert not (tmp_path / "escaped").exists()
    assert not os.path.exists("/tmp/coviews-escaped")


def test_an_archive_in_the_root_is_unpacked_and_kept(tmp_path):
    (images, _), _ = write_cifar10(tmp_path / "server")
    root = tmp_path / "root"
    root.mkdir()
    archive_of(tmp_path / "server" / "cifar-10-batches-py", root / "cifar-10-python.tar.gz")
    assert np.array_equal(load_images("cifar10", root=root).images, images)
    assert (root / "cifar-10-python.tar.gz").exists()


def test_links_in_an_archive_are_not_followed(tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as tar:
        for name in ("data_batch_1", "batches.meta"):
            link = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
            tar.addfile(link)
    with pytest.raises(CoviewsError, match="data_batch_1 and 5 more"):
        load_images("cifar10", root=tmp_path)
    assert not (tmp_path / "cifar-10-batches-py").exists()


def test_single_files_are_downloaded_for_their_split_only(tmp_path, monkeypatch):
    images, _ = write_svhn(tmp_path / "server")
    server = tmp_path / "server" / "test_32x32.mat"
    published(monkeypatch, "svhn", server.as_uri(), hashlib.md5(server.read_bytes()).hexdigest())
    made = load_images("svhn:test", root=tmp_path / "root", download=True)
    assert np.array_equal(made.images, images[4:6])
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["test_32x32.mat"]


def test_downloads_that_fail_leave_nothing(tmp_path, monkeypatch):
    write_svhn(tmp_path / "server")
    root, server = tmp_path / "root", tmp_path / "server" / "train_32x32.mat"
    published(monkeypatch, "svhn", server.as_uri(), "0" * 32)
    with pytest.raises(CoviewsError, match="not the file that is known"):
        load_images("svhn", root=root, download=True)
    published(monkeypatch, "svhn", (tmp_path / "server" / "train_none.mat").as_uri(), "0" * 32)
    with pytest.raises(CoviewsError, match=r"cannot download file://.*No such file"):
        load_images("svhn", root=root, download=True)
    assert list(root.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(CoviewsError, match="cannot download"):
        load_images("svhn", root=tmp_path / "file" / "below", download=True)


def test_a_damaged_archive_is_said(tmp_path):
    write_cifar10(tmp_path / "server")
    archive = tmp_path / "cifar-10-python.tar.gz"
    archive_of(tmp_path / "server" / "cifar-10-batches-py", archive)
    archive.write_bytes(archive.read_bytes()[:2000])
    with pytest.raises(CoviewsError, match=r"cannot unpack .*cifar-10-python\.tar\.gz"):
        load_images("cifar10", root=tmp_path)
    assert not list(tmp_path.rglob("*.partial"))


def test_files_that_ask_for_far_more_memory_than_they_have_bytes(tmp_path):
    write_cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"\x80\x02]r\x00\x00\x00\x08.")  # memory for 2 GB
    tracemalloc.start()
    with pytest.raises(CoviewsError, match="not a file of CIFAR, or damaged"):
        load_images("cifar10", root=tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()
    empty = {"X": np.zeros((32, 32, 3, 2000), np.uint8), "y": np.ones((2000, 1), np.uint8)}
    scipy.io.savemat(tmp_path / "train_32x32.mat", empty, do_compression=True)
    with pytest.raises(CoviewsError, match="larger than a file of this size should hold"):
        load_images("svhn", root=tmp_path)
