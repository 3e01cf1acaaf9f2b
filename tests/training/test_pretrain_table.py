"""Pretraining with a search by table: through the command line, and everything that a run leaves."""

import json

import numpy as np
import pytest
import torch

import coviews
from coviews import CoviewsError, TiltedPolicy, load_policy, pretrain
from coviews.cli import main
from coviews.report.page import run_page
from coviews.report.record import read_run
from coviews.report.summary import facts
from coviews.runs.folder import Run
from coviews.searching.table_search import TableSearch
from small_runs import BY_TABLE, SMALL, content, differing, trust_young_encoders

WORDS = (
    "pretrain shapes:400 --size 16 --encoder resnet8 --epochs 6 --warmup-epochs 2 --batch-size 32 --lr 0.1 "
    "--temperature 0.5 --projector 32 --knn-every 0 --no-tensorboard --search table --search.gentle 2 "
    "--search.ridge 50"
)


def records(path, kind):
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [r for r in lines if r["kind"] == kind]


@pytest.mark.parametrize("views", ["coviews", "indepviews"])
def test_the_command_fits_a_table_before_every_epoch(views, tmp_path, capsys):
    run = tmp_path / "run"
    assert main([*WORDS.split(), "--out", str(run), "--views", views]) == 0
    said = capsys.readouterr().err
    assert "4 fits of the table" in said
    assert "epoch 3: table of 768 pairs" in said
    searches = records(run, "search")
    assert [r["epoch"] for r in searches] == [3, 4, 5, 6]
    assert [r["pairs"] for r in searches] == [768, 1152, 1536, 1920]
    assert all(r["by"] == "table" for r in searches)
    files = sorted((run / "policies").iterdir())
    assert [f.name for f in files] == [f"{e:04d}.safetensors" for e in range(3, 7)]
    policies = [load_policy(f) for f in files]
    assert all(isinstance(p, TiltedPolicy) and p.kind == views for p in policies)
    assert any(p.tilt.rise > 0 for p in policies), [p.statistics for p in policies]
    assert sum(f.stat().st_size for f in files) < 4 * 6000

    found = read_run(run)
    page = run_page(found)
    assert not found.missing
    assert "Variance of a pair" in page
    assert "fitted to the pairs that training had seen" in page
    said = {fact.name: fact.note for fact in facts(found)}
    assert "of it in 4 searches" in said["Time"]

    again = SMALL.replaced(views=str(files[-1]), epochs=1, out=tmp_path / "later")
    assert pretrain(settings=again, progress=False).policy is None  # fixed views: nothing is learned


@pytest.mark.parametrize(
    "more", ["--search.prior simclr", "--space autoaugment --search.steps 1", "--method moco --bank 256"]
)
def test_other_priors_spaces_and_methods(more, tmp_path):
    run = tmp_path / "run"
    words = [*WORDS.split(), "--out", str(run), "--epochs", "4", "--no-report", *more.split()]
    assert main(words) == 0
    policy = load_policy(run / "policies" / "0004.safetensors")
    assert policy.space.name == ("simclr" if "simclr" in more else "autoaugment" if "auto" in more else "all")
    assert policy.steps == (5 if "simclr" in more else 1 if "steps" in more else 2)


def test_a_chosen_family_is_a_prior(tmp_path):
    family = coviews.Family(mirror=False, colour=False, grey=False, crop="large")
    family.write(tmp_path / "views.yaml")
    run = tmp_path / "run"
    words = f"--out {run} --epochs 4 --no-report --views coviews --search.prior {tmp_path / 'views.yaml'}"
    assert main([*WORDS.split(), *words.split()]) == 0
    policy = load_policy(run / "policies" / "0004.safetensors")
    assert policy.prior.family == family
    drawn = policy.sample(300, np.random.default_rng(0))
    assert {drawn.space.ops[i] for i in np.unique(drawn.ops)} == {"Identity", "Brightness", "Contrast"}
    settings = Run(run).settings
    assert settings.search.prior == family.text  # the file may have other views tomorrow
    assert (settings.placement.flip, settings.placement.area) == (0.0, (0.5, 1.0))


