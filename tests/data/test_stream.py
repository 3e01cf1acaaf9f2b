"""Streams: each epoch in an order of its own, images decoded when asked for, and few of them at once."""

import http.server
import io
import threading
import time
from functools import partial

import fsspec
import numpy as np
import pytest
from PIL import Image

from coviews import CoviewsError, load_images
from coviews.data import fetched_shards
from coviews.data.fetched_shards import FetchedShards
from coviews.data.request import ImageRequest
from coviews.data.stream import open_stream
from coviews.data.stream_order import LANES, StreamOrder
from coviews.data.tar_pack import TarPack
from made_up_shards import write_shards

COUNT, PER_SHARD, BATCH = 240, 12, 16
LABELS = [("cat", "dog", "10")[i % 3] for i in range(COUNT)]


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (COUNT, 8, 8, 3), np.uint8)


@pytest.fixture(scope="module")
def shards(images, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder, images, LABELS, per_shard=PER_SHARD)
    return folder


@pytest.fixture
def remote(shards):
    """A file system in memory, with the shards in a folder of it."""
    system = fsspec.filesystem("memory")
    for path in shards.iterdir():
        system.pipe_file(f"/set/{path.name}", path.read_bytes())
    yield system
    system.rm("/", recursive=True)


@pytest.fixture
def opened(tmp_path):
    """A function that opens a stream, and closes it at the end."""
    streams = []

    def open_it(data, *, buffer=64, **changes):
        choices = {
            "size": None, "channels": None, "limit": None, "subset": None, "subset_seed": 0, "root": tmp_path,
            "download": False, "max_broken": 0.5, "cache": tmp_path / "cache", "memory": None, "progress": False,
            "stream": True,
        }  # fmt: skip
        streams.append(open_stream(data, ImageRequest(**{**choices, **changes}), buffer, 2))
        return streams[-1]

    yield open_it
    for stream in streams:
        stream.close()


def whole_epoch(stream, seed=(0, 1, 1)):
    order = stream.order(list(seed), BATCH)
    return order, np.concatenate([order[i : i + BATCH] for i in range(0, len(order), BATCH)])


# ------------------------------------------------------------------------------------------------------ the order


@pytest.mark.parametrize("lengths", [[10] * 24, [1] * 240, [240], [7, 1, 100, 50, 82], [0, 120, 0, 120]])
@pytest.mark.parametrize("window", [24, 40, 1000])
def test_an_epoch_has_every_image_at_most_once_in_an_order_of_its_own(lengths, window):
    bounds = np.unique(np.cumsum([0, *lengths]))
    epochs = [StreamOrder(bounds, (3, 1, epoch), 24, window)[:] for epoch in (1, 2)]
    assert all(sorted(epoch) == list(range(240)) for epoch in epochs)
    assert not np.array_equal(*epochs)
    again = StreamOrder(bounds, (3, 1, 2), 24, window)
    parts = [again[i : i + 5] for i in range(0, 240, 5)]  # no matter how it is asked for, and from where on
    assert np.array_equal(np.concatenate(parts), epochs[1])
    assert np.array_equal(StreamOrder(bounds, (3, 1, 2), 24, window)[200:230], epochs[1][200:230])


def test_what_is_left_over_waits_for_another_epoch():
    bounds = np.arange(0, 1001, 10)
    epochs = [StreamOrder(bounds, (0, 1, epoch), 64, 100)[:] for epoch in range(8)]
    assert {len(epoch) for epoch in epochs} == {960}
    assert all(len(set(epoch.tolist())) == 960 for epoch in epochs)
    assert len(set(np.concatenate(epochs).tolist())) == 1000


