"""Shards of WebDataset: the same images, labels and training as from an array; what is wrong with a shard is said."""

import functools
import gzip
import http.server
import re
import tarfile
import threading

import numpy as np
import pytest
from PIL import Image

from coviews import CoviewsError, load_images, pretrain
from coviews.data.shards import expanded_ranges, shard_names
from coviews.training.signals import Stopped
from made_up_shards import add, write_shards
from small_runs import SMALL, signalled

COUNT = 48


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (COUNT, 16, 16, 3), np.uint8)


@pytest.fixture(scope="module")
def shards(images, tmp_path_factory):
    """The folder of five shards with labels."""
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder, images, [("cat", "dog")[i % 2] for i in range(COUNT)])
    return folder


@pytest.mark.parametrize(
    "written", ["{}", "{}/{{000..004}}.tar", "{}/00{{0,1,2,3,4}}.tar", "file://{}/{{000..004}}.tar"]
)
def test_they_are_the_images_in_their_order(shards, images, written):
    loaded = load_images(written.format(shards))
    assert np.array_equal(loaded.images, images)
    assert loaded.classes == ("cat", "dog")
    assert loaded.labels.tolist() == [i % 2 for i in range(COUNT)]
    assert loaded.names[11] == "001.tar/000011.png"


def test_options_and_parts(shards, images, tmp_path):
    assert np.array_equal(load_images(shards / "003.tar").images, images[30:40])
    assert load_images(shards, size=8, channels=1, limit=5).images.shape == (5, 8, 8, 1)
    assert load_images(shards, subset=10).labels.tolist().count(0) == 5
    with pytest.warns(UserWarning, match="decoded into"):
        on_disk = load_images(shards, memory=0, cache=tmp_path)
    assert np.array_equal(on_disk.images, images)
    for again in (shards, f"{shards}/{{000..004}}.tar"):  # both are found decoded, without a warning
        assert np.array_equal(load_images(again, memory=0, cache=tmp_path).images, images)
    assert len(list(tmp_path.iterdir())) == 1


def test_without_all_labels_there_are_none(images, tmp_path):
    (path,) = write_shards(tmp_path, images[:5])
    with tarfile.open(path, "a") as archive:
        add(archive, "folder.with.points/x.cls", b"1")
        add(archive, "folder.with.points/x.seg.png", b"no image")
    with pytest.warns(UserWarning, match="1 broken and skipped"):
        loaded = load_images(tmp_path)
    assert loaded.labels is None
    assert len(loaded) == 5
    assert loaded.broken[0][0] == "000.tar/folder.with.points/x.seg.png"


@pytest.mark.parametrize("cut", [0, 100, 600])  # before a header, within it, and within the image behind it
def test_a_damaged_shard_costs_only_its_own_images(shards, images, tmp_path, cut):
    folder = tmp_path / "some"
    folder.mkdir()
    for path in shards.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    whole = (folder / "002.tar").read_bytes()
    (folder / "002.tar").write_bytes(whole[: whole.index(b"000025.png") + cut])
    with pytest.warns(UserWarning, match=r"broken and skipped.*002\.tar"):
        loaded = load_images(folder)
    kept = [int(name[8:14]) for name in loaded.names]
    assert kept == [*range(25), *range(30, COUNT)]
    assert np.array_equal(loaded.images, images[kept])
    (folder / "004.tar").unlink()
    with pytest.warns(UserWarning, match=r"004\.tar"):
        load_images(f"{folder}/{{000..004}}.tar")


