"""Several runs side by side: how good, how fast, and what their policies prefer."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from coviews.errors import CoviewsError
from coviews.report import sections
from coviews.report.charts import Chart, Matrix
from coviews.report.page import Part, page_html, write_page
from coviews.report.policy_charts import one_policy, operation_order, over_epochs, scales
from coviews.report.record import RunRecord, read_run
from coviews.report.summary import facts, sentence
from coviews.report.training_charts import compared_charts
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import plain_settings

_MOST = 12  # runs that can still be told apart on one page


def write_comparison(runs: Sequence[str | Path], out: str | Path = "comparison.html") -> Path:
    """Write a page that compares runs."""
    found = read_runs(runs)
    write_page(Path(out), comparison_page(found))
    return Path(out)


def read_runs(paths: Sequence[str | Path]) -> list[RunRecord]:
    """Runs to compare."""
    if len(paths) > _MOST:
        raise CoviewsError(f"{len(paths)} runs are too many for one page: give at most {_MOST}")
    return [read_run(Path(path)) for path in paths]


def comparison_charts(runs: Sequence[RunRecord]) -> list[Chart]:
    """Every chart of the page."""
    return [*compared_charts(runs, run_names(runs)), *_policy_charts(runs)]


def comparison_page(runs: Sequence[RunRecord]) -> str:
    """The page that compares runs."""
    names = run_names(runs)
    progress, policies = compared_charts(runs, names), _policy_charts(runs)
    listed = [{fact.what: fact for fact in facts(run)} for run in runs]
    whats = list(dict.fromkeys(what for one in listed for what in one))
    rows = [[what, *(one.get(what, "") for one in listed)] for what in whats]
    told = "".join(
        f"<li><strong>{escape(n)}</strong>: {escape(sentence(r))}</li>" for n, r in zip(names, runs, strict=True)
    )
    top = sections.section("summary", "Summary", "", sections.table(["", *names], rows), f"<ul>{told}</ul>")
    top += sections.notes(
        "What is missing", [f"{name}: {text}" for name, run in zip(names, runs, strict=True) for text in run.missing]
    )
    parts: list[Part] = []
    if progress:
        about = "The looks at the encoders during training. Time is that of training, searches and looks together."
        body = sections.section("progress", "Progress", about, sections.plots(progress))
        parts.append(("progress", "Progress", body))
    if policies:
        about = (
            "The operations of each policy over the epochs; then which operations of the newest policies meet in a "
            "pair of views, and their lift: for independent views it is 1 everywhere. Colours mean the same for all "
            "runs."
        )
        body = sections.section("policies", "Policies", about, sections.plots(policies))
        parts.append(("policies", "Policies", body))
    differing = _differences([run.config for run in runs])
    if differing:
        body = sections.table(["setting", *names], differing)
        parts.append(("settings", "Settings", sections.section("settings", "Settings that differ", "", body)))
    lead = f"{len(runs)} runs side by side: {', '.join(names)}."
    return page_html("Comparison of runs", "Comparison", lead, top, parts, [*progress, *policies])


def run_names(runs: Sequence[RunRecord]) -> list[str]:
    """The names of the folders, or the whole paths where they would be the same."""
    names = [run.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.path) for run in runs]


def _policy_charts(runs: Sequence[RunRecord]) -> list[Chart]:
    """The same chart of all runs next to each other, with a common scale."""
    named = [(n, r) for n, r in zip(run_names(runs), runs, strict=True) if r.statistics]
    if not named:
        return []
    newest = [run.statistics[max(run.statistics)] for _, run in named]
    ends = scales(newest)
    most = max(float(s.ops.mean((0, 1)).max()) for _, run in named for s in run.statistics.values())
    groups: list[list[Chart]] = []
    for (_, run), statistics in zip(named, newest, strict=True):
        alike = statistics.space.ops == newest[0].space.ops
        order = operation_order(newest[0] if alike else statistics)
        moving = over_epochs(run.statistics, "current", "Operations of each policy", order)[:1]
        scaled: list[Chart] = [replace(c, limits=(0.0, most)) for c in moving if isinstance(c, Matrix)]
        charts = one_policy(statistics, order, **ends)
        groups.append([*scaled, *(c for c in charts if c.key in ("co-occurrence", "lift"))])
    return [
        replace(chart, key=f"{chart.key}-{i + 1}", title=f"{named[i][0]} · {chart.title}")
        for together in zip(*groups, strict=True)
        for i, chart in enumerate(together)
    ]


def settings_that_differ(settings: Sequence[PretrainSettings]) -> list[list[str]]:
    """Rows of a table: the name of a setting, and its value in each."""
    return _differences([plain_settings(one) for one in settings])


def _differences(configs: Sequence[dict[str, Any]]) -> list[list[str]]:
    flat = [dict(_flat(config)) for config in configs]
    names = list(dict.fromkeys(name for one in flat for name in one))
    rows = [[name, *(one.get(name, "") for one in flat)] for name in names]
    return [row for row in rows if len(set(row[1:])) > 1]


def _flat(config: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    found = []
    for name, value in config.items():
        if isinstance(value, dict):
            found += _flat(value, f"{before}{name}.")
        else:
            found.append((f"{before}{name}", str(value)))
    return found
