"""`export`: the files load where coviews is not installed, by the lines that are printed, and give the same."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import coviews
import coviews.encoders.onnx_file
from coviews import CoviewsError
from coviews.cli import main
from coviews.compat import import_torchvision
from coviews.encoders.architectures import make_encoder
from coviews.encoders.file import load_encoder, save_encoder
from coviews.encoders.open import open_encoder
from small_runs import SMALL

COMPAT = Path(coviews.__file__).with_name("compat.py")

# what a snippet runs in: no coviews; and torchvision also beside a torch that its operators were not built for
ALONE = f"""
import json, runpy, sys
import numpy as np

class NoCoviews:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "coviews":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoCoviews())
try:
    import coviews
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("coviews is there")
for case in json.load(open(sys.argv[1])):
    if "import torch" in case["snippet"]:
        import torch
        torch.set_num_threads(1)
        runpy.run_path({str(COMPAT)!r})["import_torchvision"]()
    names = {{}}
    exec(compile(case["snippet"], "<as printed>", "exec"), names)
    images = np.load(case["images"])
    if "torch" in names:
        result = names["features"](torch.from_numpy(images)).numpy()
        bare = names["encoder"](torch.from_numpy(images)).detach().numpy()
        np.save(case["bare"], bare)
    else:
        result = names["features"](images)
    np.save(case["result"], result)
assert not any(name.split(".")[0] == "coviews" for name in sys.modules)
"""


def encoder_file(path, name, size, channels):
    """An encoder whose batch statistics are not those of a new one, as a run leaves it."""
    torch.manual_seed(0)
    encoder = make_encoder(name, size, channels)
    encoder.train()
    with torch.no_grad():
        encoder(torch.randn(4, channels, *size) * 2 + 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_encoder(
        path, encoder, name=name, image_size=size, channels=channels, mean=(0.4, 0.5, 0.6)[:channels],
        std=(0.2, 0.25, 0.3)[:channels],
    )  # fmt: skip
    return path


def run_alone(folder, cases):
    (folder / "cases.json").write_text(json.dumps(cases))
    (folder / "alone.py").write_text(ALONE)
    done = subprocess.run(
        [sys.executable, "-I", "alone.py", "cases.json"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# name, size, channels, format, extension
KINDS = [
    ("resnet8", (16, 16), 1, "state-dict", "safetensors"),
    ("resnet8x2", (20, 16), 3, "state-dict", "pt"),
    ("resnet18", (32, 32), 3, "torchvision", "safetensors"),
    ("resnet18", (64, 64), 1, "torchvision", "pth"),
    ("resnet18", (64, 64), 3, "state-dict", "safetensors"),
    ("timm/resnet10t", (32, 32), 1, "timm", "safetensors"),
    ("timm/vit_tiny_patch16_224", (32, 48), 3, "timm", "pt"),
]


def test_the_printed_lines_give_the_same_features_without_coviews(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cases, wanted = [], []
    for i, (name, size, channels, form, kind) in enumerate(KINDS):
        source = encoder_file(tmp_path / f"run{i}" / "encoder.safetensors", name, size, channels)
        out = f"a folder/{i}.{kind}"
        assert main(["export", str(source), "--format", form, "--out", out]) == 0
        printed = capsys.readouterr()
        assert out in printed.err
        images = np.random.default_rng(i).random((3, channels, *size)).astype(np.float32)
        np.save(f"images{i}.npy", images)
        cases.append(
            {"snippet": printed.out, "images": f"images{i}.npy", "bare": f"bare{i}.npy", "result": f"result{i}.npy"}
        )
        encoder = load_encoder(source)
        mean, std = (np.array(v, np.float32).reshape(-1, 1, 1) for v in encoder.normalisation)
        with torch.no_grad():
            wanted.append([encoder(torch.from_numpy(x)).numpy() for x in (images, (images - mean) / std)])
        about = json.loads(Path(f"{out}.json").read_text())
        assert about["encoder"] == name
        assert about["image_size"] == list(size)
        assert about["channels"] == channels
        assert (tuple(about["mean"]), tuple(about["std"])) == encoder.normalisation
        assert about["features"] == wanted[-1][0].shape[1]
        assert "\n".join(about["snippet"]) + "\n" == printed.out
    run_alone(tmp_path, cases)
    for i, (bare, fed) in enumerate(wanted):
        assert np.array_equal(np.load(f"bare{i}.npy"), bare), KINDS[i]
        assert np.allclose(np.load(f"result{i}.npy"), fed, atol=1e-5, rtol=1e-5), KINDS[i]
    # the weights load into the library's own model without the lines that were not needed
    weights = torch.load("a folder/3.pth", weights_only=True)
    assert not any(key.startswith("fc.") for key in weights)


def test_exported_weights_can_still_be_opened_here(tmp_path):
    source = encoder_file(tmp_path / "run" / "encoder.safetensors", "resnet8", (16, 16), 3)
    made = coviews.export(source, out=tmp_path / "w.safetensors", progress=False)
    opened = open_encoder(made.path)
    assert opened.name == "resnet8"
    assert opened.size == (16, 16)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that has ended."""
    out = tmp_path_factory.mktemp("runs") / "my run"
    settings = SMALL.replaced(epochs=1, views="uniform", knn_every=0, out=out)
    coviews.pretrain(settings=settings, progress=False)
    return out