def test_what_is_wrong_is_said(shards, tmp_path):
    zipped = tmp_path / "zipped.tar"
    zipped.write_bytes(gzip.compress((shards / "000.tar").read_bytes()))
    for data, message in (
        (zipped, "unpacked to a plain .tar"),
        (f"{tmp_path}/{{5..9}}.tar", r"cannot read the shard .*5\.tar"),
        (f"{tmp_path}/{{9..5}}.tar", "must go up"),
        (f"{tmp_path}/{{0..99999999}}.tar", "at most 1,000,000"),
        ("https://localhost/images.zip", "of web servers, only shards"),
        ("nosuchthing://host/000.tar", "cannot open nosuchthing"),
        (tmp_path / "missing.tar", "no file or folder"),
    ):
        with pytest.raises(CoviewsError, match=message):
            load_images(data)
    with tarfile.open(tmp_path / "none.tar", "w") as archive:
        add(archive, "readme.txt", b"no image")
    with pytest.raises(CoviewsError, match="there is no image in"):
        load_images(tmp_path / "none.tar")


def test_a_folder_with_images_beside_a_tar_is_a_folder_of_images(images, tmp_path):
    Image.fromarray(images[0]).save(tmp_path / "one.png")
    write_shards(tmp_path, images[:3])
    assert shard_names(str(tmp_path)) is None
    assert load_images(tmp_path).names == ("one.png",)


@pytest.fixture
def served(shards):
    """Gives the address of the shards on a server that sends parts of files, or on one that does not."""
    servers = []

    def start(sends_parts):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_GET(self):
                part = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")) if sends_parts else None
                if part is None:
                    super().do_GET()
                    return
                first, last = map(int, part.groups())
                content = (shards / self.path.strip("/")).read_bytes()
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
                self.send_header("Content-Length", str(len(content[first : last + 1])))
                self.end_headers()
                self.wfile.write(content[first : last + 1])

            def log_message(self, *_):
                pass

        handler = functools.partial(Handler, directory=str(shards))
        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_shards_of_a_server(served, images):
    assert np.array_equal(load_images(f"{served(True)}/{{000..004}}.tar").images, images)
    with pytest.raises(CoviewsError, match="sends only whole files: copy the shards"):
        load_images(f"{served(False)}/000.tar")
    with pytest.raises(CoviewsError, match=r"cannot read the shard .*none\.tar"):
        load_images(f"{served(True)}/none.tar")


def test_ranges():
    assert expanded_ranges("a{08..11}.tar") == ["a08.tar", "a09.tar", "a10.tar", "a11.tar"]
    assert expanded_ranges("{a,b}/{0..1}.tar") == ["a/0.tar", "a/1.tar", "b/0.tar", "b/1.tar"]
    assert expanded_ranges("plain.tar") == ["plain.tar"]


def test_a_training_on_shards_is_that_on_the_images_and_goes_on_exactly(shards, images, tmp_path):
    settings = SMALL.replaced(views="recipe", epochs=2, batch_size=16, size=None)
    pattern = f"{shards}/{{000..004}}.tar"
    pretrain(pattern, settings=settings.replaced(out=tmp_path / "whole"), progress=False)
    pretrain(images, settings=settings.replaced(out=tmp_path / "array"), progress=False)
    encoder = (tmp_path / "whole" / "encoder.safetensors").read_bytes()
    assert encoder == (tmp_path / "array" / "encoder.safetensors").read_bytes()

    with signalled(2), pytest.raises(Stopped):
        pretrain(pattern, settings=settings.replaced(out=tmp_path / "run"), progress=False)
    pretrain(resume=tmp_path / "run", progress=False)
    assert (tmp_path / "run" / "encoder.safetensors").read_bytes() == encoder


@pytest.mark.parametrize(
    "text", ["{a,b}" * 40 + ".tar", "{0..9}" * 9 + ".tar", "{" + "9" * 5000 + ".." + "9" * 5000 + "}.tar"]
)
def test_ranges_of_far_too_many_shards(text):
    with pytest.raises(CoviewsError, match="at most 1,000,000 shards"):
        expanded_ranges(text)


def test_a_name_that_would_fill_the_memory_is_not_read(tmp_path):
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 2 << 30
    with open(tmp_path / "a.tar", "wb") as file:
        file.write(header.tobuf())
        file.truncate(3 << 30)
    with pytest.raises(CoviewsError, match=r"the name of a file in it has 2,147,48\d,\d+ bytes"):
        load_images(tmp_path / "a.tar")
