"""Image files that ask for far more than their pixels: named and skipped, before memory or minutes are spent."""

import contextlib
import gzip
import io
import struct
import threading
import zlib

import numpy as np
import pytest
from PIL import Image

from coviews import CoviewsError, load_images
from coviews.data import decode, picture_reader
from coviews.data.image_files import ImageFiles
from coviews.data.image_reader import header_or_reason

pydicom = pytest.importorskip("pydicom")
tifffile = pytest.importorskip("tifffile")

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 14, 3), np.uint8)


def saved(format: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(PIXELS).save(file, format)
    return file.getvalue()


def refused(path, content: bytes, says: str, **options) -> None:
    """Alone it is an error; whole, it would have been read."""
    path.write_bytes(content)
    with pytest.raises(CoviewsError, match=says) as raised:
        load_images(path, **options)
    assert len(str(raised.value)) <= 290


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(picture_reader, "_DESCRIPTION", 50_000)
    monkeypatch.setattr(picture_reader, "_MOST_BYTES", 200_000)


def test_metadata_longer_than_a_picture(tmp_path, small_limits):
    png, jpeg = saved("PNG"), saved("JPEG")
    text = struct.pack(">I", 60_000) + b"tEXt" + b"k\0" + b"x" * 59_998
    text += struct.pack(">I", zlib.crc32(text[4:]))
    refused(tmp_path / "a.png", png[:33] + text + png[33:], "50,000 bytes besides its pixels")
    endless = struct.pack(">I", 2**31 - 1) + b"iCCP" + bytes(60_000)
    refused(tmp_path / "b.png", png[:33] + endless, "besides its pixels")
    segment = b"\xff\xe1" + struct.pack(">H", 30_002) + b"Exif\0\0" + bytes(29_994)
    refused(tmp_path / "a.jpg", jpeg[:2] + 2 * segment + jpeg[2:], "besides its pixels")
    (tmp_path / "b.jpg").write_bytes(jpeg[:2] + segment + jpeg[2:])
    assert load_images(tmp_path / "b.jpg").images.shape == (1, 12, 14, 3)


@pytest.mark.parametrize("format", ["WEBP", "GIF", "BMP"])
def test_a_file_longer_than_its_pixels(tmp_path, small_limits, format):
    path = tmp_path / f"a.{format.lower()}"
    refused(path, saved(format) + bytes(200_000), "bytes is too large for an image")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"P6 " + b" " * 70_000 + b"14 12 255\n", "header does not end"),
        (b"P6 #" + b"x" * 70_000, "header does not end"),
        (b"P1 14 12\n" + b"#x\n" * 200 + b"0 " * 168, "pixels as text"),
    ],
)
def test_portable_files_that_would_be_read_byte_by_byte(tmp_path, content, says):
    refused(tmp_path / "a.ppm", content, says)
    (tmp_path / "b.ppm").write_bytes(b"P3\n# a remark\n2 1 255\n0 1 2 3 4 5\n")
    assert load_images(tmp_path / "b.ppm").images.ravel().tolist() == [0, 1, 2, 3, 4, 5]


def test_compressed_fits_files_are_not_inflated(tmp_path):
    def block(*cards: str) -> bytes:
        return "".join(card.ljust(80) for card in (*cards, "END")).ljust(2880).encode()

    first = block("SIMPLE  = T", "BITPIX  = 8", "NAXIS   = 0")
    sizes = ("NAXIS1  = 1", "NAXIS2  = 1", "ZBITPIX = 8", "ZNAXIS  = 2", "ZNAXIS1 = 14", "ZNAXIS2 = 12")
    second = block("XTENSION= 'BINTABLE'", "BITPIX  = 8", "NAXIS   = 2", *sizes, "ZCMPTYPE= 'GZIP_1  '", "ZIMAGE  = T")
    refused(tmp_path / "a.fits", first + second + gzip.compress(bytes(168)), "compressed FITS")


def test_more_frames_than_a_file_can_hold(tmp_path):
    for about in ("ImageJ=1.53\nimages=2000000000\nslices=2000000000\n", '{"shape": [2000000000, 12, 14]}'):
        tifffile.imwrite(tmp_path / "a.tif", PIXELS[..., 0].astype(np.uint16), description=about, metadata=None)
        for frames in (None, "each"):
            with contextlib.suppress(CoviewsError):  # it may be refused, or read as the one page that it has
                assert len(load_images(tmp_path / "a.tif", frames=frames)) == 1
    from test_dicom import write_dicom

    path = write_dicom(tmp_path / "a.dcm", PIXELS[..., 0].astype(np.int16))
    content = pydicom.dcmread(path)
    content.NumberOfFrames = 2**31 - 1
    content.save_as(path)
    for frames in (None, "each", "middle"):
        with pytest.raises(CoviewsError, match="2,147,483,647 frames, more than the file can hold"):
            load_images(path, frames=frames)


def test_large_images_are_decoded_one_after_the_other(tmp_path, monkeypatch):
    for i in range(40):
        Image.fromarray(PIXELS).save(tmp_path / f"{i}.png")
    at_once, most, guard, read = 0, 0, threading.Lock(), ImageFiles.read

    def counted(self, index, target):
        nonlocal at_once, most
        with guard:
            at_once += 1
            most = max(most, at_once)
        try:
            return read(self, index, target)
        finally:
            with guard:
                at_once -= 1

    monkeypatch.setattr(ImageFiles, "read", counted)
    monkeypatch.setattr(decode, "_LARGE", 100)
    assert len(load_images(tmp_path, size=8)) == 40
    assert most == 1


def test_pages_of_a_tiff_file_that_lead_back_to_earlier_ones_have_an_end(tmp_path):
    """Two lists of tags, the second of which names itself as the next one."""
    path = tmp_path / "loop.tif"
    with tifffile.TiffWriter(path) as file:
        for side in (8, 6):  # of different sizes, so that each is looked at
            file.write(np.zeros((side, side), np.uint16), photometric="minisblack", metadata=None)
    content = bytearray(path.read_bytes())
    place, places = struct.unpack_from("<I", content, 4)[0], []
    while place:
        places.append(place)
        end = place + 2 + 12 * struct.unpack_from("<H", content, place)[0]
        place = struct.unpack_from("<I", content, end)[0]
    assert len(places) == 2
    struct.pack_into("<I", content, end, places[1])
    path.write_bytes(content)
    assert load_images(path).images.shape == (1, 8, 8, 1)


def test_a_tiff_file_is_not_judged_by_its_first_bytes(tmp_path):
    """Where the second page lies beyond them, the file would seem to have one channel."""
    path = tmp_path / "stack.tif"
    with tifffile.TiffWriter(path) as file:
        for _ in range(6):
            file.write(np.zeros((128, 128), np.uint16), photometric="minisblack", metadata=None)
    content = path.read_bytes()
    asked = []

    def part(most=None):
        asked.append(most)
        return io.BytesIO(content[:most])

    assert header_or_reason(part, "channels").channels == 6
    assert asked[-1] is None
    Image.new("RGB", (9, 7)).save(photo := io.BytesIO(), "PNG")
    content, asked = photo.getvalue() + bytes(100_000), []
    assert header_or_reason(part, None).width == 9
    assert asked == [1 << 16]
