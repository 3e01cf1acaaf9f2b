"""Several runs side by side: how good, how fast, and what their policies prefer."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from coviews.errors import CoviewsError
from coviews.report.charts import Chart, Matrix
from coviews.report.page import charts_html, page_html
from coviews.report.policy_charts import one_policy, operation_order, over_epochs, preference_limit, scales
from coviews.report.record import RunRecord, read_run
from coviews.report.rendering import HtmlTable, Section, render
from coviews.report.summary import facts, sentence
from coviews.report.training_charts import compared_charts
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import plain_settings

_MOST = 12  # runs on one page: more cannot be told apart


def read_runs(paths: Sequence[str | Path]) -> list[RunRecord]:
    """Read runs to compare."""
    if len(paths) > _MOST:
        raise CoviewsError(f"{len(paths)} runs are too many for one page: give at most {_MOST}")
    return [read_run(Path(path)) for path in paths]


def several_runs_charts(runs: Sequence[RunRecord]) -> list[Chart]:
    """Every chart of the page."""
    return [*compared_charts(runs, run_names(runs)), *_policy_charts(runs)]


def several_runs_page(runs: Sequence[RunRecord]) -> str:
    """The page that compares runs."""
    names = run_names(runs)
    progress, policies = compared_charts(runs, names), _policy_charts(runs)
    facts_by_run = [{fact.name: fact for fact in facts(run)} for run in runs]
    fact_names = list(dict.fromkeys(name for one in facts_by_run for name in one))
    rows = [[name, *(one.get(name, "") for one in facts_by_run)] for name in fact_names]
    top = render(
        "runs_summary.html",
        table=HtmlTable(["", *names], rows),
        sentences=[(name, sentence(run)) for name, run in zip(names, runs, strict=True)],
        missing=[f"{name}: {text}" for name, run in zip(names, runs, strict=True) for text in run.missing],
    )
    sections: list[Section] = []
    if progress:
        about = "The encoders' quality during training. Time includes training, searches and measuring the quality."
        sections.append(Section("progress", "Progress", "Progress", charts_html(progress), about))
    if policies:
        about = (
            "How much more often than its prior each policy draws its operations; then which operations of the newest "
            "policies occur together in a pair of views, and their lift: for independent views it is 1 everywhere. "
            "Colours mean the same for all runs."
        )
        sections.append(Section("policies", "Policies", "Policies", charts_html(policies), about))
    differing = _differences([run.config for run in runs])
    if differing:
        body = render("table.html", table=HtmlTable(["setting", *names], differing))
        sections.append(Section("settings", "Settings", "Settings that differ", body))
    lead = f"{len(runs)} runs side by side: {', '.join(names)}."
    return page_html("Comparison of runs", "Comparison", lead, top, sections, [*progress, *policies])


def run_names(runs: Sequence[RunRecord]) -> list[str]:
    """The names of the folders, or the whole paths where they would be the same."""
    names = [run.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.path) for run in runs]


def _policy_charts(runs: Sequence[RunRecord]) -> list[Chart]:
    """The same charts of all runs, each chart with one scale for all of them."""
    named = [(n, r) for n, r in zip(run_names(runs), runs, strict=True) if r.statistics]
    if not named:
        return []
    newest = [run.statistics[max(run.statistics)] for _, run in named]
    ends = scales(newest)
    limit = preference_limit(s for _, run in named for s in run.statistics.values())
    groups: list[list[Chart]] = []
    for (_, run), statistics in zip(named, newest, strict=True):
        alike = statistics.space.ops == newest[0].space.ops
        order = operation_order(newest[0] if alike else statistics)
        matrices = over_epochs(run.statistics, "current", "Operations of each policy", order)[:1]
        scaled: list[Chart] = [replace(c, limits=(1 - limit, 1 + limit)) for c in matrices if isinstance(c, Matrix)]
        charts = one_policy(statistics, order, **ends)
        groups.append([*scaled, *(c for c in charts if c.key in ("co-occurrence", "lift"))])
    return [
        replace(chart, key=f"{chart.key}-{i + 1}", title=f"{named[i][0]} · {chart.title}")
        for together in zip(*groups, strict=True)
        for i, chart in enumerate(together)
    ]


def settings_that_differ(settings: Sequence[PretrainSettings]) -> list[list[str]]:
    """Rows of a table: the name of a setting, and its value in each of these settings."""
    return _differences([plain_settings(one) for one in settings])


def _differences(configs: Sequence[dict[str, Any]]) -> list[list[str]]:
    flat = [dict(_flat(config)) for config in configs]
    names = list(dict.fromkeys(name for one in flat for name in one))
    rows = [[name, *(one.get(name, "") for one in flat)] for name in names]
    return [row for row in rows if len(set(row[1:])) > 1]


def _flat(config: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    values = []
    for name, value in config.items():
        if isinstance(value, dict):
            values += _flat(value, f"{prefix}{name}.")
        else:
            values.append((f"{prefix}{name}", str(value)))
    return values
