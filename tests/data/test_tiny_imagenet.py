"""TinyImageNet in its own layout, as a folder and as an archive."""

import hashlib
import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from coviews import CoviewsError, load_images
from coviews.data import image_reader
from coviews.data.known import tiny_imagenet
from coviews.data.known.sets import Download

WNIDS = ["n02000000", "n01000000", "n03000000"]  # not sorted, as in the original


def jpeg(seed: int) -> bytes:
    colours = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(colours).resize((64, 64)).save(file, "JPEG")
    return file.getvalue()


def pixels(content: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


@pytest.fixture(scope="module")
def files():
    """All files of a small TinyImageNet by name."""
    made = {
        "wnids.txt": "\n".join(WNIDS).encode(),
        "words.txt": "\n".join(f"{wnid}\tsome words, more words" for wnid in [*WNIDS, "n09999999"]).encode(),
    }
    for k, wnid in enumerate(WNIDS):
        for i in range(4):
            made[f"train/{wnid}/images/{wnid}_{i}.JPEG"] = jpeg(10 * k + i)
        made[f"train/{wnid}/{wnid}_boxes.txt"] = f"{wnid}_0.JPEG\t0\t0\t9\t9\n".encode()
    rows = []
    for i, wnid in enumerate([WNIDS[0], WNIDS[2], WNIDS[0]]):
        made[f"val/images/val_{i}.JPEG"] = jpeg(100 + i)
        rows.append(f"val_{i}.JPEG\t{wnid}\t0\t32\t44\t62\n")
    made["val/val_annotations.txt"] = "".join(rows).encode()
    made["test/images/test_0.JPEG"] = jpeg(200)
    return made


def as_folder(root, files):
    for name, content in files.items():
        path = root / "tiny-imagenet-200" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root / "tiny-imagenet-200"


def as_archive(root, files, prefix="tiny-imagenet-200/", more=()):
    root.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(root / "tiny-imagenet-200.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in [*((prefix + name, content) for name, content in files.items()), *more]:
            archive.writestr(name, content)
    return root / "tiny-imagenet-200.zip"


@pytest.fixture(params=["folder", "archive"])
def place(request, tmp_path, files):
    return (as_folder if request.param == "folder" else as_archive)(tmp_path / "data", files)


def check_train(made, files):
    names = sorted(name for name in files if name.startswith("train/") and name.endswith(".JPEG"))
    assert made.names == tuple(names)
    assert made.classes == tuple(sorted(WNIDS))
    assert [made.classes[label] for label in made.labels] == [name.split("/")[1] for name in names]
    assert np.array_equal(made.images, np.stack([pixels(files[name]) for name in names]))


def check_val(made, files):
    assert made.names == tuple(f"val/images/val_{i}.JPEG" for i in range(3))
    assert made.classes == tuple(sorted(WNIDS))
    assert [made.classes[label] for label in made.labels] == [WNIDS[0], WNIDS[2], WNIDS[0]]
    assert np.array_equal(made.images, np.stack([pixels(files[name]) for name in made.names]))


def test_by_path_and_by_name(place, files, tmp_path, monkeypatch):
    check_train(load_images(place), files)
    check_train(load_images(str(place)), files)
    check_train(load_images(f"{place}:train"), files)
    check_val(load_images(f"{place}:val"), files)
    check_train(load_images("tinyimagenet", root=tmp_path / "data"), files)
    check_val(load_images("tinyimagenet:val", root=tmp_path / "data"), files)
    monkeypatch.chdir(tmp_path)
    check_train(load_images("tinyimagenet:train"), files)
    assert len(load_images("tinyimagenet:train+val")) == 15
    with pytest.raises(CoviewsError, match=r"unknown split of .* 'vall': did you mean 'val'"):
        load_images(f"{place}:vall")
    with pytest.raises(CoviewsError, match="unknown split of tinyimagenet 'test'"):
        load_images("tinyimagenet:test")


def test_a_subset_decodes_nothing_else(place, monkeypatch):
    opened = []
    real = image_reader.read_image
    for module in ("image_files", "known.tiny_imagenet"):
        monkeypatch.setattr(f"coviews.data.{module}.read_image", lambda *a: opened.append(1) or real(*a))
    made = load_images(place, subset="50%")
    assert np.bincount(made.labels).tolist() == [2, 2, 2]
    assert len(opened) == 6


def test_what_is_missing_or_damaged_is_broken(tmp_path, files):
    val = {**files, "val/images/val_1.JPEG": files["val/images/val_1.JPEG"][:300]}
    del val["val/images/val_2.JPEG"]
    for place in (as_folder(tmp_path, val), as_archive(tmp_path, val)):
        with pytest.warns(UserWarning, match="2 broken"):
            made = load_images(f"{place}:val")
        assert made.names == ("val/images/val_0.JPEG",)
        assert {name for name, _ in made.broken} == {"val/images/val_1.JPEG", "val/images/val_2.JPEG"}


def test_damaged_bytes_in_an_archive_are_broken(tmp_path, files):
    place = as_archive(tmp_path, files)
    content = bytearray(place.read_bytes())
    with zipfile.ZipFile(place) as archive:
        entry = archive.getinfo("tiny-imagenet-200/train/n01000000/images/n01000000_2.JPEG")
    content[entry.header_offset + 200 : entry.header_offset + 210] = b"garbage..."
    place.write_bytes(content)
    with pytest.warns(UserWarning, match=r"1 broken .*n01000000_2\.JPEG"):
        assert len(load_images(place)) == 11


def test_names_in_an_archive_lead_nowhere(tmp_path, files):
    prefix = "tiny-imagenet-200/"
    traps = [
        ("../escaped.JPEG", jpeg(1)),
        (f"{prefix}train/../images/escaped.JPEG", jpeg(1)),
        (f"{prefix}train/n01000000/images/../../../../../escaped.JPEG", jpeg(1)),
        ("/absolute/escaped.JPEG", jpeg(1)),
    ]
    place = as_archive(tmp_path / "in" / "side", files, more=traps)
    before = sorted(tmp_path.rglob("*"))
    check_train(load_images(place), files)
    assert sorted(tmp_path.rglob("*")) == before
    bad = {**files, "val/val_annotations.txt": b"../../../secret.png\tn01000000\n"}
    (tmp_path / "x" / "secret.png").parent.mkdir()
    for place in (as_folder(tmp_path / "x" / "y", bad), as_archive(tmp_path / "x" / "y", bad)):
        with pytest.raises(CoviewsError, match=r"val_annotations\.txt in .* is damaged"):
            load_images(f"{place}:val")


def test_an_entry_that_would_fill_the_memory_is_not_read(tmp_path, files, monkeypatch):
    monkeypatch.setattr(tiny_imagenet, "_LARGEST", 100_000)
    name = "train/n01000000/images/n01000000_0.JPEG"
    place = as_archive(tmp_path, {**files, name: files[name] + bytes(10**6)})
    with pytest.warns(UserWarning, match=r"1 broken .*too large for an image"):
        assert len(load_images(place)) == 11


@pytest.mark.parametrize("prefix", ["", "other/"])
def test_archives_with_another_folder_in_them(tmp_path, files, prefix):
    check_train(load_images(as_archive(tmp_path, files, prefix)), files)


def test_other_archives_and_folders(tmp_path, files):
    with zipfile.ZipFile(tmp_path / "mine.zip", "w") as archive:
        archive.writestr("a.png", b"")
    with pytest.raises(CoviewsError, match=r"mine\.zip is not TinyImageNet's archive.*unpack it first"):
        load_images(tmp_path / "mine.zip")
    (tmp_path / "bad.zip").write_bytes(as_archive(tmp_path, files).read_bytes()[:1000])
    with pytest.raises(CoviewsError, match=r"cannot read the archive .*bad\.zip"):
        load_images(tmp_path / "bad.zip")
    place = as_folder(tmp_path, files)
    assert load_images(place / "train").classes == tuple(sorted(WNIDS))  # as any folder
    (place / "val" / "val_annotations.txt").unlink()
    with pytest.raises(CoviewsError, match=r"there is no file .*val_annotations\.txt"):
        load_images(f"{place}:val")
    (place / "wnids.txt").unlink()
    assert load_images(place).classes == tuple(sorted(WNIDS))  # no longer TinyImageNet, but a folder of splits
    with pytest.raises(CoviewsError, match="no file or folder"):
        load_images(f"{place}:val")


def test_the_archive_is_downloaded(tmp_path, files, monkeypatch):
    server = as_archive(tmp_path / "server", files)
    md5 = hashlib.md5(server.read_bytes()).hexdigest()
    monkeypatch.setattr(tiny_imagenet, "DOWNLOAD", Download(server.as_uri(), md5))
    root = tmp_path / "root"
    check_train(load_images("tinyimagenet", root=root, download=True), files)
    server.unlink()
    check_val(load_images("tinyimagenet:val", root=root, download=True), files)
    assert [path.name for path in root.iterdir()] == ["tiny-imagenet-200.zip"]


def test_an_archive_can_be_cached(tmp_path, files, monkeypatch):
    place = as_archive(tmp_path, files)
    with pytest.warns(UserWarning, match="decoded into"):
        check_train(load_images(place, memory=0, cache=tmp_path / "cache"), files)
    monkeypatch.setattr("coviews.data.picture_reader.Image.open", None)  # nothing is decoded any more
    made = load_images(place, memory=0, cache=tmp_path / "cache")
    assert isinstance(made.images, np.memmap)
    assert len(made) == 12


def test_an_archive_of_another_version_is_an_error(tmp_path, files):
    place = as_archive(tmp_path, files)
    content = bytearray(place.read_bytes())
    content[content.index(b"PK\x01\x02") + 6] = 255
    place.write_bytes(content)
    with pytest.raises(CoviewsError, match="cannot read the archive"):
        load_images(place)
