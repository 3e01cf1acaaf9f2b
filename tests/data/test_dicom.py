import builtins

import numpy as np
import pydicom
import pytest
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, DeflatedExplicitVRLittleEndian, ExplicitVRLittleEndian, generate_uid

from coviews import CoviewsError
from coviews.data.load import load_images

AS_IT_IS = {"values": ((0.0, 65535.0),)}


def write_dicom(path, array, slope=None, intercept=None, photometric="MONOCHROME2", pixels=True, frames=1):
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    content = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    content.SOPClassUID, content.SOPInstanceUID = CTImageStorage, meta.MediaStorageSOPInstanceUID
    content.PatientName = "Nobody"
    if pixels:
        shape = array.shape if frames == 1 else array.shape[1:]
        content.Rows, content.Columns = shape[:2]
        content.SamplesPerPixel = shape[2] if len(shape) == 3 else 1
        if content.SamplesPerPixel == 3:
            content.PlanarConfiguration = 0
        content.PhotometricInterpretation = photometric
        content.BitsAllocated = content.BitsStored = 8 * array.itemsize
        content.HighBit = content.BitsStored - 1
        content.PixelRepresentation = int(array.dtype.kind == "i")
        if frames > 1:
            content.NumberOfFrames = frames
        if slope is not None:
            content.RescaleSlope, content.RescaleIntercept = slope, intercept
        content.PixelData = array.tobytes()
    content.save_as(path, enforce_file_format=True)
    return path


def slices(n=6, dtype=np.int16):
    return np.random.default_rng(0).integers(0, 2000, (n, 20, 24)).astype(dtype)


def test_values_are_in_the_units_of_the_file(tmp_path):
    array = slices()
    for i, image in enumerate(array):
        write_dicom(tmp_path / f"{i}.dcm", image, slope=2, intercept=-1024)
    made = load_images(tmp_path)
    low, high = np.percentile(array * 2.0 - 1024, (0.1, 99.9))
    assert made.values == (pytest.approx((low, high)),)
    assert made.images.shape == (6, 20, 24, 1)
    expected = np.clip((array * 2.0 - 1024 - low) / (high - low), 0, 1) * 65535
    assert np.abs(made.images[..., 0] - expected).max() <= 1


def test_frames_and_inverted_values(tmp_path):
    array = slices(5, np.uint16)
    write_dicom(tmp_path / "a.dcm", array, frames=5)
    made = load_images(tmp_path / "a.dcm", **AS_IT_IS)
    assert np.array_equal(made.images[0, ..., 0], array[2])
    assert made.remarks == ("1 file: of 5 pages the middle one is taken (--frames channels or each for all)",)
    every = load_images(tmp_path / "a.dcm", frames="channels", **AS_IT_IS)
    assert np.array_equal(every.images[0], array.transpose(1, 2, 0))
    each = load_images(tmp_path, frames="each", **AS_IT_IS)
    assert np.array_equal(each.images[..., 0], array)
    write_dicom(tmp_path / "b.dcm", array[0], photometric="MONOCHROME1")
    assert np.array_equal(load_images(tmp_path / "b.dcm", **AS_IT_IS).images[0, ..., 0], 65535 - array[0])


def test_eight_bits_and_colours(tmp_path):
    grey = np.random.default_rng(0).integers(0, 256, (20, 24), np.uint8)
    write_dicom(tmp_path / "grey.dcm", grey)
    made = load_images(tmp_path / "grey.dcm")
    assert made.images.dtype == np.uint8
    assert np.array_equal(made.images[0, ..., 0], grey)
    colour = np.random.default_rng(0).integers(0, 256, (20, 24, 3), np.uint8)
    write_dicom(tmp_path / "colour.dcm", colour, photometric="RGB")
    assert np.array_equal(load_images(tmp_path / "colour.dcm").images[0], colour)


def test_files_without_pixels_or_with_too_many(tmp_path):
    write_dicom(tmp_path / "a.dcm", None, pixels=False)
    with pytest.raises(CoviewsError, match=r"cannot read the image .*a\.dcm: a DICOM file without pixels"):
        load_images(tmp_path / "a.dcm")
    (tmp_path / "a.dcm").write_bytes(b"no such file")
    with pytest.raises(CoviewsError, match="not a DICOM file"):
        load_images(tmp_path / "a.dcm")
    path = write_dicom(tmp_path / "a.dcm", slices(1)[0])
    content = pydicom.dcmread(path)
    content.Rows = content.Columns = 65535
    content.save_as(path)
    with pytest.raises(CoviewsError, match="65,535 x 65,535 pixels is too large"):
        load_images(path)
    content.Rows, content.Columns = 20, 24
    del content.PixelData
    content.save_as(path)
    with pytest.raises(CoviewsError, match="without pixels"):
        load_images(path)
    content.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    content.save_as(path)
    with pytest.raises(CoviewsError, match="deflated"):
        load_images(path)


def test_without_pydicom_the_error_says_what_to_install(tmp_path, monkeypatch):
    write_dicom(tmp_path / "a.dcm", slices(1)[0])
    real = builtins.__import__

    def without(name, *arguments):
        if name.startswith("pydicom"):
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CoviewsError, match=r"pip install 'coviews\[dicom\]'"):
        load_images(tmp_path)
