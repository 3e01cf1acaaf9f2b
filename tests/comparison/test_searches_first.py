"""Searches before a training as variants of a comparison: made first, continued, and counted."""

import functools
import json

import pytest

from coviews import CoviewsError, compare, population_augment
from coviews.comparison import searches_first
from coviews.comparison.compare import _expected
from coviews.comparison.plan import Job, view_variants
from coviews.comparison.results import collect
from coviews.comparison.searches_first import expected_search_seconds
from coviews.comparison.worker import begin_or_continue, train_and_judge
from coviews.runs.settings_file import parse_settings, read_settings, settings_yaml
from coviews.training.signals import Stopped
from small_runs import SMALL, signalled

TINY = SMALL.replaced(views="population", space=None, epochs=2, data="shapes:40", size=12, batch_size=16, knn_every=0)


@pytest.fixture
def small_population(monkeypatch):
    small = functools.partial(population_augment, members=2, every=1)
    monkeypatch.setitem(searches_first.SEARCHES, "population", small)


@pytest.mark.usefixtures("small_population")
def test_a_search_is_made_first_and_its_time_counts(tmp_path):
    job = Job("population", TINY, {"k": 5, "baselines": False})
    train_and_judge(tmp_path, TINY, dict(job.evaluation))
    assert read_settings(tmp_path / "config.yaml").views == str(tmp_path / "choice" / "schedule.json")
    result = collect(job, tmp_path, 1)
    searched = json.loads((tmp_path / "choice" / "seconds.json").read_text())["seconds"]
    assert result.searching == pytest.approx(searched, abs=0.01)
    assert result.seconds > searched > 0


@pytest.mark.usefixtures("small_population")
def test_a_training_that_is_stopped_goes_on_with_the_views_that_were_found(tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    begin_or_continue(whole, TINY)
    with signalled(1), pytest.raises(Stopped):
        begin_or_continue(stopped, TINY)
    for _ in range(3):  # the first stop was in a pilot
        begin_or_continue(stopped, TINY)
    assert (whole / "encoder.safetensors").read_bytes() == (stopped / "encoder.safetensors").read_bytes()
    with pytest.raises(CoviewsError, match="lr"):  # it would be recorded as what it is not
        begin_or_continue(stopped, TINY.replaced(lr=0.5))


@pytest.mark.parametrize("name", ["selfrandaugment", "selfaugment", "population"])
def test_a_process_gets_the_settings_that_the_search_needs(name):
    settings = view_variants(TINY, [name])[name]
    assert parse_settings(settings_yaml(settings), "here") == settings


@pytest.mark.slow  # nine, five and sixteen pilots
@pytest.mark.parametrize("name", ["selfrandaugment", "selfaugment", "population"])
def test_compared_in_processes_of_their_own(name, tmp_path):
    made = compare(settings=TINY, views=["cropflip", name], seeds=1, out=tmp_path, progress=False, report=False)
    assert [run.variant for run in made.results.runs] == ["cropflip", name]
    plain, searched = made.results.runs
    assert searched.searching > 0 == plain.searching
    assert (tmp_path / "runs" / f"{name}-0" / "choice").is_dir()


def test_the_estimate_knows_of_the_pilots():
    plain = Job("cropflip", TINY.replaced(views="cropflip", epochs=20), {})
    searched = Job("population", TINY.replaced(epochs=20), {})
    seconds = _expected([plain, searched], 1, False)
    assert seconds[searched.name] == pytest.approx(seconds[plain.name] * (1 + 16 * 2 / 20))


@pytest.mark.parametrize(
    ("views", "seconds"),
    [
        ("cropflip", 0.0),
        ("selfrandaugment", 9 * 10.0),
        ("population", 16 * 10.0),
        ("selfaugment", 4 * 10.0 + 2000 * 6 * 600 * 0.001),  # five encoders of four fifths, 2,000 trials of 600 images
    ],
)
def test_what_a_search_will_take(views, seconds):
    settings = TINY.replaced(views=views, epochs=20)
    assert expected_search_seconds(settings, 100.0, 0.001, 3000) == pytest.approx(seconds)