def test_a_contradiction_is_one_line(tmp_path, capsys):
    more = ["--search.prior", "simclr", "--space", "autoaugment"]
    assert main([*WORDS.split(), *more, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err.strip()
    assert "leave out --space or --search.prior" in said
    assert "Traceback" not in said


def test_one_seed_one_run_whatever_the_threads(tmp_path, monkeypatch):
    trust_young_encoders(monkeypatch.setattr)
    for name, threads in (("one", 1), ("two", 3)):
        pretrain(settings=SMALL.replaced(search=BY_TABLE, out=tmp_path / name), threads=threads, progress=False)
    one, two = content(tmp_path / "one"), content(tmp_path / "two")
    one.pop("config.yaml"), two.pop("config.yaml")
    assert not differing(one, two)
    assert load_policy(tmp_path / "one" / "policies" / "0004.safetensors").tilt.rise > 0


def test_the_table_sees_what_was_trained_on(tmp_path, monkeypatch):
    """Every pair, once, with its own loss; the rest of the run is as with the same views that nobody watched."""
    seen, old = [], coviews.LossTable.add

    def spy(table, subpolicies, losses):
        seen.append((subpolicies, losses.clone()))
        old(table, subpolicies, losses)

    monkeypatch.setattr(coviews.LossTable, "add", spy)
    settings = SMALL.replaced(search=BY_TABLE, epochs=3, warmup_epochs=2, knn_every=0)
    pretrain(settings=settings.replaced(out=tmp_path / "run"), progress=False)
    assert len(seen) == 9
    means = np.array([losses.mean() for _, losses in seen]).reshape(3, 3).mean(1)
    assert means == pytest.approx([r["loss"] for r in records(tmp_path / "run", "epoch")], abs=1e-5)
    pretrain(settings=settings.replaced(views="uniform", out=tmp_path / "fixed"), progress=False)
    fixed = [r["loss"] for r in records(tmp_path / "fixed", "epoch")]
    assert means[:2] == pytest.approx(fixed[:2], abs=1e-5)


def test_a_checkpoint_without_the_table_is_named(tmp_path):
    run = tmp_path / "run"
    pretrain(settings=SMALL.replaced(search=BY_TABLE, epochs=2, out=run), progress=False)
    path = run / "checkpoints" / "last.pt"
    state = torch.load(path, weights_only=True)
    assert len(state["search"]["losses"]) == 192
    state["search"]["ops"] = state["search"]["ops"][:5]
    torch.save(state, path)
    with pytest.raises(CoviewsError, match="saved table"):
        pretrain(resume=run, progress=False)


def test_the_page_shows_some_of_very_many_policies(tmp_path):
    run = tmp_path / "run"
    pretrain(settings=SMALL.replaced(search=BY_TABLE, epochs=2, report=True, out=run), progress=False)
    for epoch in range(3, 103):
        (run / "policies" / f"{epoch:04d}.safetensors").write_bytes(
            (run / "policies" / "0002.safetensors").read_bytes()
        )
    shown = sorted(read_run(run).statistics)
    assert len(shown) == 80
    assert (shown[0], shown[-1]) == (2, 102)


def statistics(**changes):
    usual = {"by": "table", "over": 0.1, "loss": 4.6, "reference": 4.5, "chance": 5.5}
    return (
        coviews.LossTable(coviews.view_source("uniform"))
        .policy(np.random.default_rng(0))
        .with_statistics({**usual, **changes})
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"over": None, "loss": None, "reference": None, "chance": None}, None),  # the prior as it is
        ({"over": 0.6}, "over the bound"),
        ({"loss": 5.49}, "lose their image"),
    ],
)
def test_guards(changes, said):
    found = TableSearch.objection(statistics(**changes))
    assert (found is None) if said is None else said in found
