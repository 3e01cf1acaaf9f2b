"""`coviews reproduce`: every table and figure of the paper, for an epoch."""

import dataclasses

import pytest

from coviews import PPOSettings, reproduce
from coviews.cli import main
from coviews.comparison import paper_tables as paper
from coviews.comparison.compare import Comparison
from coviews.comparison.paper_tables import RECIPES
from coviews.comparison.plan import Plan
from coviews.comparison.reproduce import Reproduction
from coviews.comparison.results import Results
from coviews.runs.settings import PretrainSettings
from coviews.searching.reward import BoundedReward
from coviews.training import estimate
from small_runs import SEARCH


@pytest.fixture
def quick(monkeypatch):
    """Searches and estimates of a moment."""
    monkeypatch.setattr(paper, "PPOSettings", lambda: SEARCH)
    monkeypatch.setattr(estimate, "_STEPS", 1)


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.shows != "reward"])
def test_every_recipe_runs_at_the_small_scale(here, quick, tmp_path, name):
    """One epoch on images of the user's: the table has their name and number, and no figures of the paper."""
    recipe = RECIPES[name]
    rows = list(recipe.all_rows)
    rows = rows if len(rows) <= 3 else [rows[0], rows[-1]]  # of many of one kind, two
    made = reproduce(
        name, data="shapes:140", rows=",".join(rows), epochs=1, seeds=1, out=tmp_path / "r", progress=False
    )
    assert len(here) == len(rows)
    assert made.comparison is not None
    assert made.comparison.failed == {}
    for run in made.comparison.results.runs:
        settings = made.comparison.results.variants[run.variant]
        assert (settings.encoder, settings.epochs, settings.batch_size) == ("resnet8", 1, 128)
        assert (run.searching > 0) == settings.learns_views
    assert (tmp_path / "r" / "comparison.html") in made.written
    if recipe.shows != "table":
        assert any(path.suffix == ".svg" for path in made.written)
        return
    table = made.table
    assert [row[0] for row in table.rows] == rows
    assert table.heads == ["", "shapes:140, 140 images, small"]
    for row in table.rows:
        assert (row[1] == "–") == (recipe.measure == "overhead" and row[0] == rows[0])
    assert bool(made.sentences) == (recipe.measure != "overhead")
    assert f"{recipe.about}; here on shapes:140 instead" in " ".join(str(made).split())
    assert not any(column in str(made.sentences) for column in recipe.columns)


def test_the_papers_figures_stand_beside_ours(tmp_path):
    recipe = RECIPES["table-less-data"]
    rows, columns = list(recipe.all_rows), list(recipe.columns)
    comparison = Comparison(tmp_path, Plan({"x": PretrainSettings()}, (0,)), Results(), {})
    table = Reproduction(recipe, "small", rows, columns, comparison, []).table
    assert table.heads == ["", *(f"{c}, {which}" for c in columns for which in ("ours (small)", "paper"))]
    for row in table.rows:
        printed = [recipe.printed(row[0], column) for column in columns]
        assert row[2::2] == ["–" if figure is None else f"{figure:.2f}" for figure in printed]


def test_the_figure_of_the_reward_needs_no_training(tmp_path, capsys):
    assert main(["reproduce", "figure-reward", "--out", str(tmp_path / "r")]) == 0
    assert (tmp_path / "r" / "figures" / "reward.svg").exists()
    assert "reward.png" in capsys.readouterr().out


def test_the_papers_scale_is_the_papers():
    for recipe in RECIPES.values():
        for row in recipe.all_rows:
            for column in recipe.columns:
                settings = recipe.settings(row, column, "paper")
                assert settings.encoder == "resnet50"
                assert settings.epochs >= 200
                if settings.search.name == "ppo":
                    search = (
                        settings.search if row in recipe.rows else dataclasses.replace(settings.search, hardness=None)
                    )
                    assert dataclasses.replace(search, reward=BoundedReward("ratio")) == PPOSettings.paper()
                assert recipe.settings(row, column, "small").subset == "5000"
    th = RECIPES["ablation-threshold"].settings("th = 1.5", "SVHN", "paper")
    assert (th.data, th.search.reward.threshold, th.search.reward.bound) == ("svhn", 1.5, "ratio")
    assert RECIPES["table-linear"].settings("RandAug M=27", "STL10", "paper").magnitude == 27
    assert RECIPES["table-linear"].printed("CoViews", "TinyImageNet") == 36.29


def test_a_lower_precision_is_that_of_all_trainings(here, quick, tmp_path):
    asked = {"rows": "Random,CoViews", "epochs": 1, "seeds": 1, "precision": "bf16-mixed", "progress": False}
    made = reproduce("table-moco", data="shapes:140", out=tmp_path / "r", **asked)
    assert made.comparison is not None
    assert made.comparison.failed == {}
    assert [s.precision for s in made.comparison.results.variants.values()] == ["bf16-mixed"] * 2


def test_list_and_bad_names(tmp_path, capsys):
    assert main(["reproduce", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in RECIPES)
    for arguments, said in [
        (["table-liner"], "did you mean 'table-linear'"),
        (["table-linear", "--scale", "smal"], "did you mean 'small'"),
        (["table-linear", "--precision", "bf16"], "did you mean 'bf16-mixed'"),
        (["table-linear", "--rows", "CoView"], "did you mean 'CoViews'"),
        (["table-linear", "--columns", "cifar"], "CIFAR-10"),
        (["table-linear", "--subset", "100"], "--subset goes with --data"),
        (["table-linear", "--test-data", "x"], "--test-data goes with --data"),
        (["table-overhead", "--jobs", "2", "--data", "shapes:140"], "--jobs must be 1"),
        (["table-linear", "--seeds", "0", "--data", "shapes:140"], "--seeds must be 1"),
        (["table-linear", "--columns", "svhn", "--data-root", str(tmp_path)], "--download"),
    ]:
        assert main(["reproduce", *arguments, "--out", str(tmp_path / "r")]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