@pytest.fixture(scope="module")
def onnx_export(run, tmp_path_factory):
    pytest.importorskip("onnxscript")
    return coviews.export(run, "onnx", out=tmp_path_factory.mktemp("onnx") / "e.onnx", progress=False)


def test_onnx_gives_the_same_features_without_coviews(run, onnx_export):
    assert onnx_export.difference < 1e-5
    folder = onnx_export.path.parent
    images = np.random.default_rng(0).random((7, 3, 16, 16)).astype(np.float32)
    np.save(folder / "images.npy", images)
    run_alone(folder, [{"snippet": onnx_export.snippet, "images": "images.npy", "result": "result.npy"}])
    encoder = load_encoder(run)
    mean, std = (np.array(v, np.float32).reshape(-1, 1, 1) for v in encoder.normalisation)
    with torch.no_grad():
        wanted = encoder(torch.from_numpy((images - mean) / std)).numpy()
    assert np.allclose(np.load(folder / "result.npy"), wanted, atol=1e-5)


def test_the_onnx_file_says_what_it_is_and_nothing_of_this_machine(onnx_export):
    import onnx

    model = onnx.load(onnx_export.path)
    onnx.checker.check_model(model)
    assert model.opset_import[0].version == 18
    about = {entry.key: entry.value for entry in model.metadata_props}
    assert about["encoder"] == "resnet8"
    assert json.loads(about["image_size"]) == [16, 16]
    assert len(json.loads(about["mean"])) == 3
    shape = model.graph.input[0].type.tensor_type.shape.dim
    assert shape[0].dim_param  # any number of images
    assert [d.dim_value for d in shape[1:]] == [3, 16, 16]
    for weights in model.graph.initializer:
        weights.raw_data = b""  # any bytes
    assert not re.search(rb"\.py\b|site-packages", model.SerializeToString())


def test_an_onnx_file_that_gives_something_else_is_an_error(onnx_export):
    other = make_encoder("resnet8", 16, 3).eval()
    with pytest.raises(CoviewsError, match="does not give what the encoder gives"):
        coviews.encoders.onnx_file.largest_difference(onnx_export.path.read_bytes(), other, (16, 16), 3)


def test_names_and_files_by_default(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(run)]) == 0
    names = {"my run-resnet8.safetensors", "my run-resnet8.safetensors.json", "small_resnet.py"}
    assert {p.name for p in tmp_path.iterdir()} == names
    assert "import coviews" not in capsys.readouterr().out
    assert main(["export", str(run)]) == 2
    assert "is there already: choose another --out, or --overwrite" in capsys.readouterr().err
    assert main(["export", str(run), "--overwrite"]) == 0
    # the source of the small encoders is shared by all exports of a folder, but never replaced by surprise
    assert main(["export", str(run), "--out", "other.pt"]) == 0
    Path("small_resnet.py").write_text("mine")
    assert main(["export", str(run), "--out", "third.pt"]) == 2
    assert "small_resnet.py is there already" in capsys.readouterr().err
    assert not Path("third.pt").exists()


def test_an_unfinished_run_is_exported_from_its_checkpoint_and_says_so(run, tmp_path):
    import shutil

    shutil.copytree(run, tmp_path / "copy")
    (tmp_path / "copy" / "encoder.safetensors").unlink()
    with pytest.warns(UserWarning, match="has not ended: this is the encoder of its last checkpoint, after 1 epoch"):
        made = coviews.export(tmp_path / "copy", out=tmp_path / "e.pt", progress=False)
    weights = torch.load(made.path, weights_only=True)
    for name, value in load_encoder(run).state_dict().items():
        assert torch.equal(weights[name], value)


