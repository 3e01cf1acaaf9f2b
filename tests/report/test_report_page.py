"""The report of runs of all kinds: whole, unfinished, damaged, hostile; and its figures."""

import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from coviews import CoviewsError, pretrain, view_source
from coviews.cli import main
from coviews.ops.placement import Placement
from coviews.policies.factors import RECIPE, views_title
from coviews.policies.placement_effects import COUNTS, PlacementEffects
from coviews.policies.statistics import policy_statistics
from coviews.policies.tilted import Effects, Tilt, TiltedPolicy
from coviews.report import figures
from coviews.report.charts import Line, LineChart, smoothed
from coviews.report.evaluations import _reasons
from coviews.report.page import run_charts
from coviews.report.plotly_figures import figure, text
from coviews.report.policy_charts import clear_preferences, learned_text
from coviews.report.record import read_run
from coviews.report.reward_chart import reward_chart
from coviews.report.several_runs import read_runs, several_runs_charts
from coviews.report.summary import duration_in_words, facts, sentence
from coviews.report.training_charts import search_charts
from coviews.report.write import write_report, write_reports
from coviews.searching.measures import SearchMeasure
from report_runs import HOSTILE, make_run
from small_runs import SMALL

CHARTS = {
    "loss", "learning-rate", "knn", "rankme", "search-reward", "search-over", "search-entropy", "current",
    "current-lines", "queue", "queue-lines", "operations", "co-occurrence", "lift", "levels", "confusion",
}  # fmt: skip


def page_of(run, tmp_path):
    return write_report(run, tmp_path / "page.html").read_text()


