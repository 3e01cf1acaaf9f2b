"""Images with more than 8 bits, more channels than colours have, or several pages."""

import struct
import warnings
import zlib

import numpy as np
import pytest
import tifffile
from PIL import Image

from coviews import CoviewsError
from coviews.data import tiff_reader
from coviews.data.levels import Target, fitted_array, range_text, scaled, value_range
from coviews.data.load import load_images


def values(n=8, h=20, w=24, c=6, low=300, high=1301, dtype=np.uint16, seed=0):
    return np.random.default_rng(seed).integers(low, high, (n, h, w, c)).astype(dtype)


def write_tiffs(folder, images, **options):
    folder.mkdir(parents=True, exist_ok=True)
    layout = {"photometric": "minisblack", "planarconfig": "contig"} if images.shape[-1] > 1 else {}
    for i, image in enumerate(images):
        tifffile.imwrite(folder / f"{i:03}.tif", image.squeeze(), **{**layout, **options})
    return folder


def quiet(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_images(*arguments, **options)


# ------------------------------------------------------------------------------------------------ depth


def test_values_are_scaled_by_the_range_of_the_data_set(tmp_path):
    array = values(c=1)
    made = load_images(write_tiffs(tmp_path / "x", array))
    low, high = np.percentile(array, (0.1, 99.9))
    assert made.values == ((low, high),)
    expected = np.rint(np.clip((array - low) / (high - low), 0, 1) * 65535)
    assert made.images.dtype == np.uint16
    assert np.abs(made.images - expected).max() <= 1  # of 65,535: single precision
    assert made.depth == 16
    assert made.remarks == (f"values {low:,.0f} to {high:,.0f} scaled to 0 to 65,535",)


def test_another_set_is_scaled_by_the_range_of_the_first(tmp_path):
    train = load_images(write_tiffs(tmp_path / "x", values()))
    brighter = write_tiffs(tmp_path / "y", values(low=800, high=1801, seed=1))
    own, same = load_images(brighter), load_images(brighter, values=train.values)
    assert same.values == train.values
    assert not same.remarks
    assert 0.45 < own.images.mean() / 65535 < 0.55
    assert 0.8 < same.images.mean() / 65535 < 0.9


def test_eight_bits_if_asked_for(tmp_path):
    folder = write_tiffs(tmp_path / "x", values())
    deep, plain = load_images(folder), load_images(folder, depth=8)
    assert plain.images.dtype == np.uint8
    assert plain.values == deep.values
    assert np.abs(deep.images / 257 - plain.images).max() <= 0.51
    assert np.array_equal(load_images(deep, depth=8).images, np.rint(deep.images / 257))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint32])
def test_every_type_of_values(tmp_path, dtype):
    array = values(c=2, low=0, high=1000, dtype=dtype)
    array = array / 1000 if array.dtype.kind == "f" else array - dtype(400) * (dtype == np.int16)
    np.save(tmp_path / "a.npy", array.astype(dtype))
    made = load_images(tmp_path / "a.npy")
    assert made.images.dtype == np.uint16
    assert np.corrcoef(made.images.ravel(), array.ravel())[0, 1] > 0.999
    if dtype != np.float64:  # TIFF has it too, but it is rare
        again = load_images(write_tiffs(tmp_path / "x", array.astype(dtype)))
        assert np.array_equal(again.images, made.images)


def test_plain_images_stay_byte_for_byte(tmp_path):
    array = values(c=3, low=0, high=256, dtype=np.uint8)
    write_tiffs(tmp_path / "x", array, photometric="rgb")
    made = load_images(tmp_path / "x", depth=16, values=((0.0, 1.0),) * 3)
    assert made.images.dtype == np.uint8
    assert made.values is None
    assert np.array_equal(made.images, array)


def test_very_different_channels_have_ranges_of_their_own():
    generator = np.random.default_rng(0)
    image = np.stack([generator.uniform(0, 1, (50, 50)), generator.uniform(500, 900, (50, 50))], -1)
    alike = value_range([image.astype(np.float32) * (400, 1) + (500, 0)])
    assert alike[0] == alike[1]
    apart = value_range([image.astype(np.float32)])
    assert apart[0][1] < 1 < 500 <= apart[1][0]
    assert "channel by channel" in range_text(apart, np.uint16)
    made = scaled(image, apart, np.uint16)
    assert made.reshape(-1, 2).mean(0) == pytest.approx([32768, 32768], rel=0.05)


