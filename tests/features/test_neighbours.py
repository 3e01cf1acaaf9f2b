"""`neighbours`: the images on the sheet are the nearest ones, and none is its own neighbour."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import coviews
import coviews.features.neighbours
from coviews import CoviewsError, load_images
from coviews.cli import main
from coviews.data.shapes.draw import SHAPE_CLASSES, make_shapes
from coviews.encoders.architectures import make_encoder
from coviews.encoders.file import load_encoder, save_encoder
from coviews.encoders.pixels import to_tensors
from coviews.pictures.neighbour_sheet import _OTHER, _SAME, Neighbour, NeighbourRow, neighbour_sheet

COUNT = 50


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("run") / "encoder.safetensors"
    module = make_encoder("resnet8", 16, 3)
    save_encoder(
        path, module, name="resnet8", image_size=(16, 16), channels=3, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25)
    )
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("data") / "mine"
    for i, (image, label) in enumerate(zip(*make_shapes(COUNT, (16, 16)), strict=True)):
        path = root / SHAPE_CLASSES[label] / f"{i:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return root


def unit_features(encoder, images):
    module = load_encoder(encoder)
    with torch.no_grad():
        found = module(to_tensors(images[:, None], *module.normalisation)[0]).numpy().astype(np.float64)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def brute_force(bank, query, count, without=None):
    similar = [(float(row @ query), -i) for i, row in enumerate(bank) if i != without]
    best = sorted(similar, reverse=True)[:count]
    return [-i for _, i in best], [s for s, _ in best]


def test_random_queries_have_the_nearest_others(encoder, folder):
    made = coviews.neighbours(encoder, folder, count=7, seed=3, progress=False)
    images = load_images(folder)
    bank = unit_features(encoder, images.images)
    names = [Path(n).name for n in images.names]
    assert len(made.queries) == 6
    assert len({images.labels[names.index(name)] for name in made.queries}) == 6  # of many classes
    for row, name in enumerate(made.queries):
        own = names.index(name)
        indices, similarities = brute_force(bank, bank[own], 7, without=own)
        assert made.indices[row].tolist() == indices
        assert np.allclose(made.similarities[row], similarities, atol=1e-5)
    again = coviews.neighbours(encoder, folder, count=7, seed=3, progress=False)
    assert again.queries == made.queries
    assert coviews.neighbours(encoder, folder, count=7, seed=4, progress=False).queries != made.queries


def test_a_query_from_elsewhere_is_fitted_to_the_encoder(encoder, folder, tmp_path, pictures):
    photo = pictures.make("photograph", 90, 120, 3)
    Image.fromarray(photo).save(tmp_path / "photo.png")
    made = coviews.neighbours(encoder, folder, query=tmp_path / "photo.png", count=COUNT, progress=False)
    bank = unit_features(encoder, load_images(folder).images)
    query = unit_features(encoder, load_images(tmp_path / "photo.png", size=16).images)[0]
    indices, similarities = brute_force(bank, query, COUNT)
    assert np.allclose(made.similarities[0], similarities, atol=1e-5)
    assert made.indices[0].tolist() == indices
    assert made.queries == ("photo.png",)


def test_a_query_that_is_one_of_the_images_is_not_its_own_neighbour(encoder, folder, tmp_path, monkeypatch):
    images = load_images(folder)
    bank = unit_features(encoder, images.images)
    own = 11
    file = folder / images.names[own]
    copy = tmp_path / "copy.png"
    copy.write_bytes(file.read_bytes())
    monkeypatch.chdir(folder.parent)
    rows = []
    monkeypatch.setattr(
        coviews.features.neighbours, "neighbour_sheet", lambda r, **_: rows.extend(r) or Image.new("L", (1, 1))
    )
    for data, query in ((folder, file), ("mine", f"mine/{images.names[own]}")):
        made = coviews.neighbours(encoder, data, query=[query, copy], count=5, out=tmp_path / "s.png", progress=False)
        assert made.indices[0].tolist() == brute_force(bank, bank[own], 5, without=own)[0]
        assert made.indices[1, 0] == own  # a file from elsewhere may well find itself
        assert made.similarities[1, 0] == pytest.approx(1, abs=1e-5)
    known, foreign = rows[:2]
    for place, shown in zip(made.indices[0], known.neighbours, strict=True):
        assert np.array_equal(shown.image, images.images[place])
        assert shown.lines[1:] == (images.classes[images.labels[place]], Path(images.names[place]).name)
        assert shown.same == (images.labels[place] == images.labels[own])
    assert [float(n.lines[0]) for n in known.neighbours] == pytest.approx(made.similarities[0].tolist(), abs=6e-4)
    assert known.query.lines == (images.classes[images.labels[own]], file.name)
    assert foreign.query.lines == ("copy.png",)
    assert all(n.same is None for n in foreign.neighbours)


def test_the_sheet_shows_every_tile_with_a_mark_for_its_class():
    rng = np.random.default_rng(0)
    tiles = rng.integers(0, 256, (13, 16, 16, 3), np.uint8)
    row = NeighbourRow(
        Neighbour(tiles[0], ("query",)),
        [
            Neighbour(t, ("0.500", "a very long file name that does not fit.png"), i % 2 == 0)
            for i, t in enumerate(tiles[1:])
        ],
    )
    sheet = np.asarray(neighbour_sheet([row, row], title="title", note="note"))
    larger = tiles.repeat(8, 1).repeat(8, 2)
    found = [place for tile in larger for place in places(sheet, tile)]
    assert len(found) == 2 * 13
    bars = {True: _SAME, False: _OTHER}
    for i, tile in enumerate(larger[1:]):
        for y, x in places(sheet, tile):
            colour = "#" + bytes(sheet[y + 128, x]).hex()
            assert colour == bars[i % 2 == 0]
    rows_of_tiles = sorted({y for y, _ in found})
    assert len(rows_of_tiles) == 4  # twelve neighbours in lines of ten, twice


def places(sheet, tile):
    """Where a picture is in a larger one."""
    height, width = tile.shape[:2]
    firsts = np.argwhere((sheet[: -height + 1, : -width + 1] == tile[0, 0]).all(-1))
    return [(y, x) for y, x in firsts if np.array_equal(sheet[y : y + height, x : x + width], tile)]


def test_grey_images_and_a_folder_of_queries(tmp_path):
    torch.manual_seed(0)
    file = tmp_path / "encoder.safetensors"
    save_encoder(
        file, make_encoder("resnet8", 16, 1), name="resnet8", image_size=(16, 16), channels=1, mean=(0.5,), std=(0.2,)
    )
    images = make_shapes(20, (16, 16))[0][..., :1]
    (tmp_path / "queries").mkdir()
    for i in range(3):
        Image.fromarray(images[i, ..., 0]).save(tmp_path / "queries" / f"{i}.png")
    out = tmp_path / "new" / "sheet.png"
    made = coviews.neighbours(file, images, query=[tmp_path / "queries"], count=4, out=out, progress=False)
    assert made.queries == ("0.png", "1.png", "2.png")
    assert made.indices[:, 0].tolist() == [0, 1, 2]
    assert made.path == out
    assert Image.open(out).size[0] > 600


def test_the_command_writes_a_sheet(encoder, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    one, other = sorted(folder.rglob("*.png"))[:2]
    args = ["neighbours", str(encoder), "--data", str(folder), "--query", str(one), "--query", str(other)]
    assert main([*args, "--count", "3"]) == 0
    assert "wrote neighbours.png: 2 images, each with its 3 nearest of 50" in capsys.readouterr().out
    assert Image.open("neighbours.png").size[1] > 300


def test_bad_input_is_said_in_a_line(encoder, folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.png").write_text("no image")
    np.save(tmp_path / "x.npy", np.zeros((2, 4, 4, 3), np.uint8))
    (tmp_path / "empty").mkdir()

    def said(*arguments):
        assert main(["neighbours", str(encoder), "--data", str(folder), *map(str, arguments)]) == 2
        message = capsys.readouterr().err.strip().splitlines()
        assert 1 <= len(message) <= 2
        return message[0]

    assert "there is no image gone.png" in said("--query", "gone.png")
    assert "cannot read the image text.png: not an image" in said("--query", "text.png")
    assert "x.npy is no image" in said("--query", "x.npy")
    assert "there is no image in empty" in said("--query", "empty")
    assert "--count 50 is more than the 49 images that there are besides the image itself" in said("--count", 50)
    assert "--count must be at least 1" in said("--count", 0)
    assert "--seed must be" in said("--seed", -1)
    assert "cannot write a picture" in said("--out", "sheet.txt")
    assert not (tmp_path / "neighbours.png").exists()


def test_too_many_queries_are_refused(encoder, folder):
    with pytest.raises(CoviewsError, match="room for 30 queries, not 60"):
        coviews.neighbours(encoder, folder, query=[folder, folder], progress=False)
