"""Encoder files, state dicts, checkpoints and run folders of others: refused in a line, before memory is allocated."""

import json
import zipfile

import numpy as np
import pytest
import safetensors.torch
import torch

from coviews import CoviewsError, load_encoder
from coviews.boundary.checkpoints import is_plain_tensor, read_pickled
from coviews.comparison.results import Results, read_results
from coviews.encoders.architectures import make_encoder
from coviews.encoders.file import save_encoder
from coviews.encoders.open import open_encoder
from coviews.errors import LONGEST
from coviews.report.record import read_run
from coviews.runs.folder import Run, read_checkpoint
from coviews.runs.settings import PretrainSettings


@pytest.fixture(scope="module")
def encoder_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("encoder") / "encoder.safetensors"
    encoder = make_encoder("resnet8", 32, 3)
    save_encoder(path, encoder, name="resnet8", image_size=(32, 32), channels=3, mean=(0.5,) * 3, std=(0.2,) * 3)
    return path


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("encoder", 3, "encoder: expected str . null, got int"), ("encoder", [], "encoder: expected str"),
        ("encoder", "resnet9", "unknown encoder"), ("encoder", "resnet18", "is not of the encoder resnet18"),
        ("encoder", "timm/vit_giant_patch14_clip_224", "is not of the encoder timm/vit_giant"),
        ("image_size", [10**9, 10**9], "image_size.0.: expected int <= 16384"), ("image_size", 32, "expected array"),
        ("image_size", [0, 32], "expected int >= 1"), ("channels", -1, "channels: expected int >= 1"),
        ("channels", 1e308, "channels: expected int"), ("mean", [0.5], "a mean and a std for each of 3"),
        ("std", [[]], "std"), ("std", [-1, 1, 1], "must not be negative"), ("depth", 12, "depth: invalid"),
        ("values", 7, "values"), ("values", [[1, 0]] * 3, "a range of values"), ("format", 9, "format 9"),
        ("format", None, "format: expected int"), ("more", 1, "unknown field more"),
    ],
)  # fmt: skip
def test_a_wrong_description(encoder_file, tmp_path, name, value, said):
    with safetensors.safe_open(encoder_file, "pt") as file:
        description = json.loads(file.metadata()["coviews"])
    weights = safetensors.torch.load_file(encoder_file)
    path = tmp_path / "encoder.safetensors"
    path.write_bytes(safetensors.torch.save(weights, {"coviews": json.dumps({**description, name: value})}))
    for read in (load_encoder, open_encoder):
        with pytest.raises(CoviewsError, match=said) as error:
            read(path)
        assert len(str(error.value)) <= LONGEST


def test_large_images_of_an_encoder_need_no_memory(encoder_file, tmp_path):
    with safetensors.safe_open(encoder_file, "pt") as file:
        description = json.loads(file.metadata()["coviews"])
    description["image_size"] = [16384, 16384]
    path = tmp_path / "encoder.safetensors"
    weights = safetensors.torch.load_file(encoder_file)
    path.write_bytes(safetensors.torch.save(weights, {"coviews": json.dumps(description)}))
    assert load_encoder(path).feature_count == 256  # tried on smaller ones


STATES = {
    "no text as a name": {3: torch.zeros(2)},
    "a sparse tensor": {"conv1.weight": torch.zeros(2, 2).to_sparse()},
    "a tensor without memory": {"conv1.weight": torch.zeros(2, 2, device="meta")},
    "one number as many": {"conv1.weight": torch.zeros(1).expand(10**12)},
    "a list": [1, 2],
    "a number": 3,
    "nothing": {},
    "a stem of another kind": {"conv1.weight": torch.zeros(3)},
    "texts": {"a": "b"},
}


@pytest.mark.parametrize("case", STATES)
def test_hostile_state_dicts(tmp_path, case):
    torch.save(STATES[case], tmp_path / "w.pt")
    with pytest.raises(CoviewsError, match=r"w\.pt"):
        open_encoder(tmp_path / "w.pt", architecture="resnet18")


def test_only_plain_tensors_are_plain():
    assert is_plain_tensor(torch.zeros(3, 4).T)
    assert is_plain_tensor(torch.nn.Parameter(torch.zeros(())))
    assert not is_plain_tensor(np.zeros(3))
    assert not is_plain_tensor(torch.zeros(1).expand(9))


