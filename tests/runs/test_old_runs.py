"""Runs and results of version 0.1.0 still open: its settings had other names."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml

import small_runs
from coviews import PPOSettings, TableSettings, embed, evaluate, export, load_policy, make_encoder, pretrain
from coviews.cli import main
from coviews.comparison.results import read_results
from coviews.encoders.file import save_encoder
from coviews.methods.moco import MoCoSettings
from coviews.methods.simclr import SimCLRSettings
from coviews.report.record import read_run
from coviews.report.write import write_report
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import parse_settings, read_settings, settings_yaml
from coviews.training.signals import Stopped

ROOT = Path(__file__).parents[2]
OLD = Path(__file__).parents[1] / "old_runs"  # without encoders and checkpoints, which are large
BASE = PretrainSettings(
    data="shapes",
    subset="256",
    encoder="resnet8",
    epochs=4,
    batch_size=64,
    lr=0.12,
    warmup_epochs=1,
    knn_every=2,
    views="coviews",
    precision="32-true",
    hard_views=4,
    hard_crops=0,
)
EXPECTED = {
    "table-simclr": dataclasses.replace(
        BASE, out=Path("table-simclr"), space="simclr", search=TableSettings(prior="simclr"),
    ),
    "ppo": dataclasses.replace(
        BASE, out=Path("ppo"), space="all",
        search=PPOSettings(every=2, iterations=8, samples=64, batch=64, images_each=1),
    ),
    "moco": dataclasses.replace(BASE, out=Path("moco"), space="all", method=MoCoSettings(bank=256)),
}  # fmt: skip


@pytest.fixture(params=EXPECTED)
def run(request, tmp_path):
    """A run's folder, with an encoder as training would have left it."""
    path = tmp_path / "runs" / request.param
    shutil.copytree(OLD / request.param, path)
    start = json.loads((path / "metrics.jsonl").read_text().splitlines()[0])
    torch.manual_seed(0)
    save_encoder(
        path / "encoder.safetensors", make_encoder("resnet8", (32, 32), 3), name="resnet8", image_size=(32, 32),
        channels=3, mean=tuple(start["mean"]), std=tuple(start["std"]),
    )  # fmt: skip
    return path


def test_its_settings_are_read(run):
    settings = read_settings(run / "config.yaml")
    assert settings.settled() == EXPECTED[run.name].settled()
    assert parse_settings(settings_yaml(settings), "written anew") == settings.settled()


@pytest.mark.parametrize(("crop", "flip"), [(True, True), (False, True), (True, False), (False, False)])
@pytest.mark.parametrize("layout", ["old", "present"])
def test_crop_and_flip_were_yes_or_no(layout, crop, flip, tmp_path):
    content = yaml.safe_load((OLD / "ppo" / "config.yaml").read_text())
    if layout == "present":
        content = yaml.safe_load(settings_yaml(EXPECTED["ppo"]))
        del content["flip_vertical"], content["quarter_turns"], content["view_size"]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**content, "crop": crop, "flip": flip}))
    expected = {"crop": "random" if crop else "none", "flip": 0.5 if flip else 0.0}
    settings = dataclasses.replace(EXPECTED["ppo"], **expected)
    assert read_settings(tmp_path / "config.yaml").settled() == settings.settled()


