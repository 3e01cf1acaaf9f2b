import os
import warnings

import numpy as np
import pytest
from PIL import Image, ImageOps

from coviews import CoviewsError
from coviews.console import progress as late_bar
from coviews.data import image_files, parallel
from coviews.data.load import ImageSet, load_images
from coviews.data.shapes.draw import SHAPE_CLASSES, make_shapes

# mode, and a file format that keeps it
MODES = [
    ("RGB", "png"), ("RGBA", "png"), ("P", "png"), ("L", "png"), ("LA", "png"), ("1", "png"), ("L", "tiff"),
    ("RGB", "tiff"), ("RGBA", "tiff"), ("P", "tiff"), ("1", "tiff"),
    ("CMYK", "tiff"), ("CMYK", "jpg"), ("RGB", "jpg"), ("YCbCr", "jpg"),
    ("RGB", "bmp"), ("P", "gif"), ("RGBA", "webp"),
]  # fmt: skip
TURNS = [  # how an image is set upright, for the EXIF orientations 1 to 8
    lambda a: a,
    np.fliplr,
    lambda a: np.rot90(a, 2),
    np.flipud,
    np.transpose,
    lambda a: np.rot90(a, -1),
    lambda a: np.rot90(a, 2).T,
    np.rot90,
]
GREY = ("L", "LA", "1")


def noise(h: int = 12, w: int = 9, c: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (h, w, c), np.uint8)


def picture(mode: str = "RGB", h: int = 12, w: int = 9, seed: int = 0) -> Image.Image:
    colours = Image.fromarray(noise(h, w, 3, seed))
    match mode:
        case "RGBA" | "LA":
            made = colours.convert(mode)
            made.putalpha(Image.fromarray(noise(h, w, 1, seed + 1)[..., 0]))
            return made
        case _:
            return colours.convert(mode)