def test_files_of_torch_that_are_damaged(tmp_path):
    torch.save({"a": torch.arange(1000)}, tmp_path / "w.pt")
    whole = (tmp_path / "w.pt").read_bytes()
    rng, refused = np.random.default_rng(0), 0
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 + rng.integers(255)
        (tmp_path / "w.pt").write_bytes(damaged if rng.random() < 0.7 else damaged[: rng.integers(len(whole))])
        try:
            read_pickled(tmp_path / "w.pt", "checkpoint")
        except CoviewsError:
            refused += 1
    assert refused > 30
    with zipfile.ZipFile(tmp_path / "w.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10**7))
    with pytest.raises(CoviewsError, match="is compressed"):
        read_pickled(tmp_path / "w.pt", "checkpoint")


CHECKPOINT = {
    "format": 3, "metrics": 0, "settings": "{}", "data": [1, 2.0], "epoch": 1, "step": 0, "total": 0.0, "searched": 0,
    "queued": [], "quality": {}, "untrained": {}, "seconds": {}, "method": {}, "optimizer": {}, "precision": {},
    "search": {},
}  # fmt: skip


CONTAINS_ITSELF: dict = {}
CONTAINS_ITSELF["a"] = CONTAINS_ITSELF
MANY_TIMES_OVER: list = [1] * 100
for _ in range(5):  # few bytes in a file, and 10 billion values for whoever reads them one by one
    MANY_TIMES_OVER = [MANY_TIMES_OVER] * 40


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epoch", "1"), ("epoch", 0), ("epoch", [1]), ("step", -1), ("metrics", -5), ("metrics", 1.5), ("queued", 3),
        ("queued", ["x"]), ("seconds", []), ("quality", {"knn": "high"}), ("method", []), ("method", {3: 4}),
        ("method", {"a": 3}), ("settings", None), ("data", "x"), ("format", "3"), ("search", 5),
        ("format", torch.zeros(3)), ("quality", torch.zeros(3)), ("method", torch.zeros(3)), ("looks", [1]),
        ("hard views", 3), ("keeping", None), ("seconds", {"training": float("inf")}), ("seconds", {"training": -1.0}),
        ("optimizer", {"state": {0: torch.zeros(2, 2).to_sparse()}}),
        ("search", {"ops": torch.empty(5, device="meta")}),
        ("optimizer", {(1, 2): 3}), ("search", CONTAINS_ITSELF), ("looks", {"neighbours": MANY_TIMES_OVER}),
    ],
)  # fmt: skip
def test_what_is_in_a_checkpoint_is_checked_before_it_is_used(tmp_path, name, value):
    torch.save(CHECKPOINT, tmp_path / "last.pt")
    assert read_checkpoint(tmp_path / "last.pt")["epoch"] == 1
    torch.save({**CHECKPOINT, name: value}, tmp_path / "last.pt")
    with pytest.raises(CoviewsError, match=r"the checkpoint .*last\.pt"):
        read_checkpoint(tmp_path / "last.pt")


START = {"kind": "start", "height": 32, "width": 32, "channels": 3, "mean": [0.5] * 3, "std": [0.2] * 3}
LINES = {
    "no line": "", "a list": "[1, 2]", "a number": "3", "null": "null", "deep": "[" * 5000,
    "no fields": '{"kind": "start"}',
    "huge": json.dumps({**START, "height": 1e308}), "negative": json.dumps({**START, "width": -1}),
    "large": json.dumps({**START, "height": 20_000, "width": 20_000}), "mean": json.dumps({**START, "mean": "x"}),
    "beyond a double": json.dumps({**START, "height": 10**400}), "values": json.dumps({**START, "values": {"a": 1}}),
    "kind": '{"kind": ["start"]}', "channels": json.dumps({**START, "channels": 10**9}),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_metrics_of_an_unfinished_run(tmp_path, case):
    Run.create(tmp_path / "run", PretrainSettings(data="shapes:300", encoder="resnet8")).close()
    (tmp_path / "run" / "metrics.jsonl").write_text(LINES[case] + "\n")
    torch.save(CHECKPOINT, tmp_path / "run" / "checkpoints" / "last.pt")
    with pytest.raises(CoviewsError, match="how the run"):
        open_encoder(tmp_path / "run")
    run = read_run(tmp_path / "run")
    assert run.epochs_done == 0
    assert run.missing


def test_a_folder_named_like_a_partial_checkpoint(tmp_path):
    run = Run.create(tmp_path / "run", PretrainSettings(data="shapes:300"))
    run.close()
    (tmp_path / "run" / "checkpoints" / ".last.pt.1.partial").mkdir()
    (tmp_path / "run" / "checkpoints" / ".last.pt.2.partial").write_bytes(b"half")
    Run.open(tmp_path / "run").close()
    assert [p.name for p in (tmp_path / "run" / "checkpoints").iterdir()] == [".last.pt.1.partial"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"runs": [1]}, "runs.0.: expected object"), ({"runs": {}}, "runs: expected array"),
        ({"format": "1"}, "format"),
        ({"format": 2}, "format 2"), ({"evaluation": []}, "evaluation"), ({"variants": {"a": 3}}, "variants"),
        ({"variants": {"a": {"epochs": "x"}}}, "epochs must be of the type int"), ({"other": 1}, "unknown field"),
    ],
)  # fmt: skip
def test_results_of_a_comparison(tmp_path, change, said):
    path = tmp_path / "results.json"
    Results().save(path)
    assert read_results(path).runs == []
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CoviewsError, match=said):
        read_results(path)
