"""A measure is one row: added to the table with nothing else touched, it shows up wherever measures are shown."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import coviews
from coviews.comparison.compare import compare
from coviews.evaluation.classifiers import LabelledFeatures
from coviews.evaluation.measures import MEASURES, Measure, measures_table
from coviews.report.evaluations import evaluation_parts
from coviews.report.record import read_run
from small_runs import SMALL

PAGES = Path(__file__).parents[2] / "docs"
FAST = SMALL.replaced(data="shapes:120", test_data="shapes:40", epochs=1, views="uniform", knn_every=0)


def sparsity(features: np.ndarray) -> float:
    """The share of features that are almost zero."""
    return float((np.abs(features) < 1e-3).mean())


def nearest_mean(data: LabelledFeatures) -> tuple[np.ndarray, dict]:
    """The class whose mean feature is nearest."""
    means = np.stack([data.train[data.labels == c].mean(0) for c in range(data.classes)])  # (C, D)
    distances = np.square(data.test[:, None] - means).sum(2)  # (M, C)
    return distances.argmin(1), {"classes": data.classes}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    coviews.pretrain(settings=FAST.replaced(out=folder), progress=False)
    return folder


@pytest.fixture
def rows(monkeypatch):
    """Two toys: one without labels, one with."""
    free = Measure(
        "sparsity", "sparsity", "", sparsity, needs_labels=False, higher_is_better=True, meaning="share of zeros"
    )
    labelled = Measure(
        "means", "nearest mean", "%", nearest_mean, needs_labels=True, higher_is_better=True, meaning="class means"
    )
    for measure in (free, labelled):
        monkeypatch.setitem(MEASURES, measure.name, measure)


def test_a_measure_is_one_row(rows, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    evaluation = coviews.evaluate(copy, progress=False)

    # JSON
    (line,) = (copy / "evaluations.jsonl").read_text().splitlines()
    results = json.loads(line)["results"]
    value, share = results["quality"]["sparsity"], results["means"]["accuracy"]
    assert 0 <= value <= 1
    assert results["means"] == {"accuracy": share, "classes": 10}
    assert 0 <= results["baselines"]["untrained"]["quality"]["sparsity"] <= 1
    for baseline in ("untrained", "pixels"):
        assert 0 <= results["baselines"][baseline]["means"]["accuracy"] <= 1
    assert sum(row["images"] * row["means"] for row in results["per_class"]) == pytest.approx(40 * share)

    # the terminal
    lines = [text.split("  ") for text in str(evaluation).splitlines()]
    printed = next(line for line in lines if line[0] == "sparsity")
    assert f"{value:.2f}" in [cell.strip() for cell in printed]
    assert printed[-1].strip() == "share of zeros"
    assert sum("nearest mean" in text for text in str(evaluation).splitlines()) == 2  # accuracies, and by class

    # the page
    html, _ = evaluation_parts(read_run(copy))
    assert f'<p class="what">Sparsity</p><p class="value">{value:.3g}</p><p class="more">share of zeros</p>' in html
    assert f'<p class="what">Nearest mean</p><p class="value">{100 * share:.1f} %</p>' in html
    assert html.count("nearest mean</th>") == 2

    # the docs
    heads, table = measures_table()
    assert all(len(row) == len(heads) for row in table)
    assert table[-2:] == [
        ["sparsity", "sparsity", "no", "higher", "share of zeros"],
        ["nearest mean in %", "means", "yes", "higher", "class means"],
    ]


def test_a_comparison_has_it_as_well(rows, here, tmp_path):
    comparison = compare(settings=FAST, views=["uniform"], seeds=1, out=tmp_path / "c", progress=False)
    (result,) = json.loads((tmp_path / "c" / "results.json").read_text())["runs"]
    assert 0 <= result["quality"]["sparsity"] <= 1
    assert list(result["accuracy"]) == list(result["untrained"]) == ["linear", "knn", "means"]
    assert "nearest mean in %" in comparison.table.heads
    assert "nearest mean in %" in (tmp_path / "c" / "comparison.html").read_text()


def test_without_labels_it_is_listed_as_missing(rows, run, tmp_path):
    images = coviews.load_images("shapes:60", size=16).images
    evaluation = coviews.evaluate(run, images, baselines=False, progress=False, out=tmp_path / "results.jsonl")
    assert [entry["name"] for entry in evaluation.results["missing"]] == [
        "knn", "linear", "means", "per_class", "confusion",
    ]  # fmt: skip
    assert "kNN, linear probe, nearest mean, accuracy by class" in str(evaluation)


def test_the_table_of_measures():
    assert list(MEASURES) == [
        "knn", "linear", "whole", "paper", "finetune", "rankme", "spread", "alignment", "uniformity",
        "rotation",
    ]  # fmt: skip
    assert all(name == measure.name for name, measure in MEASURES.items())
    assert all(measure.meaning and "\n" not in measure.meaning for measure in MEASURES.values())
    assert [m.heading for m in MEASURES.values()][:3] == ["kNN", "Linear probe", "Probe of whole images"]
    _, rows = measures_table()
    page = (PAGES / "evaluate.md").read_text()
    assert all(f"| {measure.title}" in page for measure in MEASURES.values())
    assert len(rows) == len(MEASURES)
