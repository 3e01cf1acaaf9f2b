"""`embed`: the features are the encoder's, the file is whole, and a kill costs one part."""

import json
import re
import shlex
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import coviews
import coviews.features.map
import coviews.features.parts
from coviews import CoviewsError, load_images
from coviews.cli import main
from coviews.data.shapes.draw import SHAPE_CLASSES, make_shapes
from coviews.encoders.architectures import make_encoder
from coviews.encoders.file import load_encoder, save_encoder
from coviews.encoders.pixels import to_tensors
from coviews.features.map import principal_components, unit_length
from coviews.pictures.drawing import PANEL
from coviews.pictures.map_picture import _COLOURS, draw_map
from small_runs import SMALL

COUNT = 70


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Images of 16 pixels in class folders."""
    root = tmp_path_factory.mktemp("data") / "mine"
    for i, (image, label) in enumerate(zip(*make_shapes(COUNT, (16, 16)), strict=True)):
        path = root / SHAPE_CLASSES[label] / f"bild ä {i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return root


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    settings = SMALL.replaced(data=str(folder), subset="60", epochs=1, views="uniform", knn_every=0, out=out)
    coviews.pretrain(settings=settings, progress=False)
    return out


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(coviews.features.parts, "PART", 16)


def direct(run, images):
    encoder = load_encoder(run)
    mean, std = encoder.normalisation
    with torch.no_grad():
        return encoder(to_tensors(images[:, None], mean, std)[0]).numpy()


def embedded(run, folder, out, **options):
    return coviews.embed(run, folder, out=out, batch_size=8, progress=False, **options)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("kind", ["npz", "parquet", None])
def test_features_are_what_the_encoder_gives(kind, run, folder, tmp_path):
    out = None if kind is None else tmp_path / "new" / f"features.{kind}"
    made = embedded(run, folder, out)
    images = load_images(folder)
    assert np.allclose(made.features, direct(run, images.images), atol=1e-5)
    assert made.shape == made.features.shape == (COUNT, 256)
    assert made.features.dtype == np.float32
    assert made.names == images.names
    assert np.array_equal(made.labels, images.labels)
    assert made.classes == images.classes
    if out is not None:
        assert made.path == out
        assert [p.name for p in out.parent.iterdir()] == [out.name]  # no parts are left


def test_the_npz_file_says_all_and_needs_no_pickle(run, folder, tmp_path):
    embedded(run, folder, tmp_path / "f.npz")
    images = load_images(folder)
    with np.load(tmp_path / "f.npz", allow_pickle=False) as file:
        assert set(file.files) == {"features", "labels", "classes", "names", "about"}
        assert file["names"].tolist() == list(images.names)
        assert np.array_equal(file["labels"], images.labels)
        assert file["classes"].tolist() == list(images.classes)
        about = json.loads(str(file["about"]))
    assert about["encoder"] == "resnet8"
    assert about["image_size"] == [16, 16]
    assert about["mean"] == pytest.approx(load_encoder(run).normalisation[0])


@pytest.mark.usefixtures("small_parts")
def test_the_parquet_file_has_a_row_for_each_image(run, folder, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    made = embedded(run, folder, tmp_path / "f.parquet")
    table = pq.read_table(tmp_path / "f.parquet")
    assert table.column_names == ["name", "label", "class", "features"]
    images = load_images(folder)
    assert table["name"].to_pylist() == list(images.names)
    assert table["class"].to_pylist() == [images.classes[i] for i in images.labels]
    assert np.array_equal(np.array(table["features"].to_pylist(), np.float32), made.features)
    assert json.loads(table.schema.metadata[b"coviews"])["encoder"] == "resnet8"


def test_images_without_labels_and_names_in_a_mapped_file(run, tmp_path):
    np.save(tmp_path / "x.npy", make_shapes(40, (16, 16))[0])
    made = embedded(run, str(tmp_path / "x.npy"), tmp_path / "f.npz")
    with np.load(tmp_path / "f.npz") as file:
        assert set(file.files) == {"features", "about"}
    assert np.allclose(made.features, direct(run, np.load(tmp_path / "x.npy")), atol=1e-5)


# ------------------------------------------------------------------------------------------------ cut off


class Killed(BaseException):
    """As sudden as a kill: nothing of ours catches it."""


@pytest.fixture
def encoded(monkeypatch):
    """Counts the images that pass the encoder, and cuts it off after some."""
    import coviews.features.embed

    state = types.SimpleNamespace(images=0, most=10**9)
    old = coviews.features.embed.feature_batches

    def spy(encoder, images, *args, **options):
        for batch in old(encoder, images, *args, **options):
            if state.images + len(batch) > state.most:
                raise Killed
            state.images += len(batch)
            yield batch

    monkeypatch.setattr(coviews.features.embed, "feature_batches", spy)
    return state


@pytest.mark.usefixtures("small_parts")
def test_a_killed_one_goes_on_and_gives_the_same_bytes(run, folder, tmp_path, encoded, capsys):
    embedded(run, folder, tmp_path / "whole.npz")
    assert encoded.images == COUNT
    encoded.images, encoded.most = 0, 40
    out = tmp_path / "cut.npz"
    with pytest.raises(Killed):
        embedded(run, folder, out)
    parts = tmp_path / "cut.npz.parts"
    assert not out.exists()
    assert sorted(p.name for p in parts.glob("0*")) == ["000000.json", "000000.npy", "000001.json", "000001.npy"]
    manifest = json.loads((parts / "000001.json").read_text())
    assert manifest.items() >= {"first": 16, "count": 16, "images": COUNT}.items()
    # a part whose manifest a kill left out does not count
    np.save(parts / "000002.npy", np.zeros((16, 256), np.float32))
    encoded.images, encoded.most = 0, 10**9
    coviews.embed(run, folder, out=out, batch_size=8)
    assert encoded.images == COUNT - 32
    assert "2 of 5 parts are there from before" in capsys.readouterr().err
    assert out.read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert not parts.exists()


@pytest.mark.usefixtures("small_parts")
def test_parts_of_another_encoder_or_other_images_are_not_used(run, folder, tmp_path, encoded, capsys):
    out = tmp_path / "f.npz"

    def cut_off():
        encoded.images, encoded.most = 0, 40
        with pytest.raises(Killed):
            embedded(run, folder, out)
        encoded.images, encoded.most = 0, 10**9

    cut_off()
    other = tmp_path / "other.safetensors"
    save_encoder(
        other, make_encoder("resnet8", 16, 3), name="resnet8", image_size=(16, 16), channels=3, mean=(0.5, 0.5, 0.5),
        std=(0.2, 0.2, 0.2),
    )  # fmt: skip
    made = coviews.embed(other, folder, out=out, batch_size=8)
    assert "of another encoder: starting anew" in capsys.readouterr().err
    assert encoded.images == COUNT
    assert np.allclose(made.features, direct(other, load_images(folder).images), atol=1e-5)

    out.unlink()
    cut_off()
    coviews.embed(run, "shapes:70", out=out, batch_size=8)
    assert "of other images: starting anew" in capsys.readouterr().err
    assert encoded.images == 70


@pytest.mark.usefixtures("small_parts")
def test_an_image_that_has_changed_is_encoded_again(run, tmp_path, encoded):
    images = make_shapes(COUNT, (16, 16))[0]
    np.save(tmp_path / "x.npy", images)
    encoded.most = 40
    with pytest.raises(Killed):
        embedded(run, tmp_path / "x.npy", tmp_path / "f.npz")
    images[3, 5, 5] ^= 1
    np.save(tmp_path / "x.npy", images)
    encoded.images, encoded.most = 0, 10**9
    made = embedded(run, tmp_path / "x.npy", tmp_path / "f.npz")
    assert encoded.images == COUNT - 16  # of two parts that were there, one is still right
    assert np.allclose(made.features, direct(run, images), atol=1e-5)


def test_two_processes_do_not_write_the_same_file(run, folder, tmp_path):
    from coviews.features.parts import FeatureParts

    held = FeatureParts(tmp_path / "f.npz.parts", {}, np.zeros((1, 4, 4, 3), np.uint8), print)
    with held, pytest.raises(CoviewsError, match="another process is at work"):
        embedded(run, folder, tmp_path / "f.npz")


def test_what_is_not_ours_stays_in_the_folder_of_the_parts(run, folder, tmp_path):
    mine = tmp_path / "f.npz.parts" / "mine.json"
    mine.parent.mkdir()
    mine.write_text("{}")
    embedded(run, folder, tmp_path / "f.npz")
    assert [p.name for p in mine.parent.iterdir()] == ["mine.json"]


def test_features_that_are_not_finite_are_refused(folder, tmp_path):
    encoder = make_encoder("resnet8", 16, 3)
    encoder.state_dict()["blocks.2.second.1.bias"][:] = float("nan")
    file = tmp_path / "e.safetensors"
    save_encoder(file, encoder, name="resnet8", image_size=(16, 16), channels=3, mean=(0.5,) * 3, std=(0.2,) * 3)
    with pytest.raises(CoviewsError, match="not finite"):
        embedded(file, folder, tmp_path / "f.npz")
    assert not (tmp_path / "f.npz").exists()


# ------------------------------------------------------------------------------------------------ which images


def test_by_default_the_runs_own_images(run, folder):
    made = coviews.embed(run, progress=False)
    assert made.names == load_images(folder, subset="60").names  # as the run's settings say
    assert coviews.embed(run, subset=20, progress=False).shape[0] == 20


def test_data_from_python_must_be_given_again(tmp_path):
    settings = SMALL.replaced(epochs=1, views="uniform", knn_every=0, out=tmp_path / "run")
    images = make_shapes(40, (16, 16))[0]
    coviews.pretrain(coviews.ImageSet(images), settings=settings, progress=False)
    with pytest.raises(CoviewsError, match=r"came from Python .*: give the images as --data"):
        coviews.embed(tmp_path / "run")
    made = coviews.embed(tmp_path / "run", images, progress=False)
    assert np.allclose(made.features, direct(tmp_path / "run", images), atol=1e-5)


def test_images_of_another_size_are_fitted_and_that_is_said(run, folder, tmp_path):
    for i in range(3):
        (tmp_path / "large").mkdir(exist_ok=True)
        Image.fromarray(make_shapes(3, (48, 64))[0][i]).save(tmp_path / "large" / f"{i}.png")
    with pytest.warns(UserWarning, match="48 x 64, colour, are fitted to 16 x 16, colour"):
        made = coviews.embed(run, tmp_path / "large", progress=False)
    assert np.allclose(made.features, direct(run, load_images(tmp_path / "large", size=16).images), atol=1e-5)
    with pytest.warns(UserWarning, match="are fitted to 16 x 16"):
        coviews.embed(run, np.zeros((2, 20, 20, 3), np.uint8), progress=False)


def test_an_unfinished_run_is_read_from_its_checkpoint(run, folder, tmp_path):
    import shutil

    shutil.copytree(run, tmp_path / "copy")
    (tmp_path / "copy" / "encoder.safetensors").unlink()
    made = coviews.embed(tmp_path / "copy", folder, progress=False)
    assert np.allclose(made.features, direct(run, load_images(folder).images), atol=1e-5)


# ------------------------------------------------------------------------------------------------ the map


def test_principal_components_are_those_of_the_svd():
    values = np.random.default_rng(0).normal(size=(200, 6)) * (5, 3, 1, 1, 0.5, 0.1)
    points, shares = principal_components(values)
    u, s, _ = np.linalg.svd(values - values.mean(0), full_matrices=False)
    for i in range(2):
        wanted = u[:, i] * s[i]
        assert np.allclose(points[:, i], wanted) or np.allclose(points[:, i], -wanted)
    assert np.allclose(shares, s[:2] ** 2 / (s**2).sum())
    again, _ = principal_components(values[:1])
    assert np.isfinite(again).all()
    assert np.allclose(np.linalg.norm(unit_length(values.astype(np.float32)), axis=1), 1)


def test_each_point_is_drawn_where_it_belongs_in_the_colour_of_its_class():
    points = np.array([[0.0, 0.0], [0.0, 4.0], [4.0, 0.0], [4.0, 4.0]])
    picture = np.asarray(draw_map(points, np.arange(4), ("a", "b", "c", "d"))).astype(int)
    plane = picture[:, :870]  # without the legend
    places = []
    for colour in _COLOURS[:4]:
        wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
        mixed = wanted * 200 / 255 + 242 * 55 / 255  # somewhat transparent
        near = np.abs(plane - mixed).sum(-1) < 15
        assert near.any(), colour
        places.append(np.argwhere(near).mean(0))
    bottom_left, top_left, bottom_right, top_right = places
    assert bottom_left[0] > top_left[0] + 500
    assert bottom_right[1] > bottom_left[1] + 500
    assert np.allclose(top_right, (top_left[0], bottom_right[1]), atol=3)


def test_colours_differ_for_colour_blind_people():
    """Simulated by the matrices of Machado, Oliveira and Fernandes (2009) at full severity, compared in Lab."""
    blind = {
        "none": np.eye(3),
        "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    }
    colours = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in (*_COLOURS, PANEL)])
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    for kind, matrix in blind.items():
        xyz = np.clip(linear @ np.array(matrix).T, 0, 1) @ to_xyz.T / (0.9505, 1, 1.089)
        f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
        lab = np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], 1)
        distances = np.linalg.norm(lab[:, None] - lab[None], axis=-1)[np.triu_indices(len(lab), 1)]
        assert distances.min() > 15, (kind, distances.min())  # 2.3 is what can just be seen


def test_many_classes_have_marks_of_their_own_and_the_rest_is_grey():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 60, 500)
    names = tuple(f"class {i}" for i in range(60))
    picture = draw_map(rng.normal(size=(500, 2)), labels, names, title="t", note="n", axes=("x", "y"))
    assert picture.width > 900
    assert draw_map(rng.normal(size=(5, 2)), None, None).width < 900  # no legend
    assert draw_map(np.zeros((1, 2)), None, None).height > 500


def test_a_map_is_written(run, folder, tmp_path, monkeypatch, capsys):
    args = ["embed", str(run), "--out", str(tmp_path / "f.npz"), "--map", str(tmp_path / "map.png")]
    assert main(args) == 0
    said = capsys.readouterr().out
    assert "60 images, 256 features each, with names and labels" in said
    assert "map.png" in said
    assert Image.open(tmp_path / "map.png").size[0] > 800
    seen = []
    monkeypatch.setattr(coviews.features.embed, "MAP_POINTS", 10)
    monkeypatch.setattr(
        coviews.features.embed, "feature_map", lambda *a, **k: seen.append((a, k)) or Image.new("L", (1, 1))
    )
    coviews.embed(run, out=tmp_path / "g.npz", map=tmp_path / "m.png", progress=False)
    coviews.embed(run, map=tmp_path / "m.png", progress=False)
    for (some, labels, _), options in seen:
        assert some.shape == (10, 256)
        assert options["of"] == 60
        whole = np.load(tmp_path / "g.npz")
        places = [int(np.abs(whole["features"] - row).sum(1).argmin()) for row in some]
        assert np.array_equal(whole["labels"][places], labels)


def test_umap_is_asked_for_a_plane_by_cosine(run, tmp_path, monkeypatch):
    asked = {}

    class UMAP:
        def __init__(self, **options):
            asked.update(options)

        def fit_transform(self, features):
            return np.asarray(features)[:, :2]

    monkeypatch.setitem(sys.modules, "umap", types.SimpleNamespace(UMAP=UMAP))
    monkeypatch.setattr(coviews.features.map.importlib.util, "find_spec", lambda name: object())
    coviews.embed(run, map=tmp_path / "m.png", map_method="umap", seed=3, progress=False)
    assert asked["metric"] == "cosine"
    assert asked["random_state"] == 3
    assert asked["init"].shape == (60, 2)
    with pytest.raises(CoviewsError, match="at least 4 images"):
        coviews.embed(run, subset=3, map=tmp_path / "m.png", map_method="umap", progress=False)


@pytest.mark.slow
def test_umap_itself(run, tmp_path):
    pytest.importorskip("umap")
    for name in "ab":
        coviews.embed(run, map=tmp_path / f"{name}.png", map_method="umap", progress=False)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


# ------------------------------------------------------------------------------------------------ bad input


def said(capsys, *arguments):
    assert main(["embed", *map(str, arguments)]) == 2
    message = capsys.readouterr().err.strip().splitlines()
    errors = [line for line in message if not line.startswith("warning:")]
    assert 1 <= len(errors) <= 2
    return errors[0]


def test_bad_input_is_said_in_a_line(run, folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "name it .npz or .parquet" in said(capsys, run, "--out", "f.csv")
    (tmp_path / "there.npz").write_bytes(b"x")
    assert "is there already: choose another --out, or --overwrite" in said(capsys, run, "--out", "there.npz")
    assert (tmp_path / "there.npz").read_bytes() == b"x"
    (tmp_path / "folder.npz").mkdir()
    assert "it is a folder" in said(capsys, run, "--out", "folder.npz", "--overwrite")
    assert "there is no run or file" in said(capsys, tmp_path / "nothing", "--out", "f.npz")
    assert "is not a run" in said(capsys, folder, "--out", "f.npz")
    assert "no file or folder" in said(capsys, run, "--data", "nothing/here")
    assert "did you mean 'umap'?" in said(capsys, run, "--map", "m.png", "--map-method", "ucap")
    assert "cannot write a picture" in said(capsys, run, "--map", "m.mp3")
    assert "unknown device 'cpi': did you mean 'cpu'?" in said(capsys, run, "--device", "cpi")
    assert "--batch-size" in said(capsys, run, "--batch-size", 0)
    weights = tmp_path / "w.pt"
    torch.save(make_encoder("resnet8", 16, 3).state_dict(), weights)
    assert "give --architecture" in said(capsys, weights, "--data", folder)
    assert "is not of the encoder resnet18" in said(capsys, weights, "--data", folder, "--architecture", "resnet18")
    assert "say which images" in said(capsys, weights, "--architecture", "resnet8")
    assert not (tmp_path / "features.npz").exists()
    assert main(["embed", str(weights), "--data", str(folder), "--architecture", "resnet8"]) == 0
    assert main(["embed", str(run), "--out", "there.npz", "--overwrite"]) == 0
    assert np.load("there.npz")["features"].shape == (60, 256)


def test_what_is_not_installed_is_named(run, monkeypatch, tmp_path):
    monkeypatch.setattr(coviews.features.map.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CoviewsError, match=r"pip install 'coviews\[map\]'"):
        coviews.embed(run, map=tmp_path / "m.png", map_method="umap")
    with pytest.raises(CoviewsError, match=r"pip install 'coviews\[parquet\]'"):
        coviews.embed(run, out=tmp_path / "f.parquet")


def test_a_run_whose_data_are_gone_says_so(run, tmp_path, capsys):
    import shutil

    shutil.copytree(run, tmp_path / "copy")
    config = tmp_path / "copy" / "config.yaml"
    lines = config.read_text().splitlines()
    config.write_text("\n".join("data: gone/away" if line.startswith("data:") else line for line in lines))
    message = said(capsys, tmp_path / "copy", "--out", tmp_path / "f.npz")
    assert "cannot load the data of the run" in message
    assert "go to the folder in which the run was started" in message
    assert "--data" in message


# ------------------------------------------------------------------------------------------------ the page


def test_the_page_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    """But for what takes long, which has tests of its own."""
    page = (Path(__file__).parents[2] / "docs" / "use-the-encoder.md").read_text()
    monkeypatch.chdir(tmp_path)
    settings = SMALL.replaced(epochs=1, views="uniform", knn_every=0, out=Path("runs/demo"))
    coviews.pretrain(settings=settings, progress=False)
    for i, image in enumerate(make_shapes(40, (16, 16))[0]):
        path = Path("my/folder", "ab"[i % 2], f"{i}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    commands = [line for line in page.splitlines() if line.startswith("coviews ")]
    assert len(commands) == 9
    for line in commands:
        if "onnx" not in line:
            assert main(shlex.split(line)[1:]) == 0, line
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, {})
    assert "(40, 256) a/0.png ('a', 'b')" in capsys.readouterr().out
    for name in ("map.png", "pair.png", "mine.parquet", "encoder.safetensors", "encoder.safetensors.json"):
        assert Path(name).stat().st_size > 100


def test_options_as_a_whole_or_by_name(run, tmp_path):
    some = coviews.EmbedOptions(subset="20", batch_size=8, progress=False)
    assert coviews.embed(run, options=some).shape[0] == 20
    assert coviews.embed(run, options=some, subset=10).shape[0] == 10  # a name changes one of them
    with pytest.raises(CoviewsError, match="unknown option 'sise': did you mean 'size'"):
        coviews.embed(run, sise=3)
    with pytest.raises(CoviewsError, match="--batch-size must be 1 or more"):
        coviews.EmbedOptions(batch_size=0)
    with pytest.raises(CoviewsError, match="unknown format 'onx': did you mean 'onnx'"):
        coviews.export(run, options=coviews.ExportOptions(out=tmp_path / "e.onnx"), format="onx")