def test_bad_input_is_said_in_a_line(run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def said(*arguments):
        assert main(["export", *map(str, arguments)]) == 2
        message = capsys.readouterr().err.strip().splitlines()
        assert 1 <= len(message) <= 2
        return message[0]

    assert "unknown format 'tochvision': did you mean 'torchvision'?" in said(run, "--format", "tochvision")
    assert "take --format state-dict, or onnx" in said(run, "--format", "timm")
    assert "there is no run or file" in said("nothing")
    assert "there is no run or file" in said("resnet50")
    assert "is not a run" in said(tmp_path)
    assert "name it .safetensors or .pt or .pth" in said(run, "--out", "e.onnx")
    assert "name it .onnx" in said(run, "--format", "onnx", "--out", "e.pt")
    (tmp_path / "folder.pt").mkdir()
    assert "it is a folder" in said(run, "--out", "folder.pt")
    torch.save(make_encoder("resnet8", 16, 3).state_dict(), tmp_path / "w.pt")
    assert "is not an encoder file" in said("w.pt")
    encoder_file(tmp_path / "tv" / "encoder.safetensors", "resnet18", (32, 32), 3)
    assert "of torchvision: take --format torchvision, or onnx" in said("tv", "--format", "timm")
    monkeypatch.setattr(coviews.encoders.onnx_file.importlib.util, "find_spec", lambda name: None)
    assert "pip install 'coviews[onnx]'" in said(run, "--format", "onnx")
    assert not list(tmp_path.glob("*.onnx"))


# ------------------------------------------------------------------------------- the layout of the Hugging Face hub


@pytest.mark.parametrize(
    ("name", "size", "channels", "is_timm"),
    [
        ("timm/resnet10t", (32, 32), 5, True),
        ("timm/vit_tiny_patch16_224", (32, 48), 1, True),
        ("resnet18", (64, 64), 1, True),  # torchvision's, which timm has too
        ("resnet18", (32, 32), 3, False),  # with the stem for small images, which timm has not
        ("resnet8", (16, 16), 3, False),
    ],
)
def test_a_folder_for_the_hub_loads_and_gives_the_same(tmp_path, monkeypatch, name, size, channels, is_timm):
    import_torchvision()  # timm imports it
    import timm

    monkeypatch.chdir(tmp_path)
    file = tmp_path / "encoder.safetensors"
    torch.manual_seed(0)
    encoder = make_encoder(name, size, channels)
    mean, std = (0.4,) * channels, (0.2,) * channels
    save_encoder(file, encoder, name=name, image_size=size, channels=channels, mean=mean, std=std)
    made = coviews.export(file, "huggingface", out="for the hub", progress=False)
    images = torch.rand(2, channels, *size)
    with torch.no_grad():
        wanted = encoder.eval()((images - 0.4) / 0.2)
    exec(made.snippet, names := {})
    assert torch.allclose(names["features"](images), wanted, atol=1e-5)
    config = json.loads(Path("for the hub/config.json").read_text())
    assert config["num_features"] == wanted.shape[1]
    assert ("pretrained_cfg" in config) == is_timm
    if is_timm:
        theirs = timm.create_model("local-dir:for the hub", pretrained=True).eval()
        prepared = timm.data.resolve_data_config(model=theirs)
        assert (tuple(prepared["input_size"]), tuple(prepared["mean"])) == ((channels, *size), mean)
        with torch.no_grad():
            assert torch.equal(theirs((images - 0.4) / 0.2), names["encoder"]((images - 0.4) / 0.2))
    card = Path("for the hub/README.md").read_text()
    code = card.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir("for the hub")
    exec(code, names := {})
    assert torch.allclose(names["features"](images), wanted, atol=1e-5)
    assert open_encoder(tmp_path / "for the hub").name == name


def test_the_card_is_filled_in_from_the_run(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    record = {
        "time": "2026-01-02T03:04:05+00:00", "data": "some/a|b `c`", "test_data": None,
        "results": {
            "images": {"train": 80, "test": 20}, "knn": {"accuracy": 0.5}, "linear": {"accuracy": 0.625},
            "quality": {"rankme": 12.3456}, "baselines": {"pixels": {"knn": {"accuracy": 0.25}}},
        },
    }  # fmt: skip
    (run / "evaluations.jsonl").write_text(json.dumps(record) + "\n{cut off")
    assert main(["export", str(run), "--format", "huggingface", "--out", "hub"]) == 0
    (run / "evaluations.jsonl").unlink()
    card = Path("hub/README.md").read_text()
    assert card.startswith("---\nlibrary_name: pytorch\n")
    for line in (
        "| Images | `shapes:100`, 100 |",
        "Judged on 20 images of `a/b 'c'` (2026-01-02).",
        "| kNN, accuracy | 50.0 % | 25.0 % |",
        "| linear probe, accuracy | 62.5 % |  |",
        "Without labels: rankme 12.3.",
    ):
        assert line in card.splitlines(), line
    assert main(["export", str(run), "--format", "huggingface", "--out", "hub"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main(["export", str(run), "--format", "huggingface", "--out", "hub", "--overwrite"]) == 0
    assert "was not evaluated" in Path("hub/README.md").read_text()