def test_png_of_16_bits(tmp_path):
    array = values(c=1)[..., 0]
    for i, image in enumerate(array):
        Image.fromarray(image).save(tmp_path / f"{i}.png")
    made = load_images(tmp_path)
    assert made.images.shape == (8, 20, 24, 1)
    assert np.array_equal(made.images, load_images(array).images)


def test_colours_of_16_bits_in_png_are_reduced_and_that_is_said(tmp_path):
    rows = values(1, c=3, low=0, high=65536)[0].astype(">u2")
    lines = b"".join(b"\0" + row.tobytes() for row in rows)
    content = b"\x89PNG\r\n\x1a\n"
    for kind, data in (
        (b"IHDR", struct.pack(">IIBBBBB", 24, 20, 16, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines)),
        (b"IEND", b""),
    ):
        content += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    (tmp_path / "a.png").write_bytes(content)
    made = load_images(tmp_path / "a.png")
    assert made.images.dtype == np.uint8
    assert np.abs(made.images[0].astype(int) - rows // 257).max() <= 1
    assert made.remarks == ("1 file: of the 16 bits of a colour in PNG files 8 are kept; TIFF files keep all",)


def test_a_mixture_of_depths(tmp_path):
    write_tiffs(tmp_path / "x", values(c=1))
    Image.fromarray(np.full((20, 24), 255, np.uint8)).save(tmp_path / "x" / "white.png")
    made = load_images(tmp_path / "x")
    assert (made.images[-1] == 65535).all()
    assert made.values == load_images(values(c=1)).values


# --------------------------------------------------------------------------------------------- channels


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"planarconfig": "separate"},
        {"compression": "zlib"},
        {"compression": "zlib", "predictor": True, "tile": (16, 16)},
        {"byteorder": ">"},
        {"bigtiff": True},
    ],
)
def test_tiff_with_six_channels(tmp_path, options):
    array = values()
    chunky = options.get("planarconfig") != "separate"
    write_tiffs(tmp_path / "x", array if chunky else array.transpose(0, 3, 1, 2), **options)
    made = load_images(tmp_path / "x")
    assert np.array_equal(made.images, load_images(array).images)
    assert made.images.shape == (8, 20, 24, 6)


