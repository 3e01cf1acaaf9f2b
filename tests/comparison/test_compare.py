"""`coviews compare`: small budgets, interrupted, resumed, refused."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from coviews import CoviewsError, compare
from coviews.cli import main
from coviews.comparison.compare import Comparison
from coviews.comparison.plan import VIEWS, Plan, view_variants
from coviews.comparison.results import Result, Results, collect, read_results
from coviews.comparison.standings import below_untrained, standings
from coviews.comparison.verdict import paired, winner_sentence
from coviews.data.shapes.draw import make_shapes
from coviews.runs.settings import PretrainSettings
from small_runs import SEARCH, SMALL

TINY = SMALL.replaced(epochs=2, knn_every=1)


def result(variant: str, seed: int, linear: float, **changes) -> Result:
    made = Result(
        variant, seed, {"linear": linear, "knn": linear - 5}, {"rankme": 50.0}, {"linear": 30.0, "knn": 25.0},
        [[0, 1.0, 25.0], [2, 9.0, linear - 5]], 10.0, 2.0, [80, 20], "coviews 0",
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


# ------------------------------------------------------------------------------------------------ the whole


def test_all_view_sources_are_trained_judged_and_ranked(here, tmp_path, capsys):
    made = compare(settings=TINY, seeds=1, out=tmp_path / "c", progress=False)
    assert here == [f"{views}-0" for views in VIEWS]
    assert [(r.variant, r.seed) for r in made.results.runs] == [(views, 0) for views in VIEWS]
    for run in made.results.runs:
        assert set(run.accuracy) == {"linear", "knn"}
        assert [point[0] for point in run.curve] == [0, 1, 2]
        assert run.seconds > 0
        assert (run.searching > 0) == (run.variant in ("coviews", "indepviews"))
        assert run.images == [80, 20]
        assert "torch" in run.made
    table = made.table
    assert [row[0] for row in table.rows][-1] == "untrained encoder"
    assert {row[0] for row in table.rows[:-1]} == set(VIEWS)
    assert "one seed cannot tell" in made.sentence
    assert made.sentence in " ".join(str(made).split())
    page = (tmp_path / "c" / "comparison.html").read_text()
    assert "<h1>Comparison on shapes:100</h1>" in page
    assert "accuracy-epochs" in page
    assert "accuracy-time" in page
    assert read_results(tmp_path / "c" / "results.json").runs == made.results.runs
    # the numbers are those that `evaluate` left in the run
    record = json.loads((tmp_path / "c" / "runs" / "coviews-0" / "evaluations.jsonl").read_text().splitlines()[-1])
    assert made.results.get("coviews", 0).accuracy["linear"] == round(100 * record["results"]["linear"]["accuracy"], 3)
    untrained = record["results"]["baselines"]["untrained"]
    assert made.results.get("coviews", 0).untrained["knn"] == round(100 * untrained["knn"]["accuracy"], 3)


def test_what_is_done_is_not_done_again_and_more_can_be_added(here, tmp_path):
    out = tmp_path / "c"
    first = compare(settings=TINY, views=["random"], seeds=1, out=out, progress=False)
    assert here == ["random-0"]
    again = compare(settings=TINY, views=["random"], seeds=1, out=out, progress=False)
    assert here == ["random-0"]
    assert again.results.runs == first.results.runs
    more = compare(settings=TINY, views=["random", "uniform"], seeds=2, out=out, progress=False)
    assert here == ["random-0", "uniform-0", "random-1", "uniform-1"]
    assert more.results.get("random", 0) == first.results.get("random", 0)
    # the results file alone is enough: run folders may be gone
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "results.json").write_bytes((out / "results.json").read_bytes())
    compare(settings=TINY, views=["random", "uniform"], seeds=2, out=tmp_path / "d", progress=False)
    assert len(here) == 4


def test_a_run_that_was_judged_but_not_noted_is_collected(here, tmp_path):
    out = tmp_path / "c"
    first = compare(settings=TINY, views=["random"], seeds=1, out=out, progress=False)
    (out / "results.json").unlink()
    again = compare(settings=TINY, views=["random"], seeds=1, out=out, progress=False)
    assert here == ["random-0"]
    assert again.results.runs == first.results.runs


def test_other_settings_in_the_same_folder_are_refused(here, tmp_path):
    out = tmp_path / "c"
    compare(settings=TINY, views=["random"], seeds=1, out=out, progress=False)
    with pytest.raises(CoviewsError, match=r"random with another epochs \(2, not 3\): choose another --out"):
        compare(settings=TINY, views=["random"], seeds=1, out=out, progress=False, epochs=3)
    with pytest.raises(CoviewsError, match="judged in another way"):
        compare(settings=TINY, views=["random"], seeds=1, out=out, progress=False, k=5)


def test_one_failure_does_not_end_the_others(here, tmp_path, capsys):
    wrong = ["random", "coviews"]
    search = dataclasses.replace(SEARCH, batch=64, samples=16)
    out = tmp_path / "c"
    made = compare(
        settings=TINY.replaced(data="shapes:50", search=search), views=wrong, seeds=1, out=out, progress=False
    )
    assert list(made.failed) == ["coviews-0"]
    assert "a search needs 64 images" in made.failed["coviews-0"]
    assert [r.variant for r in made.results.runs] == ["random"]
    assert (out / "comparison.html").exists()


def test_without_labels_nobody_wins(here, tmp_path):
    import numpy as np

    images = np.random.default_rng(0).integers(0, 256, (64, 16, 16, 3), np.uint8)
    np.save(tmp_path / "images.npy", images)
    short = TINY.replaced(knn_every=0)
    made = compare(
        str(tmp_path / "images.npy"), settings=short, views=["random", "simclr"], seeds=1, out=tmp_path / "c",
        progress=False,
    )  # fmt: skip
    assert "Without labels" in made.sentence
    assert made.table.heads[:2] == ["", "RankMe"]
    # with some labelled images there is an accuracy
    probed = compare(
        str(tmp_path / "images.npy"), settings=short, views=["random"], seeds=1, out=tmp_path / "d", progress=False,
        probe_data="shapes:60",
    )  # fmt: skip
    assert set(probed.results.runs[0].accuracy) == {"linear", "knn"}
    assert probed.results.runs[0].images == [48, 12]


def test_figures_on_request(here, tmp_path):
    compare(settings=TINY, views=["random"], seeds=1, out=tmp_path / "c", figures=tmp_path / "f", progress=False)
    found = {p.name for p in (tmp_path / "f").iterdir()}
    assert found == {f"accuracy-{x}.{form}" for x in ("epochs", "time") for form in ("png", "svg")}


# --------------------------------------------------------------------------------- as a program, interrupted


ARGUMENTS = [
    "compare", "shapes:100", "--size", "16", "--encoder", "resnet8", "--batch-size", "32", "--epochs", "20",
    "--views", "uniform,random", "--seeds", "1", "--jobs", "2", "--projector", "32", "--knn-every", "15",
    "--no-tensorboard", "--no-report", "--save-every", "0", "--accelerator", "cpu",
]  # fmt: skip


def start(arguments: list[str], folder: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "coviews", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)


def wait_for(condition, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def epochs_done(run: Path) -> int:
    metrics = run / "metrics.jsonl"
    return metrics.read_bytes().count(b'"kind":"epoch"') if metrics.exists() else 0


@pytest.mark.parametrize(
    "signals", [(signal.SIGINT,), pytest.param((signal.SIGKILL, signal.SIGINT), marks=pytest.mark.slow)]
)
def test_killed_then_interrupted_then_finished(tmp_path, signals):
    runs = [tmp_path / "comparison" / "runs" / f"{views}-0" for views in ("uniform", "random")]
    done, said = [0, 0], ""
    for number in signals:
        process, least = start(ARGUMENTS, tmp_path), [n + 1 for n in done]
        wait_for(lambda p=process, least=least: p.poll() is not None or _are_past(runs, least))
        assert process.poll() is None
        process.send_signal(number)
        said = process.communicate()[0].decode()
        wait_for(lambda: not any(_is_locked(run) for run in runs))  # trainings see that their parent is gone, and end
        done = [epochs_done(run) for run in runs]
        assert all(0 < n < 20 for n in done)
    assert process.returncode == 130
    assert "stopped; the same command goes on from here" in said
    last = start(ARGUMENTS, tmp_path)
    said = last.communicate()[0].decode()
    assert last.returncode == 0, said
    assert "2 runs; about" in said
    assert "first by linear probe" in said
    found = read_results(tmp_path / "comparison" / "results.json")
    assert {r.variant for r in found.runs} == {"uniform", "random"}
    for run in runs:
        assert "continuing" in (tmp_path / "comparison" / "logs" / f"{run.name}.txt").read_text()
        assert epochs_done(run) == 20


def _are_past(runs: list[Path], epochs: list[int]) -> bool:
    return all(epochs_done(run) > n for run, n in zip(runs, epochs, strict=True))


def _is_locked(run: Path) -> bool:
    import fcntl

    with open(run / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_two_at_work_in_one_folder(tmp_path, here):
    import fcntl

    (tmp_path / "c").mkdir()
    with open(tmp_path / "c" / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(CoviewsError, match="another process is at work"):
            compare(settings=TINY, views=["random"], seeds=1, out=tmp_path / "c", progress=False)


def test_dry_run_says_how_long_and_does_nothing(tmp_path, capsys):
    arguments = [*ARGUMENTS, "--dry-run", "--out", str(tmp_path / "c")]
    assert main(arguments) == 0
    said = capsys.readouterr().err
    assert "2 variants x 1 seed = 2 runs; about" in said
    assert not (tmp_path / "c").exists()


# ------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--views", "randm"], "did you mean 'random'"),
        (["--views", "random,random"], "random is named twice"),
        (["--views", ","], "nothing to compare"),
        (["--views", "simclr:3"], "'simclr:3' is no view source"),
        (["--views", "coviews:tabel"], "coviews:table|ppo"),
        (["--seeds", "0"], "--seeds must be 1 to 100,000"),
        (["--seeds", "9223372036854775807"], "--seeds must be 1 to 100,000"),
        (["--jobs", "0"], "--jobs must be 1 to 100,000"),
        (["--k", "1" + 30 * "0"], "--k must be a whole number of at most 64 bits"),
        (["--probe-test-data", "x"], "--probe-test-data goes with --probe-data"),
        (["--test-data", "nowhere"], "nowhere"),
        (["--epochs", "5", "--warmup-epochs", "5", "--views", "coviews"], "leave none for a search"),
    ],
)
def test_bad_input_is_said_before_anything_is_trained(tmp_path, capsys, arguments, said):
    assert main(["compare", "shapes:300", "--out", str(tmp_path / "c"), *arguments]) == 2
    found = capsys.readouterr().err
    assert found.startswith("error: ")
    assert said in found
    assert not (tmp_path / "c" / "runs").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("random: {views: uniform}", "random is named twice"),
        ("[1, 2]", "expected object"),
        ("", "must hold names"),
        ("a: {views: [", "cannot be read as YAML"),
        ("a: uniform", "a must be a mapping"),
        ("a: {seed: 3}", "a has a seed of its own"),
        ("a: {search: {hardnes: 1}}", "did you mean 'search.hardness'"),
        (
            "a: {search: {iterations: 9}}",
            "a: search.iterations is an option of the search ppo",
        ),
        ("a: {search: {by: ppo}}", "a: search.by is now called search.name"),
        ("a: {method: byol, bank: 9}", "a: bank is an option of the method moco, and the method is byol"),
        ("a: {epochs: many}", "epochs"),
    ],
)
def test_bad_variants_are_named(tmp_path, capsys, text, said):
    (tmp_path / "v.yaml").write_text(text)
    asked = ["compare", "shapes:300", "--views", "random", "--variants", str(tmp_path / "v.yaml")]
    assert main([*asked, "--out", str(tmp_path / "c")]) == 2
    assert said in capsys.readouterr().err
    assert main([*asked[:-1], str(tmp_path / "none.yaml")]) == 2
    assert "there is no file" in capsys.readouterr().err


def test_variants_differ_in_any_setting(here, tmp_path):
    (tmp_path / "v.yaml").write_text(
        "easier: {views: uniform, search: {p: 0.4}}\nshorter: {views: random, epochs: 1}\n"
    )
    made = compare(settings=TINY, variants=tmp_path / "v.yaml", seeds=1, out=tmp_path / "c", progress=False)
    found = made.results.variants
    assert (found["easier"].search.p, found["easier"].epochs) == (0.4, TINY.epochs)
    assert (found["shorter"].epochs, list(found)) == (1, ["easier", "shorter"])  # no view source that was not asked for
    assert len(here) == 2
    both = {"views": ["random"], "variants": {"easier": {"views": "uniform", "search": {"p": 0.4}}}}
    more = compare(settings=TINY, **both, seeds=1, out=tmp_path / "c", progress=False)
    assert len(here) == 3  # easier was there
    assert [row[0] for row in more.table.rows][:2] in (["random", "easier"], ["easier", "random"])


def test_data_from_python_is_refused():
    with pytest.raises(CoviewsError, match="by name"):
        Plan({"random": PretrainSettings(data="python: list")}, (0,))


def test_names_of_variants():
    found = view_variants(SMALL, ["randaugment:15", "randaugment", "a/policy.safetensors"])
    assert list(found) == ["randaugment:15", "randaugment", "policy"]
    assert [s.magnitude for s in found.values()][:2] == [15, 9]
    by = view_variants(SMALL, ["coviews:table", "coviews", "indepviews:ppo"])
    assert [(s.views, s.search.name) for s in by.values()] == [
        ("coviews", "table"), ("coviews", "ppo"), ("indepviews", "ppo"),
    ]  # fmt: skip
    jobs = Plan(found, (3,)).jobs
    assert [job.name for job in jobs] == ["randaugment-15-3", "randaugment-3", "policy-3"]
    with pytest.raises(CoviewsError, match="share the folder"):
        Plan({"a b": SMALL, "a,b": SMALL}, (0,))


def test_what_is_not_above_the_untrained_encoder_is_said():
    runs = [result("a", 0, 40.0), result("b", 0, 28.0)]  # untrained: 30 by the linear probe, 25 by kNN
    assert below_untrained(Results({"a": SMALL, "b": SMALL}, {}, runs), ["a", "b"]) == ""
    runs = [result("a", 0, 29.0), result("b", 0, 28.0)]
    words = below_untrained(Results({"a": SMALL, "b": SMALL}, {}, runs), ["a", "b"])
    assert "By linear probe, none is above the untrained encoder (30.0 %): more --epochs may help." in words
    assert "By kNN, none is above the untrained encoder (25.0 %)" in words


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 2}', '{"format": 1}', '{"format": 1, "variants": {}, "runs": [3], "evaluation": {}}']
)
def test_damaged_results_are_refused(tmp_path, text):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(CoviewsError, match=r"results\.json"):
        read_results(tmp_path / "results.json")


def test_a_number_that_is_none_is_refused(tmp_path):
    results = Results({"a": SMALL}, {}, [result("a", 0, float("nan"))])
    results.save(tmp_path / "r.json")
    with pytest.raises(CoviewsError, match="NaN is not a number"):
        read_results(tmp_path / "r.json")


# ------------------------------------------------------------------------------------------------ statistics


def test_paired_difference_by_hand():
    """Gaps 1, 2, 3: mean 2, standard deviation 1, t = 4.3027 with two degrees of freedom."""
    gap = paired({0: 11.0, 1: 12.0, 2: 23.0, 9: 1.0}, {0: 10.0, 1: 10.0, 2: 20.0})
    assert gap is not None
    assert gap.seeds == 3
    assert gap.mean == pytest.approx(2.0)
    assert gap.half == pytest.approx(4.302653 / 3**0.5)
    assert not gap.beyond_noise
    assert paired({0: 1.0}, {1: 1.0}) is None


def test_a_difference_that_rounds_to_nothing_has_no_minus():
    assert str(paired({0: 1.0}, {0: 1.04})) == "+0.0"
    assert str(paired({0: 1.0, 1: 2.0}, {0: 1.04, 1: 2.04})) == "+0.0 ± 0.0"
    assert str(paired({0: 1.0}, {0: 1.06})) == "-0.1"


@pytest.mark.parametrize("n", [2, 3, 5, 12, 31])
def test_interval_equals_scipys(n):
    import numpy as np
    from scipy import stats

    values = np.random.default_rng(n).normal(1, 2, n)
    gap = paired(dict(enumerate(values)), dict.fromkeys(range(n), 0.0))
    low, high = stats.t.interval(0.95, n - 1, values.mean(), values.std(ddof=1) / n**0.5)
    assert (gap.mean - gap.half, gap.mean + gap.half) == pytest.approx((low, high), rel=1e-3)


def test_the_sentence_says_whether_it_is_more_than_noise():
    clear = winner_sentence({"a": {0: 50.0, 1: 51.0, 2: 52.0}, "b": {0: 40.0, 1: 41.1, 2: 42.0}}, "linear probe")
    assert "a is first by linear probe with 51.0 %" in clear
    assert "more than the noise" in clear
    close = winner_sentence({"a": {0: 50.0, 1: 51.0}, "b": {0: 50.5, 1: 49.0}, "weak": {0: 10.0, 1: 11.1}}, "kNN")
    assert "cannot be told from b" in close
    assert "weak" not in close
    equal = {"a": {0: 51.7, 1: 41.7}, "b": {0: 48.4, 1: 38.4}}  # two images of 60, with both seeds
    assert "more than the noise" in winner_sentence(equal, "kNN")
    assert "a is first by kNN with 46.7 %, but it cannot be told from b" in winner_sentence(equal, "kNN", 100 / 60)
    assert "nothing to compare" in winner_sentence({"a": {0: 1.0}}, "kNN")
    assert "no seed in common" in winner_sentence({"a": {0: 1.0}, "b": {1: 0.0}}, "kNN")


def test_leakage_is_said_before_training_and_in_all_that_comes_out(here, tmp_path):
    images, labels = make_shapes(40, 16)
    for name in ("train", "test"):
        for i in range(0, 40, 1 if name == "train" else 4):
            folder = tmp_path / "data" / name / str(labels[i] % 2)
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(images[i]).save(folder / f"{i}.png")
    said = "10 of 10 test images are among the training images, to the last pixel"
    short = TINY.replaced(data=str(tmp_path / "data"), batch_size=16, knn_every=0)
    with pytest.warns(UserWarning, match=said):
        made = compare(settings=short, views="simclr", seeds=1, out=tmp_path / "c", progress=False)
    assert f"warning: {said}" in " ".join(str(made).split())
    assert said in (tmp_path / "c" / "comparison.html").read_text()
    assert json.loads((tmp_path / "c" / "results.json").read_text())["runs"][0]["shared"] == 10
    assert Results(runs=[result("a", 0, 50.0)]).leak == ""


def test_the_table_holds_mean_deviation_difference_time_and_search():
    many = {"images": [8000, 2000]}
    runs = [result("a", 0, 50.0, **many), result("a", 1, 52.0, **many)]
    runs += [result("b", 0, 40.0, **many), result("b", 1, 43.0, **many)]
    table = standings(Results({"a": SMALL, "b": SMALL}, {}, runs), ["b", "a"])
    assert table.heads == [
        "", "linear probe in %", "kNN in %", "to the best, ± 95 %", "RankMe", "time a run", "in searches", "seeds",
    ]  # fmt: skip
    assert table.rows[0] == ["a", "51.0 ± 1.4", "46.0 ± 1.4", "", "50.0 ± 0.0", "0:10", "20%", "2"]
    assert table.rows[1] == ["b", "41.5 ± 2.1", "36.5 ± 2.1", "-9.5 ± 6.4", "50.0 ± 0.0", "0:10", "20%", "2"]
    assert table.rows[2] == ["untrained encoder", "30.0 ± 0.0", "25.0 ± 0.0", "", "", "", "", ""]
    assert table.markdown().splitlines()[1] == "| --- |" + " ---: |" * 7


def test_hostile_names_are_text_on_the_page(here, tmp_path):
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    made = compare(settings=TINY, views=["random"], seeds=1, out=folder, progress=False)
    assert isinstance(made, Comparison)
    assert "<img src=x" not in (folder / "comparison.html").read_text()


def test_an_unfinished_run_is_not_collected(tmp_path):
    job = Plan({"random": TINY}, (0,)).jobs[0]
    (tmp_path / "random-0").mkdir()
    assert collect(job, tmp_path / "random-0", 1) is None