def test_everything_opens_it(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert read_run(run).missing == []
    assert EXPECTED[run.name].search.name in write_report(run).read_text()
    results = evaluate(run, device="cpu", progress=False, baselines=False)
    assert results.file == run / "evaluations.jsonl"
    assert embed(run, device="cpu", progress=False).features.shape == (256, 256)
    assert export(run, out=tmp_path / "e.safetensors", progress=False).path.exists()

    file = run / "policies" / "0004.safetensors"
    load_policy(file)
    words = "--size 16 --encoder resnet8 --epochs 1 --batch-size 32 --projector 32 --knn-every 0 --no-tensorboard"
    words += " --no-report --no-progress --accelerator cpu --out later"
    assert main(["pretrain", "shapes:64", "--views", str(file), *words.split()]) == 0, capsys.readouterr().err


def test_a_run_is_made_again_from_its_old_file(tmp_path, run):
    """With --config; what the options change wins."""
    words = "--subset 64 --size 16 --epochs 2 --batch-size 32 --knn-every 0 --no-tensorboard --no-report --no-progress"
    if run.name == "ppo":
        words += " --search.samples 8 --search.minibatch 8 --search.batch 8 --search.iterations 1"
    arguments = ["--config", str(run / "config.yaml"), "--out", str(tmp_path / "again"), "--accelerator", "cpu"]
    assert main(["pretrain", *arguments, *words.split()]) == 0
    again = read_settings(tmp_path / "again" / "config.yaml")
    assert (again.method, again.search.name) == (EXPECTED[run.name].method, EXPECTED[run.name].search.name)
    assert (again.epochs, again.lr) == (2, 0.12)


def test_a_run_that_was_stopped_is_resumed(run, tmp_path):
    """A checkpoint of that version: its settings as text, and the table beside them."""
    changes = {
        "subset": "64", "size": 16, "epochs": 3, "batch_size": 32, "knn_every": 0, "tensorboard": False, "report": False
    }  # fmt: skip
    content = {**yaml.safe_load((run / "config.yaml").read_text()), **changes, "out": str(run)}
    if run.name == "ppo":
        content["search"] |= {"batch": 8, "ppo": {**content["search"]["ppo"], "samples": 8, "minibatch": 8}}
    old = yaml.safe_dump(content, sort_keys=False)
    (tmp_path / "old.yaml").write_text(old)
    settings = read_settings(tmp_path / "old.yaml").replaced(accelerator="cpu")
    pretrain(settings=settings.replaced(out=tmp_path / "whole"), progress=False)
    with small_runs.signalled(lambda training: (training.epoch, training.step) == (2, 1)), pytest.raises(Stopped):
        pretrain(settings=settings, overwrite=True, progress=False)
    (run / "config.yaml").write_text(old)
    state = torch.load(run / "checkpoints" / "last.pt", weights_only=True)
    learned = state.pop("search")
    torch.save({**state, "format": 2, "settings": old, "table": learned or None}, run / "checkpoints" / "last.pt")
    pretrain(resume=run, accelerator="cpu", progress=False)
    one, two = (small_runs.content(path) for path in (tmp_path / "whole", run))
    one.pop("config.yaml"), two.pop("config.yaml")
    assert not small_runs.differing(one, two)


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("search: {by: ppo}", {"search": "ppo"}),
        ("search: {ppo: {iterations: 7}}", {"search": {"name": "ppo", "iterations": 7}}),
        ("search: {by: ppo, batch: 64, ppo: {clip: 0.1}}", {"search": {"name": "ppo", "batch": 64, "clip": 0.1}}),
        ("search_every: 5\nwarm_start: true", {"search": {"name": "ppo", "every": 5, "warm_start": True}}),
        ("search: {table: {hardness: 0.2}}", {"search": {"hardness": 0.2}}),
        ("prior: simclr\nsearch: {by: table, p: 0.5}", {"search": {"prior": "simclr", "p": 0.5}}),
        ("method: byol\nbank: 4096\nmomentum: 0.9\nsearch: {by: null}", {"method": "byol", "momentum": 0.9}),
        ("method: moco\nbank: 512\nsearch: {by: null}", {"method": "moco", "bank": 512}),
        ("temperature: 0.3\nprojector: null\nsearch: {by: null}", {"temperature": 0.3}),
    ],
)
def test_files_that_name_only_some_settings(text, changes, tmp_path):
    (tmp_path / "c.yaml").write_text(text)
    before = PretrainSettings(views="coviews", precision="32-true")  # the defaults of that version
    assert read_settings(tmp_path / "c.yaml") == before.replaced(**changes)


def test_hard_views_of_a_users_own_file_are_those_of_this_version(tmp_path):
    (tmp_path / "c.yaml").write_text("seed: 3\nviews: hardviews\nhard_views: 3")
    assert read_settings(tmp_path / "c.yaml").hard_crops == PretrainSettings().hard_crops > 0


def test_a_new_file_is_not_taken_for_an_old_one(tmp_path):
    for text, expected in (
        ("search: {hardness: 0.2}", TableSettings(hardness=0.2)),
        ("search: {steps: 3}\nmethod: moco", TableSettings(steps=3)),
        ("search: {every: 3}\nmethod: byol", PPOSettings(every=3)),
    ):
        (tmp_path / "c.yaml").write_text(text)
        assert read_settings(tmp_path / "c.yaml").search == expected


def comparisons():
    files = sorted((ROOT / "docs" / "results").glob("*.json"))
    return [f.stem for f in files if {"format", "variants"} <= set(json.loads(f.read_text()))]


@pytest.mark.parametrize("name", comparisons())
def test_results_of_comparisons_are_read(name):
    path = ROOT / "docs" / "results" / f"{name}.json"
    results, content = read_results(path), json.loads(path.read_text())
    assert len(results.runs) == len(content["runs"]) > 0
    for variant, settings in results.variants.items():
        old = content["variants"][variant]
        if "ppo" in old["search"]:  # of version 0.1.0
            by = old["search"].get("by") or ("ppo" if "table" not in old["search"] else "table")
            assert (settings.method.name, settings.search.name) == (old["method"], by)
            assert settings.epochs == old["epochs"]
            assert settings.search.reward.bound == old["search"]["reward"]["bound"]
            if by == "ppo":
                assert settings.search.iterations == old["search"]["ppo"]["iterations"]
                assert settings.search.every == old["search_every"]
            else:
                assert settings.search.hardness == old["search"]["table"]["hardness"]


def test_the_published_files_are_among_them():
    assert {"shapes", "table-100", "table-1000", "less-data", "moco", "equal-5000"} <= set(comparisons())
    assert yaml.safe_load((OLD / "ppo" / "config.yaml").read_text())["search"]["ppo"]["iterations"] == 8
    assert SimCLRSettings() == EXPECTED["ppo"].method