def test_alpha_is_no_channel_and_other_bands_are(tmp_path):
    array = values(c=4)
    alpha = load_images(write_tiffs(tmp_path / "x", array, photometric="rgb", extrasamples=["unassalpha"]))
    assert alpha.images.shape[-1] == 3
    bands = load_images(write_tiffs(tmp_path / "y", array, photometric="rgb", extrasamples=["unspecified"]))
    assert bands.images.shape[-1] == 4
    plain = load_images(write_tiffs(tmp_path / "z", (array // 6).astype(np.uint8), photometric="minisblack"))
    assert np.array_equal(plain.images, array // 6)


@pytest.mark.parametrize("channels", [1, 2, 3, 16])
def test_arrays_of_any_number_of_channels_in_both_layouts(tmp_path, channels):
    array = values(c=channels)
    np.save(tmp_path / "last.npy", array)
    np.savez(tmp_path / "first.npz", images=array.transpose(0, 3, 1, 2))
    last = load_images(tmp_path / "last.npy").images
    with pytest.warns(UserWarning, match="they are read as such"):
        assert np.array_equal(load_images(tmp_path / "first.npz").images, last)
    assert last.shape == array.shape


def test_resizing_treats_every_channel_alike():
    array = values(2, c=5, low=0, high=65536)
    made, resized = fitted_array(array[0], Target(10, 12, 5, np.uint16))
    assert resized
    alone = [fitted_array(array[0][..., k : k + 1], Target(10, 12, 1, np.uint16))[0] for k in range(5)]
    assert np.array_equal(made, np.concatenate(alone, -1))
    assert made.mean() == pytest.approx(array[0].mean(), rel=0.02)


def test_grey_and_colour_become_each_other_at_any_depth(tmp_path):
    grey = load_images(write_tiffs(tmp_path / "x", values(c=1)), channels=3).images
    assert (grey == grey[..., :1]).all()
    colour = values(c=3)
    made = load_images(colour, channels=1)
    assert made.images.shape[-1] == 1
    assert np.corrcoef((colour @ [0.299, 0.587, 0.114]).ravel(), made.images.ravel())[0, 1] > 0.999


def test_mixed_channels_are_an_error(tmp_path):
    write_tiffs(tmp_path / "x", values(c=6))
    write_tiffs(tmp_path / "x" / "y", values(2, c=4))
    with pytest.raises(CoviewsError, match=r"different numbers of channels \(8 with 6, 2 with 4\)"):
        load_images(tmp_path / "x")
    with pytest.raises(CoviewsError, match="have 6 channels, and 3 are needed"):
        load_images(values(), channels=3)
    with pytest.warns(UserWarning, match="2 broken"):
        assert len(load_images(tmp_path / "x", channels=6)) == 8


# ----------------------------------------------------------------------------------------------- frames


def write_stack(path, count=5, axes="ZYX", **options):
    stack = values(count, c=1)[..., 0]
    tifffile.imwrite(path, stack, imagej=True, metadata={"axes": axes}, **options)
    return stack


def test_the_middle_of_a_stack_is_taken_and_that_is_said(tmp_path):
    stack = write_stack(tmp_path / "a.tif")
    made = load_images(tmp_path / "a.tif", values=((0.0, 65535.0),))
    assert np.array_equal(made.images[0, ..., 0], stack[2])
    assert made.remarks == ("1 file: of 5 pages the middle one is taken (--frames channels or each for all)",)


def test_pages_that_the_file_calls_channels_are_channels(tmp_path):
    stack = write_stack(tmp_path / "a.tif", axes="CYX")
    made = load_images(tmp_path / "a.tif", values=((0.0, 65535.0),))
    assert np.array_equal(made.images[0], stack.transpose(1, 2, 0))
    assert made.remarks == ("1 file: 5 pages are the channels of one image, as the file says",)
    middle = load_images(tmp_path / "a.tif", values=((0.0, 65535.0),), frames="middle")
    assert np.array_equal(middle.images[0, ..., 0], stack[2])


def test_channels_of_a_stack_come_from_its_middle(tmp_path):
    stack = values(1, 5, 2, c=20 * 24).reshape(5, 2, 20, 24)
    tifffile.imwrite(tmp_path / "a.tif", stack, imagej=True, metadata={"axes": "ZCYX"})
    made = load_images(tmp_path / "a.tif", values=((0.0, 65535.0),))
    assert np.array_equal(made.images[0], stack[2].transpose(1, 2, 0))


def test_all_pages_as_channels_or_each_as_an_image(tmp_path):
    stack = write_stack(tmp_path / "a" / "a.tif") if (tmp_path / "a").mkdir() is None else None
    (tmp_path / "b").mkdir()
    tifffile.imwrite(tmp_path / "b" / "b.tif", stack[0])
    given = {"values": ((0.0, 65535.0),)}
    made = load_images(tmp_path / "a", frames="channels", **given)
    assert np.array_equal(made.images[0], stack.transpose(1, 2, 0))
    each = load_images(tmp_path, frames="each", **given)
    assert each.names == (*(f"a/a.tif#{i}" for i in range(5)), "b/b.tif")
    assert each.labels.tolist() == [0, 0, 0, 0, 0, 1]
    assert np.array_equal(each.images[:5, ..., 0], stack)
    write_stack(tmp_path / "a" / "a.tif", count=17)
    with pytest.raises(CoviewsError, match="17 pages are more than 16 channels"):
        load_images(tmp_path / "a", frames="channels")


def test_stacks_by_lzw_need_no_further_package(tmp_path):
    stack = values(3, c=1)[..., 0]
    pages = [Image.fromarray(page) for page in stack]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:], compression="tiff_lzw")
    made = load_images(tmp_path / "a.tif", values=((0.0, 65535.0),), frames="channels")
    assert np.array_equal(made.images[0], stack.transpose(1, 2, 0))


# ------------------------------------------------------------------------------------------- bad files


def one(path, says, **options):
    with pytest.raises(CoviewsError, match=says) as raised:
        load_images(path, **options)
    assert len(str(raised.value).splitlines()) == 1


def test_a_truncated_file_is_broken(tmp_path):
    for compression in (None, "zlib"):
        write_tiffs(tmp_path, values(1, 64, 64), compression=compression)
        content = (tmp_path / "000.tif").read_bytes()
        (tmp_path / "000.tif").write_bytes(content[: len(content) - 2000])
        one(tmp_path / "000.tif", "cannot read the image")


def test_a_header_that_claims_too_much_allocates_nothing(tmp_path):
    write_tiffs(tmp_path, values(1, 64, 64))
    with tifffile.TiffFile(tmp_path / "000.tif", mode="r+b") as file:
        file.pages[0].tags["ImageWidth"].overwrite(1_000_000)
        file.pages[0].tags["ImageLength"].overwrite(1_000_000)
    one(tmp_path / "000.tif", "1,000,000 x 1,000,000 pixels is too large")


def test_compressed_data_that_grow_without_end_are_not_inflated(tmp_path, monkeypatch):
    write_tiffs(tmp_path, np.zeros((1, 64, 64, 6), np.uint16), compression="zlib", rowsperstrip=64)
    bomb = zlib.compress(bytes(20_000_000))
    content = (tmp_path / "000.tif").read_bytes()
    with tifffile.TiffFile(tmp_path / "000.tif", mode="r+b") as file:
        file.pages[0].tags["StripOffsets"].overwrite(len(content))
        file.pages[0].tags["StripByteCounts"].overwrite(len(bomb))
    with open(tmp_path / "000.tif", "ab") as file:
        file.write(bomb)
    monkeypatch.setattr(tiff_reader, "_SMALL", 1000)
    one(tmp_path / "000.tif", "larger than its size says")


@pytest.mark.parametrize("channels", [0, 17])
def test_numbers_of_channels_that_are_impossible(tmp_path, channels):
    with pytest.raises(CoviewsError, match="channels must be 1 for grey"):
        load_images("shapes:10", channels=channels)
    if channels:
        write_tiffs(tmp_path, values(1, c=channels))
        one(tmp_path / "000.tif", "17 channels: 1 to 16 are possible")


def test_complex_values_are_refused(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.ones((20, 20), np.complex64))
    one(tmp_path / "a.tif", "complex")


def test_values_that_are_no_numbers(tmp_path):
    array = values(4, dtype=np.float32)
    array[0, :5] = np.nan
    array[1, 0, 0], array[1, 0, 1] = np.inf, -np.inf
    np.save(tmp_path / "a.npy", array)
    with pytest.warns(UserWarning, match=r"2 of 4 images .* not finite"):
        made = load_images(tmp_path / "a.npy")
    assert (made.images[0, :5] == 0).all()
    assert (made.images[1, 0, 0] == 65535).all()
    assert (made.images[1, 0, 1] == 0).all()
    assert np.array_equal(made.images[2:], load_images(array[2:], values=made.values).images)
    array[3] = np.nan
    made = quiet(array)
    assert [why for _, why in made.broken] == ["none of its values is a finite number"]


def test_images_that_show_nothing():
    made = load_images(np.full((4, 8, 8, 2), 700, np.uint16))
    assert (made.images == 0).all()
    assert made.remarks == ("all values are 700: the images show nothing",)


def test_wrong_choices():
    for options, says in (
        ({"depth": 12}, "8 or 16 bits"),
        ({"frames": "midle"}, "did you mean 'middle'"),
        ({"values": ((5.0, 1.0),)}, "range of values"),
        ({"values": ((0.0, 1.0), (0.0, 2.0))}, "6 channels, and there are ranges of values for 2"),
    ):
        with pytest.raises(CoviewsError, match=says):
            load_images(values(), **options)


# ------------------------------------------------------------------------------------ cache, other files


def test_deep_images_on_the_disk_are_found_again(tmp_path):
    folder = write_tiffs(tmp_path / "x", values())
    first = quiet(folder, memory=0, cache=tmp_path / "cache")
    again = quiet(folder, memory=0, cache=tmp_path / "cache")
    in_memory = load_images(folder)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    assert isinstance(again.images, np.memmap)
    for made in (first, again):
        assert np.array_equal(made.images, in_memory.images)
        assert made.values == in_memory.values
    quiet(folder, memory=0, cache=tmp_path / "cache", values=((0.0, 2000.0),) * 6)
    quiet(folder, memory=0, cache=tmp_path / "cache", frames="middle")
    assert len(list((tmp_path / "cache").iterdir())) == 3


def test_skipped_files_are_counted_by_kind(tmp_path, capsys):
    folder = write_tiffs(tmp_path / "x", values())
    for name in ("a.txt", "b.txt", "c.CSV", "README"):
        (folder / name).touch()
    made = load_images(folder, progress=True)
    assert made.remarks[0] == "skipped 4 files that are not images: 2 .txt, 1 without an extension, 1 .csv"
    said = capsys.readouterr().err
    assert made.remarks[0] in said
    assert "values 300 to 1,300 scaled to 0 to 65,535" in said