def data_of(page):
    found = re.search(r'<script id="page-data" type="application/json">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


def body_of(page):
    """What a person sees, without scripts."""
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_a_true_run_has_its_page(tmp_path):
    done = pretrain(settings=SMALL.replaced(out=tmp_path / "run"), progress=False)
    path = write_report(done.path)
    assert path == done.path / "report.html"
    page = path.read_text()
    assert {"loss", "knn", "search-reward", "current", "queue", "lift", "levels"} <= set(data_of(page)["charts"])
    kept = len(list((done.path / "policies").iterdir()))
    assert len(data_of(page)["frames"]) == kept > 0
    assert "What is missing" not in page
    assert f"{done.quality['knn']:.1f} %" in page
    # six images with pairs of policies; six hard and six easy pairs; six images with six neighbours
    assert body_of(page).count("<img") == 6 * (1 + 2 * min(kept, 3)) + 12 * 3 + 6 * 7
    assert path.stat().st_size < 8e6


def test_every_part_of_a_whole_run_is_there(tmp_path):
    page = page_of(make_run(tmp_path / "run"), tmp_path)
    data, body = data_of(page), body_of(page)
    assert set(data["charts"]) == CHARTS
    for section in ("training", "policies", "gallery", "search", "evaluation", "settings"):
        assert f'<section id="{section}">' in body
        assert f'href="#{section}"' in body
    assert "the loss went up" in body
    assert "75.0 %" in body
    assert re.search(r"search:\s+name: ppo\s", body)
    assert re.search(r"\n +every: 2\n", body)
    for key in CHARTS:  # each has a place and words
        place = re.search(rf'aria-label="([^"]+)" data-chart="{key}"', body)
        assert place, key
        assert len(place[1]) > 20
    assert body.count("alt=") == body.count("<img")
    assert "What is missing" not in body


@pytest.mark.parametrize(("x_title", "last", "dtick"), [("epoch", 8, 1), ("epoch", 9, None), ("minutes", 2, None)])
def test_few_epochs_have_a_tick_each_and_no_halves(x_title, last, dtick):
    line = Line("loss", [1.0, float(last)], [2.0, 1.0])
    axis = figure(LineChart("loss", "Loss", x_title, "loss", [line], "falls"))["layout"]["xaxis"]
    assert axis.get("dtick") == dtick


def test_the_numbers_are_those_of_the_policies(tmp_path):
    run = read_run(make_run(tmp_path / "run", policies=3))
    data = data_of(page_of(run.path, tmp_path))
    assert len(data["frames"]) == 3
    newest = run.statistics[7]
    order = np.argsort(-newest.ops.mean((0, 1)), kind="stable")
    order = order[order != newest.space.identity]
    for frame, epoch in zip(data["frames"], (3, 5, 7), strict=True):
        s = run.statistics[epoch]
        np.testing.assert_allclose(frame["changes"]["lift"]["z"][0], s.lift[np.ix_(order, order)], atol=6e-4)
        np.testing.assert_allclose(frame["changes"]["operations"]["x"], s.ops.reshape(4, -1)[:, order], atol=6e-5)
    queue = np.array(data["charts"]["queue"]["data"][0]["z"])
    weights = 0.6 * 0.4 ** np.arange(3)
    mixed = sum(w * run.statistics[e].ops.mean((0, 1)) for w, e in zip(weights, (7, 5, 3), strict=True)) / weights.sum()
    names = data["charts"]["queue"]["data"][0]["y"]
    assert "Identity" not in names
    np.testing.assert_allclose(queue[:, -1], [16 * mixed[newest.space.index(n)] for n in names], atol=6e-4)
    assert queue[0, -1] > 1 > queue[-1, -1]
    colours = data["charts"]["current"]["data"][0]
    assert colours["zmin"] + colours["zmax"] == pytest.approx(2)  # as often as in the prior is in the middle


def tilted(strength, crops=0.0):
    """A policy that prefers Rotate to its prior and avoids Invert, and crops of which 40 to 60 % overlap."""
    prior = view_source("uniform", space_name="autoaugment")
    steps, pairs = np.zeros((2, 16, 11), np.float32), np.zeros((16, 16), np.float32)
    steps[:, prior.space.index("Rotate")], steps[:, prior.space.index("Invert")] = strength, -strength
    places = np.zeros(COUNTS.sum(), np.float32)
    places[2] = crops
    placement = PlacementEffects(places, Placement(), (32, 32)) if crops else None
    tilt = Tilt(1.0, 1.0, 100.0, -100 + 4 * strength + crops)
    return TiltedPolicy(prior, "coviews", Effects(steps, pairs, 0.0, placement), tilt, 0.0, 0.1)


def test_what_was_learned_is_said_against_the_prior():
    """Not that most steps are Identity: with uniform views, two tenths are not applied."""
    statistics = policy_statistics(tilted(0.7))
    assert statistics.prior.sum() == pytest.approx(1)
    assert statistics.prior[statistics.space.identity] == pytest.approx(0.8 / 16 + 0.2)
    more, less = clear_preferences(statistics)
    assert [statistics.space.ops[i] for i in (*more, *less[:1])] == ["Rotate", "Invert"]
    said = learned_text(statistics)
    assert re.fullmatch(
        r"more often than in the prior: Rotate \(1\.\d\d times\); less often than in the prior: Invert \(0\.\d\d "
        r"times\).*\.", said
    )  # fmt: skip
    assert "Identity" not in said
    by_crops = learned_text(policy_statistics(tilted(0.0, crops=1.0)))
    assert by_crops.startswith("pairs of crops: overlap 40–60 % (")
    assert learned_text(policy_statistics(tilted(0.0))) == "nothing was learned, views are within 3% of the prior."


def test_the_summary_says_what_happened(tmp_path):
    run = read_run(make_run(tmp_path / "run"))
    said = {fact.name: f"{fact.value} {fact.note}" for fact in facts(run)}
    assert said["kNN accuracy"].startswith("26.0 % untrained 20.0 %")
    assert said["Linear probe"].startswith("75.0 %")
    assert said["Time"] == "22 s 27% of it in 2 searches"
    assert "1 could not be read" in said["Images"]
    assert sentence(run) == "simclr on resnet8, trained on 60 images of shapes:60 with coviews views: 6 epochs in 22 s."
    assert [duration_in_words(s) for s in (7, 750, 3723)] == ["7 s", "12 min 30 s", "1 h 2 min"]


def test_families_of_views_are_called_by_their_names():
    assert views_title(RECIPE.text) == "recipe views"
    assert views_title("uniform") == "uniform views"
    assert views_title("crop small, turns") == "'crop small, turns' views"


def test_any_search_is_drawn_by_its_measures(tmp_path):
    """Numbers over the epochs, lists over the iterations; records without a value are left out."""
    run = make_run(tmp_path / "run", policies=0)
    with open(run / "metrics.jsonl", "a") as file:
        for epoch, more in ((2, {"gain": 0.25, "trace": [1.0, 3.0]}), (4, {"gain": 0.5, "trace": [5.0]}), (6, {})):
            file.write(json.dumps({"kind": "search", "epoch": epoch, **more}) + "\n")
    measures = (
        SearchMeasure("gain", "Gain", "More is better.", "share", percent=True),
        SearchMeasure("trace", "Trace", "Less is better."),
        SearchMeasure("absent", "Absent", ""),
    )
    gain, trace = search_charts(read_run(run), measures)
    assert (gain.key, gain.title, gain.x_title, gain.y_title, gain.percent) == (
        "search-gain", "Gain", "epoch", "share", True,
    )  # fmt: skip
    assert [(line.x, line.y) for line in gain.lines] == [([2.0, 4.0], [0.25, 0.5])]
    assert gain.alt == "Gain from epoch 2 to 4: from 25.0% to 50.0%. More is better."
    assert [(line.name, line.x, line.y) for line in trace.lines] == [
        ("before epoch 2", [1.0, 2.0], [1.0, 2.0]), ("before epoch 4", [1.0], [5.0]),
    ]  # fmt: skip
    assert trace.alt == "Trace, 2 searches: in the last one it goes from 5.000 to 5.000. Less is better."


def test_what_the_keeping_head_predicts_is_drawn(tmp_path):
    charts = {chart.key: chart for chart in run_charts(read_run(make_run(tmp_path / "run", keep=5.0, policies=0)))}
    hue, position = charts["kept"].lines
    assert (hue.name, hue.x[-1], hue.y[0], hue.y[-1]) == ("Hue", 6.0, 0.0, pytest.approx(0.5))
    assert position.y == [0.2] * 6
    assert charts["kept"].alt.endswith("at the end: Hue 50%, position 20%.")


@pytest.mark.parametrize("views", ["random", "randaugment", "hardviews"])
def test_a_run_with_fixed_views_has_no_policies(tmp_path, views):
    page = page_of(make_run(tmp_path / "run", views=views), tmp_path)
    assert '<section id="policies">' not in page
    assert "when a policy" not in body_of(page)
    assert body_of(page).count("<img") == 6 * 3  # its encoder is empty
    assert data_of(page)["frames"] == []


def test_unfinished_older_and_damaged_runs_have_a_page_that_says_so(tmp_path):
    young = make_run(tmp_path / "young", finished=False, policies=0, evaluated=False)
    page = body_of(page_of(young, tmp_path))
    assert "The run is not finished: 6 of 6 epochs" in page
    assert "random views of the warm-up" in page

    old = make_run(tmp_path / "old")
    (old / "config.yaml").write_text("option_of_old: 1\n" + (old / "config.yaml").read_text())
    page = body_of(page_of(old, tmp_path))
    assert "The settings are not those of this version" in page
    assert "simclr on resnet8" in page  # what can be read is shown
    assert "No images are shown" in page

    torn = make_run(tmp_path / "torn")
    content = (torn / "metrics.jsonl").read_text()
    (torn / "metrics.jsonl").write_text(content + '[1]\n{"kind":"epoch","epoch":"x","loss":NaN}\n\x00\xff{"kin')
    (torn / "policies" / "0003.safetensors").write_bytes(b"nothing")
    (torn / "evaluations.jsonl").write_text('{"results": {"linear": 3, "confusion": [[1]], "classes": "x"}}\n[]\n')
    page = body_of(page_of(torn, tmp_path))
    assert re.search(r"metrics.jsonl: 2 of \d+ lines are damaged", page)
    assert "The policy 0003.safetensors cannot be read" in page
    assert "evaluations.jsonl: 1 of 2 lines" in page

    bare = make_run(tmp_path / "bare", data=str(tmp_path / "gone"), evaluated=False)
    (bare / "metrics.jsonl").unlink()
    page = body_of(page_of(bare, tmp_path))
    assert "metrics.jsonl cannot be read" in page
    assert "No images are shown: there is no file or folder" in page
    (bare / "metrics.jsonl").write_text("")
    (bare / "config.yaml").write_bytes(b"\xff{[")
    assert "The settings are not those" in page_of(bare, tmp_path)

    given = make_run(tmp_path / "given", data="python: ndarray")
    assert "given from Python" in page_of(given, tmp_path)


def test_records_of_any_type_do_no_harm(tmp_path):
    run = make_run(tmp_path / "run")
    rng = np.random.default_rng(0)
    strange = ["", "x", None, True, -1, 1e400, [], [None], {}, {"seconds": "x"}, {"epochs": [1e9], "weights": ["a"]}]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for seed in range(60):
        changed = json.loads(json.dumps(lines))
        for line in changed:
            for name in [n for n in line if n != "kind"]:
                if rng.random() < 0.3:
                    line[name] = strange[int(rng.integers(len(strange)))]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in changed))
        found = read_run(run)
        found.policies.clear()
        assert facts(found) is not None, seed
        assert sentence(found)
        assert [figure(chart) for chart in run_charts(found)]
    results = json.loads((run / "evaluations.jsonl").read_text())
    for seed in range(100):
        changed = json.loads(json.dumps(results))
        for name in results["results"]:
            if rng.random() < 0.4:
                changed["results"][name] = strange[int(rng.integers(len(strange)))]
        (run / "evaluations.jsonl").write_text(json.dumps(changed) + "\n")
        found = read_run(run)
        found.policies.clear()
        assert [figure(chart) for chart in run_charts(found)], seed