def test_a_batch_has_images_of_many_places_and_windows_are_bounded():
    bounds = np.arange(0, 10_001, 100)
    order = StreamOrder(bounds, (0, 1, 1), 64, 800)
    for step in range(0, len(order) // 64, 7):
        batch = slice(64 * step, 64 * (step + 1))
        now, later = order.near(batch)
        shards = set((order[batch] // 100).tolist())
        assert len(shards) >= LANES
        assert shards <= set(now.tolist())
        assert len(now) <= 3 * LANES  # of 100
        if step < 140:
            assert set((order[batch.stop : batch.stop + 64] // 100).tolist()) <= {*now.tolist(), *later.tolist()}
    neighbours = np.diff(order[:64].reshape(LANES, -1), axis=1)
    assert (neighbours != 1).mean() > 0.8  # those of a lane are not in the order of their shard


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ranks_read_shards_of_their_own(ranks):
    order, read = StreamOrder(np.arange(0, 10_001, 100), (0, 1, 1), 64, 800), []
    share = 64 // ranks
    for rank in range(ranks):
        firsts = range(rank * share, len(order), 64)
        indices = np.concatenate([order[first : first + share] for first in firsts])
        read.append(set((indices // 100).tolist()))
    assert sum(map(len, read)) <= 100 + LANES  # but for the shards in which a lane ends


# ------------------------------------------------------------------------------------------------------ the images


@pytest.mark.parametrize("where", ["{}", "{}/{{000..019}}.tar", "file://{}/{{000..019}}.tar"])
def test_shards_give_their_images_in_any_order(shards, images, opened, where):
    stream = opened(where.format(shards))
    assert stream.shape == (COUNT, 8, 8, 3)
    _, indices = whole_epoch(stream)
    assert sorted(indices) == list(range(COUNT))
    for first in range(0, COUNT, BATCH):
        assert np.array_equal(stream[indices[first : first + BATCH]], images[indices[first : first + BATCH]])
    assert stream.sample.classes == ("10", "cat", "dog")
    sampled = [int(name[8:14]) for name in stream.sample.names]
    assert len(sampled) == (8 * PER_SHARD if "://" in where else COUNT)  # of fetched shards, those of eight
    assert [stream.sample.classes[i] for i in stream.sample.labels] == [LABELS[i] for i in sampled]
    assert stream.source.names[11] == "000.tar/000011.png"
    assert stream.broken_text() is None


def test_the_index_is_small_and_found_again(shards, opened, monkeypatch):
    first = opened(shards)
    index = first.source.pack._index
    labels = first.source.labels
    assert (index.starts.nbytes + index.sizes.nbytes + labels.codes.nbytes) / COUNT == 16
    monkeypatch.setattr("coviews.data.tar_pack._look", None)  # it would fail
    again = opened(shards)
    assert np.array_equal(again.source.labels.codes, labels.codes)
    assert np.array_equal(again[np.arange(5)], first[np.arange(5)])
    (stored,) = (first.source.pack._shards._folder).glob("*.npz")
    stored.write_bytes(stored.read_bytes()[:-100])
    with pytest.raises(TypeError):  # it is damaged: the shards are looked through again
        opened(shards)


def test_a_sample_stands_for_all_and_is_the_same_each_time(shards, images, opened, monkeypatch):
    monkeypatch.setattr("coviews.data.stream.SAMPLED", 50)
    first, second = (opened(shards).sample for _ in range(2))
    assert len(first) == 50
    assert first.names == second.names
    places = [int(name[8:14]) for name in first.names]
    assert np.array_equal(first.images, images[places])
    assert max(np.diff(places)) < 40  # from all over the set


def test_the_sample_is_bounded_in_bytes(shards, opened, monkeypatch):
    monkeypatch.setattr("coviews.data.stream._SAMPLED_BYTES", 100 * 8 * 8 * 3)
    assert len(opened(shards).sample) == 100


def test_a_part_of_a_stream(shards, images, opened):
    stream = opened(shards, subset=60)
    assert len(stream) == 60
    assert sorted(np.unique(stream.sample.labels, return_counts=True)[1]) == [20, 20, 20]
    _, indices = whole_epoch(stream)
    whole = load_images(shards, subset=60)
    assert np.array_equal(stream[np.arange(60)], whole.images)
    assert len(set(indices.tolist())) == len(indices) == 48


def test_size_channels_and_depth_are_those_of_loaded_images(tmp_path, opened, shards):
    assert np.array_equal(opened(shards, size=(4, 4), channels=1)[np.arange(9)], load_images(
        shards, size=4, channels=1).images[:9])  # fmt: skip
    deep = np.random.default_rng(1).integers(300, 1300, (40, 8, 8), np.uint16)
    (tmp_path / "deep").mkdir()
    for i, pixels in enumerate(deep):
        Image.fromarray(pixels).save(tmp_path / "deep" / f"{i:02d}.png")
    stream, loaded = opened(tmp_path / "deep"), load_images(tmp_path / "deep")
    assert stream.dtype == np.uint16
    assert stream.sample.values == loaded.values
    assert np.array_equal(stream[np.arange(40)], loaded.images)


def test_a_folder_is_read_in_any_order(images, tmp_path, opened):
    for i in range(48):
        folder = tmp_path / "images" / "ab"[i // 24]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images[i]).save(folder / f"{i:02d}.png")
    stream = opened(tmp_path / "images")
    order, indices = whole_epoch(stream)
    assert sorted(indices) == list(range(48))
    assert np.array_equal(stream[indices], images[indices])
    assert stream.sample.classes == ("a", "b")
    classes = [(order[first : first + BATCH] // 24).tolist() for first in range(0, 48, BATCH)]
    assert all(0 < sum(batch) < BATCH for batch in classes)


# ------------------------------------------------------------------------------------------------------ broken images


def test_a_broken_image_is_replaced_by_another_always_the_same(shards, images, tmp_path, opened):
    broken = {30, 31, 100, *range(120, 132)}  # a whole shard among them
    folder = tmp_path / "broken"
    folder.mkdir()
    for path in sorted(shards.iterdir()):
        content = bytearray(path.read_bytes())
        for i in broken:
            name = content.find(f"{i:06d}.png".encode())
            if name >= 0:
                content[name + 512 : name + 560] = bytes(48)
        (folder / path.name).write_bytes(content)
    stream = opened(folder, buffer=LANES * 4 * PER_SHARD)  # pieces that are whole shards
    assert np.array_equal(stream[np.array([0, 120])][0], images[0])
    everything = stream[np.arange(COUNT)]
    good = [i for i in range(COUNT) if i not in broken]
    assert np.array_equal(everything[good], images[good])
    assert np.array_equal(everything[[30, 31]], images[[32, 32]])
    assert np.array_equal(everything[100], images[101])
    in_their_places = [stream.sample.images[i % len(stream.sample)] for i in range(120, 132)]
    assert np.array_equal(everything[120:132], in_their_places)
    other = opened(folder, buffer=LANES * 4 * PER_SHARD)
    assert np.array_equal(other[np.arange(COUNT)[::-1]][::-1], everything)
    assert set(stream.broken) == set(other.broken) == broken
    assert stream.broken_by_name()[0] == ("002.tar/000030.png", "not an image")
    assert stream.broken_text().startswith("15 of 240 images are broken, and other images took their places: 002.tar/")


def test_a_disk_that_is_gone_ends_it(tmp_path, opened, images):
    (tmp_path / "images").mkdir()
    for i in range(40):
        Image.fromarray(images[i]).save(tmp_path / "images" / f"{i:02d}.png")
    stream = opened(tmp_path / "images")
    (tmp_path / "images").rename(tmp_path / "elsewhere")
    with pytest.raises(CoviewsError, match=r"16 of the 16 images of a batch cannot be read: .*\.png \(No such file"):
        stream[np.arange(16)]


def test_too_many_broken_images_end_it_before_it_begins(tmp_path, opened, images):
    (tmp_path / "images").mkdir()
    for i in range(40):
        Image.fromarray(images[i]).save(tmp_path / "images" / f"{i:02d}.png")
    for i in range(5):
        (tmp_path / "images" / f"{i:02d}.png").write_bytes(b"none")
    with pytest.raises(CoviewsError, match=r"5 of 40 images .* are broken"):
        opened(tmp_path / "images", max_broken=0.01)


def test_a_shard_that_disappears_ends_it(shards, tmp_path, opened):
    folder = tmp_path / "some"
    folder.mkdir()
    for path in shards.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    stream = opened(folder)
    (folder / "003.tar").unlink()
    with pytest.raises(CoviewsError, match=r"cannot read the shard .*003\.tar: No such file"):
        stream[np.arange(COUNT)]


# ------------------------------------------------------------------------------------------------------ other machines


def test_shards_of_a_server_are_fetched_while_they_are_needed(remote, images, opened, tmp_path):
    stream = opened("memory://set/{000..019}.tar")
    order, _ = whole_epoch(stream)
    most = 0
    for first in range(0, len(order), BATCH):
        indices = order[first : first + BATCH]
        assert np.array_equal(stream[indices], images[indices])
        most = max(most, len(stream.source.pack.kept))
    assert 0 < most <= 2 * LANES + 1 < 20
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".npz"]


def test_a_web_server_need_not_send_parts_of_files(shards, images, opened):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(shards))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        where = f"http://127.0.0.1:{server.server_port}"
        stream = opened(f"{where}/{{000..019}}.tar")
        indices = stream.order([0, 1, 1], BATCH)[:BATCH]
        assert np.array_equal(stream[indices], images[indices])
        with pytest.raises(CoviewsError, match=r"cannot read the shard http.*/700\.tar: it is not there"):
            opened(f"{where}/{{700..701}}.tar")
        server.shutdown()


def test_a_folder_of_another_machine_has_shards_or_images(remote, images, opened, shards):
    stream = opened("memory://set")
    assert isinstance(stream.source.pack, TarPack)
    assert np.array_equal(stream[np.arange(0, COUNT, 7)], images[::7])
    for i in range(24):
        file = io.BytesIO()
        Image.fromarray(images[i]).save(file, "PNG")
        remote.pipe_file(f"/pictures/{'ab'[i % 2]}/{i:02d}.png", file.getvalue())
    remote.pipe_file("/pictures/a/.hidden.png", b"")
    expected = [*range(0, 24, 2), *range(1, 24, 2)]
    stream, loaded = opened("memory://pictures"), load_images("memory://pictures")
    assert np.array_equal(stream[np.arange(24)], images[expected])
    assert np.array_equal(loaded.images, images[expected])
    assert (loaded.classes, loaded.names[12]) == (("a", "b"), "b/01.png")
    local = load_images(f"file://{shards}")
    assert np.array_equal(local.images, images)


def test_a_failed_fetch_is_tried_again(remote, images, opened, monkeypatch):
    monkeypatch.setattr(fetched_shards, "WAITS", (0.0, 0.0))
    stream = opened("memory://set/{000..019}.tar")
    kind, failures = type(remote), [2]
    real = kind._open

    def fails(self, path, mode="rb", **options):
        if path.endswith("007.tar") and failures[0]:
            failures[0] -= 1
            raise OSError("connection lost")
        return real(self, path, mode, **options)

    monkeypatch.setattr(kind, "_open", fails)
    for shard in range(20):  # those of the sample are dropped
        stream.source.pack.plan([shard], [])
    assert np.array_equal(stream[np.arange(84, 96)], images[84:96])
    failures[0] = 3
    stream.source.pack.plan([0], [])
    stream.source.pack.plan([7], [])  # in the background it fails, and when it is needed it is tried again
    assert stream.source.pack._shards._shards[7].exception(10) is not None
    assert np.array_equal(stream[np.arange(84, 96)], images[84:96])
    failures[0] = 100
    stream.source.pack.plan([0], [])
    with pytest.raises(CoviewsError, match=r"cannot fetch .*007\.tar: .*connection lost.* \(3 attempts\).*--resume"):
        stream[np.arange(84, 96)]


def test_dropped_shards_are_not_read_by_mistake(tmp_path):
    fetches = []

    def fetch(shard, file, check):
        fetches.append(shard)
        file.write(bytes([shard]) * 10)
        return fetched_shards.Places(np.arange(10), np.ones(10, np.uint32))

    shards = FetchedShards(fetch, tmp_path)
    held = shards(3)
    shards.plan([1, 2], [4])
    assert held.read(5, 9) == b"\3"  # whoever has it still can
    assert shards.kept == [1, 2, 4]
    assert shards(2).read(0, 9) == b"\2"
    until = time.monotonic() + 10
    while len(fetches) < 4 and time.monotonic() < until:
        time.sleep(0.01)
    assert sorted(fetches) == [1, 2, 3, 4]
    shards.close()


def test_a_shard_that_is_not_there_is_named(remote, opened, shards):
    stream = opened("memory://set/{000..024}.tar")
    assert [name for name, _ in stream.source.unreadable] == [f"memory://set/{i:03d}.tar" for i in range(20, 25)]
    with pytest.raises(CoviewsError, match=r"cannot read the shard memory://set/700\.tar"):
        opened("memory://set/{700..701}.tar")


# ------------------------------------------------------------------------------------------------------ Hugging Face


@pytest.fixture(scope="module")
def dataset(images):
    datasets = pytest.importorskip("datasets")
    names = ["x", "y", "z"]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=names)})
    rows = {"image": [Image.fromarray(i) for i in images], "label": [i % 3 for i in range(COUNT)]}
    return datasets.Dataset.from_dict(rows, features=features)


@pytest.fixture(scope="module")
def parquet(dataset, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parquet")
    for i in range(6):
        dataset.shard(num_shards=6, index=i).to_parquet(folder / f"train-{i:02d}.parquet")
    return folder


@pytest.mark.parametrize("kind", ["map", "parquet", "range", "remote", "streamed"])
def test_data_sets_of_hugging_face(kind, dataset, parquet, images, opened):
    if kind == "remote":
        system = fsspec.filesystem("memory")
        for path in parquet.iterdir():
            system.pipe_file(f"/tables/{path.name}", path.read_bytes())
    if kind == "streamed":
        import datasets

        files = sorted(str(path) for path in parquet.iterdir())
        data = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
        assert data.num_shards == 6
    else:
        data = {
            "map": dataset, "parquet": parquet, "range": f"{parquet}/train-{{00..05}}.parquet",
            "remote": "memory://tables",
        }[kind]  # fmt: skip
    stream, loaded = opened(data), load_images(data)
    assert np.array_equal(loaded.images, images)
    assert loaded.classes == ("x", "y", "z")
    assert loaded.labels.tolist() == [i % 3 for i in range(COUNT)]
    order, indices = whole_epoch(stream)
    assert sorted(indices) == list(range(COUNT))
    for first in range(0, len(order), BATCH):
        batch = order[first : first + BATCH]
        assert np.array_equal(stream[batch], images[batch])
    assert [stream.sample.classes[i] for i in stream.sample.labels] == [("x", "y", "z")[i % 3] for i in range(COUNT)]


def test_data_sets_without_images_or_with_splits(dataset, opened, tmp_path):
    import datasets

    with pytest.raises(CoviewsError, match=r"several splits: give one of them, such as data\['train'\]"):
        opened(datasets.DatasetDict({"train": dataset}))
    with pytest.raises(CoviewsError, match="no column of images: it has label"):
        opened(dataset.remove_columns("image"))
    dataset.remove_columns("image").to_parquet(tmp_path / "labels.parquet")
    with pytest.raises(CoviewsError, match=r"labels\.parquet has no column of images"):
        opened(tmp_path / "labels.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"nothing")
    with pytest.raises(CoviewsError, match=r"cannot read the shard .*broken\.parquet"):
        opened(tmp_path / "broken.parquet")


def test_what_cannot_be_streamed_is_said(opened, images):
    for data in ("shapes:50", images):
        with pytest.raises(CoviewsError, match="leave out --stream"):
            opened(data)
    with pytest.raises(CoviewsError, match="of web servers, only shards"):
        opened("https://localhost/images.zip")
