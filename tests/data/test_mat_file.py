"""MATLAB's files: the arrays that SciPy writes and reads, and damaged ones, which end in an error and nothing else."""

import random

import numpy as np
import pytest
import scipy.io

from coviews.data.known.mat_file import read_mat

ARRAYS = {
    "X": np.arange(5 * 4 * 3 * 2, dtype=np.uint8).reshape(5, 4, 3, 2), "y": np.array([[1.0], [10.0], [2.5]]),
    "long_name_of_a_matrix": np.arange(-3, 4, dtype=np.int16)[None], "e": np.zeros((0, 3)), "b": np.uint8([[7]]),
    "f": np.float32([[1.5, 2]]), "n": np.int64([[2**40, -1]]),
}  # fmt: skip


@pytest.fixture(params=[True, False], ids=["compressed", "plain"])
def path(request, tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {**ARRAYS, "text": "abc", "complex": [1j]}, do_compression=request.param)
    return tmp_path / "a.mat"


def test_arrays_are_those_of_scipy(path):
    with open(path, "rb") as file:
        arrays = read_mat(file, 1 << 20)
    assert arrays.keys() == ARRAYS.keys()
    theirs = scipy.io.loadmat(path)
    for name, array in arrays.items():
        assert (array.dtype, array.shape) == (theirs[name].dtype, theirs[name].shape)
        assert np.array_equal(array, theirs[name])


def test_an_array_larger_than_expected_is_not_decompressed(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"X": np.zeros((1000, 1000), np.uint8)}, do_compression=True)
    with open(tmp_path / "a.mat", "rb") as file, pytest.raises(ValueError, match="larger than a file of this size"):
        read_mat(file, 100_000)


def test_damaged_files_are_an_error_and_nothing_else(path, tmp_path):
    chance, whole, errors = random.Random(0), path.read_bytes(), 0
    for _ in range(1500):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] = chance.choice((0, 1, 255, chance.randrange(256)))
        (tmp_path / "damaged.mat").write_bytes(content[: chance.choice((len(content), chance.randrange(len(content))))])
        with open(tmp_path / "damaged.mat", "rb") as file:
            try:
                read_mat(file, 1 << 20)
            except ValueError:
                errors += 1
    assert 300 < errors < 1500