def test_names_are_shown_as_text(tmp_path):
    run = make_run(tmp_path / HOSTILE.replace("/", "\u2215"), classes=(HOSTILE, "ring"), data=HOSTILE)
    with open(run / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"kind": "warning", "epoch": HOSTILE, "text": HOSTILE}) + "\n")
    page = page_of(run, tmp_path)
    assert page.count("<script") - page.count("<script>") == 1  # our own, and plotly's words about scripts aside
    assert "<img src=x" not in body_of(page)
    assert "<b>bold" not in body_of(page)
    assert "&lt;img src=x" in body_of(page)
    assert data_of(page)["charts"]["confusion"]["data"][0]["y"][0] == text(HOSTILE)
    both = write_reports([run, make_run(tmp_path / "other")], tmp_path / "both.html")[0].read_text()
    assert "<img src=x" not in body_of(both)


def test_nothing_is_fetched_from_anywhere(tmp_path):
    page = page_of(make_run(tmp_path / "run"), tmp_path)
    assert not re.findall(r"""(?:src|href|action)\s*=\s*(?!["']?(?:data:|#))\S+""", body_of(page))
    assert "default-src 'none'" in page
    assert "@import" not in page[: page.index("</style>")]


def test_runs_side_by_side(tmp_path):
    one, other = make_run(tmp_path / "one"), make_run(tmp_path / "two", views="indepviews", seed=3)
    page = write_reports([one, other], tmp_path / "both.html")[0].read_text()
    data = data_of(page)["charts"]
    assert {"compare-knn", "compare-knn-time", "compare-loss", "current-1", "current-2", "lift-1", "lift-2"} <= set(
        data
    )
    np.testing.assert_allclose(data["lift-2"]["data"][0]["z"], 1, atol=1e-3)
    assert data["lift-1"]["data"][0]["zmax"] == data["lift-2"]["data"][0]["zmax"]
    assert data["lift-1"]["data"][0]["x"] == data["lift-2"]["data"][0]["x"]
    assert [trace["name"] for trace in data["compare-knn"]["data"]] == ["one", "two"]
    assert data["compare-knn-time"]["data"][0]["x"][-1] == pytest.approx(22 / 60, rel=1e-3)
    differing = body_of(page)[body_of(page).index("Settings that differ") :]
    assert "indepviews" in differing
    assert "batch_size" not in differing
    fixed = make_run(tmp_path / "three", views="random")
    assert "Comparison" in write_reports([one, other, fixed], tmp_path / "all.html")[0].read_text()


