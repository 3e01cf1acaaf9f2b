"""Images of six channels and 16 bits from end to end: a folder of TIFF files is trained on, judged and shown."""

import json

import msgspec
import numpy as np
import pytest
import tifffile

import coviews
from coviews import CoviewsError
from coviews.cli import main
from coviews.data.load import load_images
from coviews.encoders.file import describe_encoder, save_encoder
from coviews.runs.folder import Run
from small_runs import SMALL

CHANNELS = 6
QUIET = "--no-tensorboard --no-progress --accelerator cpu"


def make_fields(folder, n=60, side=24, seed=0, offset=0):
    """Two classes of textures that differ in the direction of their stripes and in the fourth channel."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side] / side
    for i in range(n):
        kind = i % 2
        waves = np.sin(2 * np.pi * (4 * (x if kind else y) + generator.uniform()))
        spectrum = np.array([0.3, 0.4, 0.5, 0.3 + 0.5 * kind, 0.6, 0.2])
        values = 300 + 1000 * spectrum * (1 + 0.4 * waves[..., None]) + generator.normal(0, 20, (side, side, CHANNELS))
        path = folder / ("ab"[kind]) / f"{i:03}.tif"
        path.parent.mkdir(parents=True, exist_ok=True)
        image = (values + offset).astype(np.uint16)
        tifffile.imwrite(path, image, photometric="minisblack", planarconfig="contig")
    return folder


@pytest.fixture(scope="module")
def fields(tmp_path_factory):
    return make_fields(tmp_path_factory.mktemp("fields") / "train")


@pytest.fixture(scope="module")
def run(fields, tmp_path_factory):
    """A run of two epochs on the folder, made by the command line, and what it said."""
    out = tmp_path_factory.mktemp("runs") / "run"
    options = "--encoder resnet8 --projector 32 --epochs 2 --warmup-epochs 1 --batch-size 20 --knn-every 1"
    options += " --views coviews"
    words = ["pretrain", str(fields), *options.split(), *QUIET.split(), "--show-channels", "4,2,1", "--out", str(out)]
    assert main(words) == 0
    return out


def start_of(run):
    return next(r for r in Run.open(run, writes=False).metrics() if r["kind"] == "start")


def test_the_run_and_its_encoder_know_channels_depth_and_range(run, fields):
    images = load_images(fields)
    start, description = start_of(run), describe_encoder(run / "encoder.safetensors")
    for about in (start, msgspec.to_builtins(description)):
        assert (about["channels"], about["depth"]) == (CHANNELS, 16)
        assert len(about["mean"]) == len(about["std"]) == CHANNELS
        assert np.allclose(about["values"], images.values)
    assert Run.open(run, writes=False).settings.space == "channels"
    encoder = coviews.load_encoder(run)
    assert next(encoder.parameters()).shape[1] == CHANNELS


def test_learned_views_are_of_operations_that_fit(run):
    (policy,) = sorted((run / "policies").glob("*.safetensors"))
    assert not coviews.load_policy(policy).space.unfit(CHANNELS, np.uint16)


def test_it_is_evaluated_embedded_and_shown(run, fields, tmp_path, capsys):
    evaluation = coviews.evaluate(run, progress=False)
    assert evaluation.results["images"]["train"] + evaluation.results["images"]["test"] == 60
    assert main(["embed", str(run), "--out", str(tmp_path / "f.npz"), "--map", str(tmp_path / "m.png")]) == 0
    with np.load(tmp_path / "f.npz") as archive:
        assert archive["features"].shape == (60, 256)
        assert json.loads(str(archive["about"]))["depth"] == 16
    assert main(["neighbours", str(run), "--out", str(tmp_path / "n.png"), "--show-channels", "2"]) == 0
    assert main(["preview", str(fields), "--out", str(tmp_path / "sheet.png"), "--show-channels", "4,3,2"]) == 0
    page = (run / "report.html").read_text()
    assert "6 channels, 16 bits" in page
    assert "channels 4, 2, 1 of 6 are shown as red, green and blue" in page
    assert "No images are shown" not in page
    assert "is not tried" not in page
    assert main(["report", str(run), "--out", str(tmp_path / "again.html")]) == 0
    assert page.count("data:image/png") == (tmp_path / "again.html").read_text().count("data:image/png") > 20
    capsys.readouterr()
    assert main(["preview", str(fields), "--out", str(tmp_path / "sheet.png"), "--show-channels", "7"]) == 2
    assert "there is no channel 7 to show: the images have 6 channels" in capsys.readouterr().err


def test_new_images_are_scaled_as_those_of_the_training(run, tmp_path):
    brighter = make_fields(tmp_path / "new", n=6, seed=1, offset=400)
    values = start_of(run)["values"]
    expected = load_images(brighter, values=values)
    assert not np.array_equal(expected.images, load_images(brighter).images)
    by_folder = coviews.embed(run, brighter, progress=False).features
    assert np.allclose(by_folder, coviews.embed(run, expected, progress=False).features, atol=1e-5)
    (run / "encoder.safetensors").rename(run / "hidden")  # from the checkpoint, as while a run goes on
    try:
        assert np.allclose(by_folder, coviews.embed(run, brighter, progress=False).features, atol=1e-5)
    finally:
        (run / "hidden").rename(run / "encoder.safetensors")


@pytest.mark.parametrize("format", ["state-dict", "onnx"])
def test_an_export_works_on_the_values_of_the_files(run, fields, tmp_path, format):
    suffix = "onnx" if format == "onnx" else "safetensors"
    exported = coviews.export(run, format=format, out=tmp_path / f"e.{suffix}", progress=False)
    names: dict = {}
    exec(exported.snippet, names)
    files = sorted(fields.glob("*/*.tif"))[:4]
    raw = np.stack([tifffile.imread(file) for file in files]).astype(np.float32).transpose(0, 3, 1, 2)
    if format == "onnx":
        made = names["features"](raw)
    else:
        import torch

        made = names["features"](torch.from_numpy(raw)).numpy()
    expected = coviews.embed(run, progress=False).features[:4]
    assert np.allclose(made, expected, atol=2e-3 * np.abs(expected).max())


def test_what_does_not_fit_is_an_error_of_a_line(run, fields, tmp_path, capsys):
    pictures = np.random.default_rng(0).integers(0, 256, (30, 24, 24, 3), np.uint8)
    with pytest.raises(CoviewsError, match="have 3 channels, and 6 are needed"):
        coviews.embed(run, pictures, progress=False)
    small = SMALL.replaced(epochs=1, views="uniform", knn_every=0, batch_size=20, space=None)
    policy = tmp_path / "rgb.safetensors"
    generator = np.random.default_rng(0)
    coviews.Policy.untrained(coviews.space("all"), generator, kind="coviews").save(policy)
    for changes, says in (
        ({"views": str(policy)}, "operations that 6 channels of 16 bits do not allow"),
        ({"show_channels": "8,1,1"}, "there is no channel 8 to show"),
        ({"channels": 3}, "have 6 channels, and 3 are needed"),
    ):
        with pytest.raises(CoviewsError, match=says) as raised:
            coviews.pretrain(fields, settings=small.replaced(**changes), progress=False, out=tmp_path / "x")
        assert len(str(raised.value).splitlines()) == 1
    assert main(["preview", str(fields), "--views", str(policy), "--out", str(tmp_path / "s.png")]) == 2
    assert "do not allow" in capsys.readouterr().err


def test_the_recipe_leaves_out_what_needs_colours_and_says_so(fields, tmp_path, capsys):
    words = "--views simclr --encoder resnet8 --projector 32 --epochs 1 --batch-size 20 --knn-every 0 --no-report"
    quiet = "--no-tensorboard --accelerator cpu"
    assert main(["pretrain", str(fields), *words.split(), *quiet.split(), "--out", str(tmp_path / "run")]) == 0
    said = " ".join("".join(capsys.readouterr()).split())
    assert "scaled to 0 to 65,535" in said
    assert "6 channels, 16 bits" in said
    left_out = "left out, because such images do not allow them: Saturation, Hue, Grayscale"
    assert left_out in said
    assert main(["preview", str(fields), "--views", "simclr", "--out", str(tmp_path / "sheet.png")]) == 0
    assert left_out in capsys.readouterr().err


def test_a_stopped_run_goes_on_as_if_nothing_had_happened(run, fields, tmp_path):
    """The space was chosen by the images: it is the same when the run is continued."""
    settings = SMALL.replaced(
        views="uniform", epochs=2, knn_every=0, batch_size=20, keep_every=1, space=None, size=None
    )
    whole = coviews.pretrain(fields, settings=settings, progress=False, out=tmp_path / "run")
    before = (whole.path / "encoder.safetensors").read_bytes()
    (whole.path / "encoder.safetensors").unlink()
    (kept,) = [p for p in (whole.path / "checkpoints").iterdir() if "1" in p.stem]
    kept.rename(whole.path / "checkpoints" / "last.pt")
    coviews.pretrain(fields, settings=settings, resume=whole.path, progress=False)
    assert (whole.path / "encoder.safetensors").read_bytes() == before


def test_depth_8_and_grey_images_of_16_bits(tmp_path):
    generator = np.random.default_rng(0)
    deep = generator.integers(300, 1301, (40, 16, 16), np.uint16)
    settings = SMALL.replaced(epochs=1, views="random", knn_every=0, space=None)
    one = coviews.pretrain(deep, settings=settings, progress=False, out=tmp_path / "deep")
    assert start_of(one.path)["depth"] == 16
    other = coviews.pretrain(deep, settings=settings.replaced(depth=8), progress=False, out=tmp_path / "plain")
    start = start_of(other.path)
    assert (start["depth"], start["channels"]) == (8, 1)
    assert start["values"] is not None
    assert Run.open(other.path, writes=False).settings.space == "all"
    with pytest.warns(UserWarning, match="these are plain 8-bit images"):
        coviews.embed(one.path, (deep // 6).astype(np.uint8), progress=False)


def test_the_file_of_an_encoder_with_a_wrong_range_is_refused(run, tmp_path):
    encoder = coviews.load_encoder(run)
    about = {"name": "resnet8", "image_size": (24, 24), "channels": 6, "mean": (0.5,) * 6, "std": (0.2,) * 6}
    for values in (((0.0, 1.0),), ((1.0, 0.0),) * 6, ((float("nan"), 1.0),) * 6):
        save_encoder(tmp_path / "e.safetensors", encoder, **about, depth=16, values=values)
        with pytest.raises(CoviewsError, match="its description is"):
            describe_encoder(tmp_path / "e.safetensors")
