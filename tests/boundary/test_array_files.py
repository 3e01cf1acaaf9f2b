"""Arrays from files: what NumPy writes is read, and hostile headers and archives are refused before memory is used."""

import io
import os
import tracemalloc
import zipfile

import numpy as np
import pytest

from coviews.boundary.arrays import map_array, open_arrays
from coviews.errors import CoviewsError


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.uint8).reshape(2, 3, 4), np.zeros((0, 3)), np.float32(3), np.array(["a", "bcd"]),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array([True, False]), np.arange(3, dtype=">i4"),
        np.array([b"xy"]), np.arange(2) * 1j,
    ],
)  # fmt: skip
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read(tmp_path, array, save):
    np.save(tmp_path / "a.npy", array)
    save(tmp_path / "a.npz", array, again=array)
    mapped = map_array(tmp_path / "a.npy")
    with open_arrays(tmp_path / "a.npz") as arrays:
        assert arrays.names == ["again", "arr_0"] or arrays.names == ["arr_0", "again"]
        read = arrays.read("again")
    for other in (mapped, read):
        assert other.dtype == array.dtype
        assert other.shape == array.shape
        assert np.array_equal(other, array)


def npy(header: str, content: bytes = b"", version: int = 1) -> bytes:
    text = header.encode("latin-1")
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text + content


def described(descr="'|u1'", order="False", shape="(4,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


HEADERS = {
    "negative": described(shape="(-4,)"),
    "boolean": described(shape="(True, 4)"),
    "enormous": described(shape="(99999999999999, 9999999999999)"),
    "very many digits": described(shape=f"({'9' * 3000},)"),
    "more than there is": described(shape="(5,)"),
    "objects": described(descr="'|O'"),
    "several parts": described(descr="[('a', '<f4'), ('b', '<i4')]"),
    "void": described(descr="'|V4'"),
    "dates": described(descr="'<M8[s]'"),
    "no type": described(descr="'<q9'"),
    "an import": described(descr="'f4,f4'"),
    "long texts": described(descr="'<U999999999'", shape="(4,)"),
    "order": described(order="3"),
    "no shape": "{'descr': '|u1', 'fortran_order': False}",
    "twice": "{'descr': '|u1', 'descr': '|u1', 'shape': (4,)}",
    "not tokens": "{'descr': '|u1', 'fortran_order': False, 'shape': (4,) \x00(((((",
    "deep": "(" * 4000,
    "code": "{'descr': __import__('os').system('true'), 'fortran_order': False, 'shape': (4,), }",
    "empty": "",
    "many sides": described(shape=f"({'1, ' * 40})"),
}


@pytest.mark.parametrize("case", HEADERS)
@pytest.mark.parametrize("version", [1, 2])
def test_hostile_headers_are_refused(tmp_path, case, version):
    path, content = tmp_path / "a.npy", npy(HEADERS[case], b"1234", version)
    path.write_bytes(content)
    with pytest.raises(CoviewsError, match=r"cannot read the array .*a\.npy"):
        map_array(path)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("images.npy", content)
    with (
        pytest.raises(CoviewsError, match=r"cannot read the array .*a\.npz"),
        open_arrays(tmp_path / "a.npz") as arrays,
    ):
        arrays.read("images")


def test_damaged_files_are_refused_or_read(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", images=np.arange(200, dtype=np.uint8))
    np.save(tmp_path / "a.npy", np.arange(200, dtype=np.uint8))
    rng, refused = np.random.default_rng(0), 0
    for name in ("a.npz", "a.npy"):
        whole = (tmp_path / name).read_bytes()
        for _ in range(200):
            damaged = bytearray(whole[: rng.integers(len(whole))] if rng.random() < 0.3 else whole)
            if damaged:
                damaged[rng.integers(len(damaged))] = rng.integers(256)
            (tmp_path / "d").write_bytes(damaged)
            try:
                if name == "a.npy":
                    map_array(tmp_path / "d").sum()
                else:
                    with open_arrays(tmp_path / "d") as arrays:
                        [arrays.read(n) for n in arrays.names]
            except CoviewsError:
                refused += 1
    assert refused > 200


def test_a_bomb_is_not_unpacked(tmp_path):
    size = 2**29
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("images.npy", "w", force_zip64=True) as member,
    ):
        member.write(npy(described(shape=f"({size},)")))
        for _ in range(size // 2**24):
            member.write(bytes(2**24))
    tracemalloc.start()
    with pytest.raises(CoviewsError, match="would grow"), open_arrays(tmp_path / "bomb.npz") as arrays:
        arrays.read("images")
    assert tracemalloc.get_traced_memory()[1] < 2**25
    tracemalloc.stop()


def test_a_member_is_measured_while_it_is_read(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros(1000, np.uint8))
    with pytest.raises(CoviewsError, match="needs 1,000 bytes"), open_arrays(tmp_path / "a.npz") as arrays:
        arrays.read("images", most=10)
    for shape, said in (("(3,)", "longer"), ("(5,)", "shorter"), ("(500,)", "fewer")):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("images.npy", npy(described(shape=shape), b"1234"))
        with pytest.raises(CoviewsError, match=said), open_arrays(tmp_path / "a.npz") as arrays:
            arrays.read("images")


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_ways_to_compress_are_refused(tmp_path, method):
    content = io.BytesIO()
    np.save(content, np.zeros(9))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", method) as archive:
        archive.writestr("images.npy", content.getvalue())
    with pytest.raises(CoviewsError, match="does not write"), open_arrays(tmp_path / "a.npz") as arrays:
        arrays.read("images")


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "a.npy")
    for read in (map_array, lambda path: open_arrays(path).__enter__()):
        with pytest.raises(CoviewsError, match="not a regular file"):
            read(tmp_path / "a.npy")


def test_an_endless_list_of_members_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "many.npz"
    np.savez(path, **{f"a{i}": np.zeros(1) for i in range(50)})
    with open_arrays(path) as arrays:
        assert len(arrays.names) == 50
    monkeypatch.setattr("coviews.boundary.archives._LONGEST_LIST", 500)
    with pytest.raises(CoviewsError, match="its list of members has more than 500 bytes"), open_arrays(path):
        pass
    content = path.read_bytes()
    place = content.rfind(b"PK\x05\x06")
    path.write_bytes(content[: place + 12] + b"\xff" * 4 + content[place + 16 :])
    with pytest.raises(CoviewsError, match="its list of members"), open_arrays(path):
        pass