def test_every_chart_is_a_file_and_always_the_same(tmp_path):
    run = read_run(make_run(tmp_path / "run", classes=("$x_1$", "ring")))
    written = figures.write_figures(run_charts(run), tmp_path / "a")
    assert {p.stem for p in written} == CHARTS
    assert {p.suffix for p in written} == {".png", ".svg"}
    assert all(p.stat().st_size > 1000 for p in written)
    some = [chart for chart in run_charts(run) if chart.key in ("loss", "lift", "operations")]
    for path in figures.write_figures(some, tmp_path / "b"):
        assert path.read_bytes() == (tmp_path / "a" / path.name).read_bytes(), path.name
    assert "lift-2" in {chart.key for chart in several_runs_charts(read_runs([run.path, run.path]))}


def test_without_matplotlib_figures_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(CoviewsError, match=r"pip install 'coviews\[figures\]'"):
        figures.write_figures([reward_chart()], tmp_path)


def test_the_reward_chart_is_the_reward():
    chart = reward_chart()
    for line in chart.lines:
        tolerance = float(line.name.removeprefix("b = "))
        for x, y in zip(line.x, line.y, strict=True):
            expected = x if x < 1.3 else -(1.3 / tolerance) * (x - (1.3 + tolerance))
            assert y == pytest.approx(expected, abs=1e-9)
        assert min(line.y) >= -1 - 1e-9
        assert max(line.y) == pytest.approx(1.3, abs=1e-4)


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, other = make_run(tmp_path / "one"), make_run(tmp_path / "two")
    assert main(["report", str(one), "--figures", "figures"]) == 0
    assert (one / "report.html").exists()
    assert (tmp_path / "figures" / "lift.svg").exists()
    assert main(["report", str(one), str(other)]) == 0
    assert (tmp_path / "comparison.html").exists()
    capsys.readouterr()
    (tmp_path / "empty").mkdir()
    for arguments, wanted in (
        ([], "give the folder of a run"),
        (["nowhere"], "there is no run"),
        (["empty"], "is not a run"),
        ([str(one), "--out", str(tmp_path)], "it is a folder"),
        ([str(one)] * 13, "at most 12"),
    ):
        assert main(["report", *arguments]) == 2
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1, said
        assert wanted in said[0]


def test_eighty_policies_take_less_than_thirty_seconds(tmp_path):
    run = make_run(tmp_path / "run", policies=80, epochs=400)
    start = time.process_time()
    path = write_report(run)
    assert time.process_time() - start < 30
    assert path.stat().st_size < 8e6
    assert len(data_of(path.read_text())["frames"]) == 80


def test_slow_packages_are_imported_when_they_are_needed():
    """Torch not before a command is chosen, plotly and matplotlib not before there is a chart to draw."""
    code = (
        "import sys, coviews, coviews.cli; assert 'torch' not in sys.modules; import coviews.report.write; "
        "assert 'plotly' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_means_of_the_last_values():
    assert smoothed([1.0, 2.0, 3.0, 4.0], 2) == [1.0, 1.5, 2.5, 3.5]
    assert smoothed([], 2) == []


def test_one_reason_for_several_measures_is_said_once():
    missing = [{"name": name, "reason": "they need labels"} for name in ("knn", "linear")]
    reasons = _reasons({"missing": [*missing, {"name": "paper", "reason": "it was not asked for"}]})
    assert len(reasons) == 2
    assert reasons[0].startswith("kNN, linear")
    assert reasons[0].endswith(": they need labels")