def save(path, mode: str = "RGB", h: int = 12, w: int = 9, seed: int = 0, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(mode, h, w, seed).save(path, **options)
    return path


# ---------------------------------------------------------------------------------------- conversion


@pytest.mark.parametrize(("mode", "extension"), MODES)
@pytest.mark.parametrize("channels", [None, 1, 3])
def test_each_kind_of_file_is_converted_as_pillow_does(tmp_path, mode, extension, channels):
    path = save(tmp_path / f"a.{extension}", mode)
    with Image.open(path) as opened:
        grey = opened.mode in GREY
        assert grey == (mode in GREY), f"{extension} did not keep {mode}"
        expected = opened.convert("L") if grey or channels == 1 else opened.convert("RGB")
    if channels == 3:
        expected = expected.convert("RGB")
    made = load_images(path, channels=channels).images
    assert made.dtype == np.uint8
    assert made.flags.c_contiguous
    assert made.shape == (1, 12, 9, 1 if expected.mode == "L" else 3)
    assert np.array_equal(made[0].squeeze(), np.asarray(expected))


def test_transparent_palette_gives_the_colours_without_a_warning(tmp_path):
    path = save(tmp_path / "a.png", "P", transparency=bytes(range(256)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = load_images(path).images[0]
    assert np.array_equal(made, np.asarray(picture("P").convert("RGB")))


def test_grey_stays_grey_only_if_all_images_are(tmp_path):
    save(tmp_path / "a.png", "L")
    save(tmp_path / "b.png", "LA")
    assert load_images(tmp_path).images.shape == (2, 12, 9, 1)
    assert load_images(tmp_path, channels=3).images.shape == (2, 12, 9, 3)
    save(tmp_path / "c.png", "RGB")
    made = load_images(tmp_path).images
    assert made.shape == (3, 12, 9, 3)
    assert np.array_equal(made[0], np.asarray(picture("L").convert("RGB")))


@pytest.mark.parametrize("extension", ["jpg", "png", "tiff"])
@pytest.mark.parametrize(("orientation", "turn"), list(enumerate(TURNS, 1)))
def test_orientation_of_a_camera_is_applied(tmp_path, extension, orientation, turn):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(tmp_path / f"a.{extension}", "L", 12, 8, exif=exif)
    stored = np.asarray(Image.open(path) if extension == "jpg" else picture("L", 12, 8))
    assert np.array_equal(load_images(path).images[0, ..., 0], turn(stored))


@pytest.mark.parametrize("exif", [b"Exif\0\0no header", b"Exif\0\0MM\0*"])
def test_an_image_with_damaged_exif_is_still_an_image(tmp_path, exif):
    path = save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(load_images(path).images[0], noise())


# ------------------------------------------------------------------------------------------- folders


def test_folder_in_any_nesting_sorted_with_labels(tmp_path):
    for i, name in enumerate(["b/2.png", "b/10.PNG", "a/deep/er/x.png", "c/z.png"]):
        save(tmp_path / name, seed=i)
    (tmp_path / "b" / "notes.txt").write_text("not an image, and not said to be one")
    for hidden in (".hidden.png", "b/._2.png", ".cache/x.png"):
        save(tmp_path / hidden)
    made = load_images(tmp_path)
    assert made.names == ("a/deep/er/x.png", "b/10.PNG", "b/2.png", "c/z.png")
    assert made.classes == ("a", "b", "c")
    assert made.labels is not None
    assert made.labels.dtype == np.int64
    assert made.labels.tolist() == [0, 1, 1, 2]
    assert made.broken == ()
    assert len(made) == 4
    for image, seed in zip(made.images, [2, 1, 0, 3], strict=True):
        assert np.array_equal(image, noise(seed=seed))


@pytest.mark.parametrize("names", [["a.png", "b.png"], ["x/a.png", "x/b.png"], ["x/a.png", "y/b.png", "c.png"]])
def test_no_labels_without_several_sub_folders_that_hold_everything(tmp_path, names):
    for name in names:
        save(tmp_path / name)
    made = load_images(str(tmp_path))
    assert made.labels is None
    assert made.classes is None
    assert len(made) == len(names)


def test_links_are_followed_and_loops_end(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "data"
    save(outside / "o.png")
    save(folder / "real" / "r.png")
    (folder / "linked").symlink_to(outside)
    for link in ("again", "zagain"):  # reached by its real name too, which is the one that counts
        (folder / link).symlink_to(folder / "real")
    (folder / "real" / "up").symlink_to(folder)
    (folder / "self.png").symlink_to(folder / "self.png")
    (folder / "dead.png").symlink_to(folder / "nothing.png")
    with pytest.warns(UserWarning, match="2 broken"):
        made = load_images(folder)
    assert made.names == ("linked/o.png", "real/r.png")
    assert dict(made.broken)["dead.png"] == os.strerror(2)
    assert dict(made.broken).keys() == {"dead.png", "self.png"}


def test_limit_is_spread_evenly(tmp_path):
    for i in range(12):
        save(tmp_path / "abc"[i // 4] / f"{i:02}.png", seed=i)
    made = load_images(tmp_path, limit=3)
    assert made.names == ("a/00.png", "b/04.png", "c/08.png")
    assert made.classes == ("a", "b", "c")
    assert np.array_equal(made.images[2], noise(seed=8))
    assert len(load_images(tmp_path, limit=99)) == 12
    array = np.stack([noise(seed=i) for i in range(12)])
    assert np.array_equal(load_images(array, limit=3).images, array[[0, 4, 8]])


def test_many_files_keep_their_order(tmp_path):
    many = 5 * parallel._BLOCK + 3
    for i in range(many):
        Image.new("L", (4, 4), i % 256).save(tmp_path / f"{i:04}.png")
    made = load_images(tmp_path)
    assert made.images[:, 0, 0, 0].tolist() == [i % 256 for i in range(many)]


# --------------------------------------------------------------------------------------------- sizes


def test_other_sizes_become_the_most_common_one_and_it_is_said_once(tmp_path):
    save(tmp_path / "a.png", h=12, w=9)
    save(tmp_path / "b.png", h=30, w=20, seed=1)
    save(tmp_path / "c.png", h=12, w=9, seed=2)
    with pytest.warns(UserWarning, match="1 of 3 images .* 12 x 9") as said:
        made = load_images(tmp_path)
    assert len(said) == 1
    assert said[0].filename == __file__
    assert np.array_equal(made.images[0], noise(seed=0))
    assert np.array_equal(made.images[2], noise(seed=2))
    fitted = ImageOps.fit(picture(h=30, w=20, seed=1), (9, 12), Image.Resampling.BILINEAR)
    assert np.array_equal(made.images[1], np.asarray(fitted))


@pytest.mark.parametrize("size", [7, (10, 16)])
def test_a_wanted_size_needs_no_warning(tmp_path, size):
    save(tmp_path / "a.png", h=12, w=9)
    save(tmp_path / "b.png", h=30, w=20, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = load_images(tmp_path, size=size).images
    h, w = (size, size) if isinstance(size, int) else size
    fitted = ImageOps.fit(picture(h=30, w=20, seed=1), (w, h), Image.Resampling.BILINEAR)
    assert made.shape == (2, h, w, 3)
    assert np.array_equal(made[1], np.asarray(fitted))


def test_resizing_keeps_the_aspect_and_the_middle():
    wide = np.zeros((1, 10, 30, 1), np.uint8)
    wide[:, :, 10:20] = 200
    assert np.all(load_images(wide, size=10).images == 200)


def test_among_equally_common_sizes_the_middle_one(tmp_path):
    for i, side in enumerate((4, 100, 20)):
        save(tmp_path / f"{i}.png", h=side, w=side)
    with pytest.warns(UserWarning, match="20 x 20"):
        assert load_images(tmp_path).images.shape[1:3] == (20, 20)


# -------------------------------------------------------------------------------------- broken files


def test_broken_files_are_named_skipped_counted_and_said_once(tmp_path, monkeypatch):
    for i in range(3):
        save(tmp_path / f"good{i}.png", seed=i)
    whole = (tmp_path / "good1.png").read_bytes()
    (tmp_path / "good0-cut.png").write_bytes(whole[: len(whole) // 2])  # its header is whole
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.jpg").write_text("no image at all")
    os.mkfifo(tmp_path / "pipe.png")
    save(tmp_path / "bomb.png", h=40, w=40)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 700)
    with pytest.warns(UserWarning, match=r"5 broken and skipped .*empty\.png.* and 2 more") as said:
        made = load_images(tmp_path)
    assert len(said) == 1
    assert made.names == ("good0.png", "good1.png", "good2.png")
    assert np.array_equal(made.images, np.stack([noise(seed=i) for i in range(3)]))
    assert made.images.flags.c_contiguous
    reasons = dict(made.broken)
    assert len(made.broken) == len(reasons) == 5
    assert reasons["empty.png"] == "an empty file"
    assert reasons["text.jpg"] == "not an image"
    assert reasons["pipe.png"] == "not a regular file"
    assert "decompression bomb" in reasons["bomb.png"]
    assert "good0-cut.png" in reasons


def test_a_folder_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    save(tmp_path / "a" / "a.png")
    save(tmp_path / "secret" / "b.png")
    scandir = os.scandir

    def refuse(folder):
        if str(folder).endswith("secret"):
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(image_files.os, "scandir", refuse)
    with pytest.warns(UserWarning, match="secret.*Permission denied"):
        made = load_images(tmp_path)
    assert made.names == ("a/a.png",)
    assert made.broken == (("secret/", "Permission denied"),)


def test_programs_and_films_are_not_opened(tmp_path):
    """PostScript would be run by another program, whatever the file is called."""
    save(tmp_path / "a.png")
    picture().save(tmp_path / "b.png", format="EPS")
    picture().save(tmp_path / "c.eps")
    with pytest.warns(UserWarning, match=r"1 broken .*b\.png \(not an image\)"):
        assert load_images(tmp_path).names == ("a.png",)
    assert {".png", ".jpg", ".jpeg", ".tif", ".webp", ".bmp", ".gif"} <= image_files.extensions()
    assert not {".eps", ".mpg", ".pdf", ".h5"} & image_files.extensions()


# ------------------------------------------------------------------------------- arrays and built-in


def test_arrays():
    array = np.stack([noise(seed=i) for i in range(4)])
    made = load_images(array)
    assert np.array_equal(made.images, array)
    assert (made.labels, made.classes, made.names, made.broken) == (None, None, None, ())
    assert load_images(array[..., 0]).images.shape == (4, 12, 9, 1)
    assert load_images(array[:, ::2]).images.flags.c_contiguous
    grey = load_images(array, channels=1).images
    assert np.array_equal(grey[3, ..., 0], np.asarray(Image.fromarray(array[3]).convert("L")))
    assert np.array_equal(load_images(grey, channels=3).images, np.repeat(grey, 3, axis=3))
    fitted = ImageOps.fit(Image.fromarray(array[1]), (6, 6), Image.Resampling.BILINEAR)
    assert np.array_equal(load_images(array, size=6).images[1], np.asarray(fitted))


def test_built_in_shapes():
    made = load_images("shapes:70", size=(16, 20), limit=60)
    images, labels = make_shapes(60, (16, 20))
    assert np.array_equal(made.images, images)
    assert np.array_equal(made.labels, labels)
    assert made.classes == SHAPE_CLASSES
    assert load_images("shapes:70", channels=1).images.shape == (70, 32, 32, 1)


def test_mean_colour(tmp_path):
    array = np.zeros((4, 5, 6, 3), np.uint8)
    array[..., 0], array[:3, ..., 1], array[0, ..., 2] = 10, 200, 255
    assert ImageSet(array).mean == (10, 150, 64)
    assert ImageSet(np.full((3, 4, 4, 1), 7, np.uint8)).mean == (7, 7, 7)


def test_progress_bar_appears_when_it_takes_long(tmp_path, monkeypatch, capsys):
    save(tmp_path / "a.png")
    monkeypatch.setenv("FORCE_COLOR", "1")
    load_images(tmp_path, progress=True)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(late_bar, "_PATIENCE", -1)
    assert len(load_images(tmp_path, progress=True)) == 1
    assert "decoding images" in capsys.readouterr().err


# ----------------------------------------------------------------------------------------- bad input


def test_a_folder_without_images_says_so(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(CoviewsError, match="no image in"):
        load_images(tmp_path)
    (tmp_path / "a.png").touch()
    with pytest.raises(CoviewsError, match=r"no readable image in .*a\.png \(an empty file\)"):
        load_images(tmp_path)
    with pytest.raises(CoviewsError, match=r"cannot read the image .*a\.png: an empty file"):
        load_images(tmp_path / "a.png")


@pytest.mark.parametrize(
    ("data", "options", "says"),
    [
        ("shpes", {}, "did you mean 'shapes'"),
        ("no/such/folder", {}, "no file or folder 'no/such/folder'"),
        ("", {}, "no file or folder ''"),
        ("shapes:many", {}, "shapes:2000"),
        ("shapes:0", {}, "shapes:2000"),
        ("shapes", {"size": 0}, "size"),
        ("shapes", {"size": (3, 4, 5)}, "size"),
        ("shapes", {"size": 1.5}, "size"),
        ("shapes", {"size": 4}, "at least 8 pixels"),
        ("shapes", {"channels": 2}, "channels"),
        ("shapes", {"limit": 0}, "limit"),
        (42, {}, "not int"),
        (np.zeros((2, 4, 4, 3), complex), {}, "complex128"),
        (np.zeros((4, 4), np.uint8), {}, "shape"),
        (np.zeros((0, 4, 4, 3), np.uint8), {}, "no image"),
        (np.zeros((2, 24, 24, 17), np.uint8), {}, "shape"),
    ],
)
def test_wrong_input_is_a_short_error(data, options, says):
    with pytest.raises(CoviewsError, match=says) as raised:
        load_images(data, **options)
    assert len(str(raised.value).splitlines()) == 1


def test_too_large_for_the_memory_is_said(monkeypatch):
    def refuse(*_):
        raise MemoryError("Unable to allocate 3 TiB")

    monkeypatch.setattr("coviews.data.formats.make_shapes", refuse)
    with pytest.raises(CoviewsError, match=r"memory.*3 TiB.*smaller size"):
        load_images("shapes")


def test_images_with_too_many_pixels_are_reduced_or_skipped(tmp_path):
    for name in ("large.jpg", "large.png", "small.png"):
        side = 64 if name.startswith("large") else 16
        Image.new("RGB", (side, side), (200, 30, 60)).save(tmp_path / name)
    with pytest.warns(UserWarning, match=r"1 broken and skipped .*large\.png \(4,096 pixels, more than the 1,024"):
        images = load_images(tmp_path, max_pixels=32 * 32, size=16)
    assert images.names == ("large.jpg", "small.png")
    assert [name for name, _ in images.broken] == ["large.png"]
    assert abs(images.images[0].astype(int) - images.images[1]).max() < 12  # JPEG is not exact
    alone = load_images(tmp_path / "large.jpg", max_pixels=32 * 32)
    assert alone.images.shape == (1, 32, 32, 3)
    with pytest.raises(CoviewsError, match="--max-pixels must be a whole number from 1"):
        load_images(tmp_path, max_pixels=0)
    with pytest.raises(CoviewsError, match=r"cannot read the image .*large\.jpg: 4,096 pixels, more than"):
        load_images(tmp_path / "large.jpg", max_pixels=10)  # an eighth of its sides is too large as well


def test_the_longer_side_may_be_bounded(tmp_path):
    Image.new("RGB", (60, 20)).save(tmp_path / "wide.png")
    assert load_images(tmp_path, max_side=30).images.shape == (1, 10, 30, 3)
    assert load_images(np.zeros((2, 20, 60, 3), np.uint8), max_side=30).images.shape == (2, 10, 30, 3)
    assert load_images(tmp_path, max_side=60).images.shape == (1, 20, 60, 3)


@pytest.mark.parametrize("text", ["shapes:" + "9" * 5000, "shapes:999999999", "shapes:0", "shapes:x"])
def test_impossible_numbers_of_shapes(text):
    with pytest.raises(CoviewsError, match=r"a number of images|of memory"):
        load_images(text)
