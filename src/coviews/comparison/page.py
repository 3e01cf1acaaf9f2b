"""The page of a comparison."""

from collections.abc import Sequence
from pathlib import Path

from coviews.comparison.charts import progress_charts
from coviews.comparison.plan import Plan
from coviews.comparison.results import Results
from coviews.comparison.standings import Rows
from coviews.report.page import charts_html, page_html
from coviews.report.rendering import HtmlTable, Section, render
from coviews.report.several_runs import settings_that_differ
from coviews.runs.settings_file import settings_yaml


def comparison_html(
    title: str, sentence: str, results: Results, plan: Plan, tables: Sequence[Rows], folder: Path
) -> str:
    """The whole page; the sentence stands at its top."""
    names = list(plan.variants)
    html_tables = [HtmlTable(table.heads, table.rows) for table in tables]
    top = render("comparison_results.html", about=_about(results), tables=html_tables)
    sections: list[Section] = []
    charts = progress_charts(results, names)
    if charts:
        about = "The encoders' quality during training; each line is the mean over the seeds."
        sections.append(Section("progress", "Progress", "Progress", charts_html(charts), about))
    jobs = [job for job in plan.jobs if (folder / "runs" / job.name / "report.html").exists()]
    if jobs:
        about = "The page of each run. coviews report RUN RUN ... shows several side by side."
        sections.append(Section("runs", "Runs", "Runs", render("comparison_runs.html", jobs=jobs), about))
    body = render(
        "comparison_settings.html",
        table=HtmlTable(["setting", *names], settings_that_differ([results.variants[name] for name in names])),
        name=names[0],
        settings=settings_yaml(next(iter(results.variants.values()))),
    )
    sections.append(Section("settings", "Settings", "Settings that differ", body))
    return page_html(title, "Comparison", sentence, top, sections, charts)


def _about(results: Results) -> str:
    versions = sorted({r.made for r in results.runs})
    if not versions:
        return "No run is done yet."
    learned, judged = results.runs[0].images
    images = f"{learned:,} images to learn from" + (f", {judged:,} to judge" if judged else "")
    warning = f" Warning: {results.leak}." if results.leak else ""
    return (
        f"Mean and standard deviation over pretraining seeds; {images}. The difference is paired over the seeds. "
        f"Made with {'; '.join(versions)}.{warning}"
    )
