import os

import numpy as np
import pytest
from PIL import Image

from coviews import CoviewsError, load_images
from coviews.data import picture_reader


def noise(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (6, 5, 3), np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Six images in a folder beside the lists."""
    (tmp_path / "pics").mkdir()
    for i in range(6):
        Image.fromarray(noise(i)).save(tmp_path / "pics" / f"{i}.png")
    return tmp_path


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_text_list(folder):
    lines = [
        "# mine",
        "pics/2.png",
        "",
        "  pics/0.png  ",
        "   # not this",
        str(folder / "pics" / "5.png"),
        "pics/2.png",
    ]
    made = load_images(write(folder, "a.txt", "\r\n".join(lines)))
    assert np.array_equal(made.images, np.stack([noise(i) for i in (2, 0, 5, 2)]))
    assert made.names == ("pics/2.png", "pics/0.png", str(folder / "pics" / "5.png"), "pics/2.png")
    assert (made.labels, made.classes) == (None, None)


def test_relative_to_the_list_and_not_to_here(folder, monkeypatch):
    write(folder, "a.txt", "pics/1.png")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert np.array_equal(load_images("../a.txt").images[0], noise(1))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "pics/3.png,dog\npics/1.png,cat\npics/0.png,dog\n"),
        ("a.csv", "path,label\npics/3.png,dog\npics/1.png,cat\npics/0.png,dog\n"),
        ("a.csv", "\ufeffClass, Filename\ndog, pics/3.png\ncat, pics/1.png\ndog, pics/0.png\n"),
        ("a.csv", 'id,target,x,image\n1,dog,"a,b",pics/3.png\n\n2,cat,,pics/1.png\n3,dog,,"pics/0.png"\n'),
        ("a.csv", "img,breed\npics/3.png,dog\npics/1.png,cat\npics/0.png,dog\n"),
        ("a.csv", "breed,file\ndog,pics/3.png\ncat,pics/1.png\ndog,pics/0.png\n"),
        ("a.CSV", "pics/3.png,dog,9,9\npics/1.png,cat,9\npics/0.png,dog,9\n"),
        ("a.tsv", "file\tlabel\r\npics/3.png\tdog\r\npics/1.png\tcat\r\npics/0.png\tdog\r\n"),
    ],
)
def test_tables_with_labels(folder, name, text):
    made = load_images(write(folder, name, text))
    assert np.array_equal(made.images, np.stack([noise(i) for i in (3, 1, 0)]))
    assert made.classes == ("cat", "dog")
    assert made.labels.tolist() == [1, 0, 1]
    assert made.names == ("pics/3.png", "pics/1.png", "pics/0.png")


@pytest.mark.parametrize(
    "text", ["pics/3.png\npics/1.png\n", "path\npics/3.png\npics/1.png\n", "path,w,h\npics/3.png,5,6\npics/1.png,5,6\n"]
)
def test_tables_without_labels(folder, text):
    made = load_images(write(folder, "a.csv", text))
    assert made.names == ("pics/3.png", "pics/1.png")
    assert made.labels is None


def test_numbers_are_sorted_as_numbers(folder):
    made = load_images(write(folder, "a.csv", "pics/0.png,10\npics/1.png,9\npics/2.png,-1.5\npics/3.png,10\n"))
    assert made.classes == ("-1.5", "9", "10")
    assert made.labels.tolist() == [2, 1, 0, 2]
    made = load_images(write(folder, "b.csv", "pics/0.png,10\npics/1.png,9\npics/2.png,x\n"))
    assert made.classes == ("10", "9", "x")


def test_a_label_that_is_missing_is_said(folder):
    with pytest.warns(UserWarning, match="1 of 3 rows .* have no label"):
        made = load_images(write(folder, "a.csv", "pics/0.png,a\npics/1.png,\npics/2.png,b\n"))
    assert made.labels is None
    assert len(made) == 3


def test_missing_files_are_broken(folder):
    (folder / "pics" / "1.png").write_bytes(b"")
    path = write(folder, "a.csv", "pics/0.png,a\npics/none.png,b\npics/1.png,c\npics/2.png,b\npics,b\n")
    with pytest.warns(UserWarning, match=r"3 broken .*none\.png"):
        made = load_images(path)
    assert made.names == ("pics/0.png", "pics/2.png")
    assert made.labels.tolist() == [0, 1]
    assert made.classes == ("a", "b", "c")
    assert dict(made.broken) == {
        "pics/none.png": "No such file or directory",
        "pics/1.png": "an empty file",
        "pics": "not a regular file",
    }


def test_a_subset_of_a_list_decodes_nothing_else(folder, monkeypatch):
    rows = "".join(f"pics/{i}.png,{'ab'[i % 2]}\n" for i in range(6))
    opened = []
    monkeypatch.setattr(
        picture_reader.Image,
        "open",
        lambda file, *a, real=Image.open, **k: opened.append(file.name) or real(file, *a, **k),
    )
    made = load_images(write(folder, "a.csv", rows), subset=2, subset_seed=5)
    assert sorted(made.labels.tolist()) == [0, 1]
    assert {name.rsplit("/", 1)[1] for name in opened} == {name.rsplit("/", 1)[1] for name in made.names}


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.txt", "", "no image in .*a.txt"),
        ("a.txt", "# nothing\n\n", "no image in"),
        ("a.csv", "", "no image in"),
        ("a.csv", "path,label\n", "no image in"),
        ("a.csv", "path,label\npics/0.png,a\n,b\n", "line 3 of .*a.csv has no path"),
        ("a.csv", "label,path\na,pics/0.png\nb\n", "line 3"),
        ("a.csv", 'pics/0.png,"' + "x" * 200_000 + '"\n', "line 1 of .*a.csv"),
        ("a.txt", "none.png\nneither.png\n", r"no readable image in .*a.txt: none.png \(No such file"),
        ("a.txt", "bad\0name.png", "no readable image"),
    ],
)
def test_lists_that_are_wrong(folder, name, text, says):
    with pytest.raises(CoviewsError, match=says) as raised:
        load_images(write(folder, name, text))
    assert len(str(raised.value).splitlines()) == 1


def test_a_list_that_is_not_text(folder):
    (folder / "a.csv").write_bytes(b"\xff\xfe\x00pics")
    with pytest.raises(CoviewsError, match="not text in UTF-8"):
        load_images(folder / "a.csv")


def test_a_label_that_is_far_too_long(tmp_path):
    (tmp_path / "list.csv").write_text(f"a.png,{'x' * 20_000}\nb.png,y\n")
    with pytest.raises(CoviewsError, match="20,000 characters: at most 200"):
        load_images(tmp_path / "list.csv")


@pytest.mark.parametrize("name", ["list.txt", "list.csv", "images.npy", "images.npz", "image.png"])
def test_a_pipe_is_no_list_and_no_image(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(CoviewsError, match="not a regular file"):
        load_images(tmp_path / name)
    (tmp_path / "of_it.txt").write_text(name)
    with pytest.raises(CoviewsError, match="not a regular file"):
        load_images(tmp_path / "of_it.txt", frames="each")


def test_a_list_of_far_too_many_cells(tmp_path, monkeypatch):
    monkeypatch.setattr("coviews.data.lists._MOST_CELLS", 100)
    for name, text in (("a.txt", "a\n" * 101), ("a.csv", "a,b\r" * 60), ("b.csv", "a," * 101), ("a.tsv", "a\t" * 101)):
        with pytest.raises(CoviewsError, match="more than 100 lines and cells"):
            load_images(write(tmp_path, name, text))
