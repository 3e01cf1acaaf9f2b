"""The page of a comparison."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from coviews.comparison.charts import progress_charts
from coviews.comparison.plan import Plan
from coviews.comparison.results import Results
from coviews.comparison.standings import Rows
from coviews.report import sections
from coviews.report.page import Part, page_html
from coviews.report.several_runs import settings_that_differ
from coviews.runs.settings_file import settings_yaml


def comparison_html(title: str, said: str, results: Results, plan: Plan, tables: Sequence[Rows], folder: Path) -> str:
    """The whole page; `said` is the sentence that it begins with."""
    names = list(plan.variants)
    top = "".join(sections.table(table.heads, table.rows) for table in tables)
    top = sections.section("results", "Results", _about(results), top)
    parts: list[Part] = []
    charts = progress_charts(results, names)
    if charts:
        about = "The looks at the encoders during training; each line is the mean over the seeds."
        body = sections.section("progress", "Progress", about, sections.plots(charts))
        parts.append(("progress", "Progress", body))
    reports = [job for job in plan.jobs if (folder / "runs" / job.name / "report.html").exists()]
    if reports:
        links = "".join(
            f'<li><a href="runs/{escape(job.name)}/report.html">{escape(job.variant)}, seed {job.seed}</a></li>'
            for job in reports
        )
        about = "What each run learned. coviews report RUN RUN ... shows the policies of some side by side."
        parts.append(("runs", "Runs", sections.section("runs", "Runs", about, f"<ul>{links}</ul>")))
    differing = settings_that_differ([results.variants[name] for name in names])
    body = sections.table(["setting", *names], differing) if differing else ""
    shared = settings_yaml(next(iter(results.variants.values())))
    body += f"<details><summary>All settings of {escape(names[0])}</summary><pre>{escape(shared)}</pre></details>"
    parts.append(("settings", "Settings", sections.section("settings", "Settings that differ", "", body)))
    return page_html(title, "Comparison", said, top, parts, charts)


def _about(results: Results) -> str:
    made = sorted({r.made for r in results.runs})
    if not made:
        return "No run is done yet."
    learned, judged = results.runs[0].images
    images = f"{learned:,} images to learn from" + (f", {judged:,} to judge" if judged else "")
    return (
        f"Mean and standard deviation over pretraining seeds; {images}. The difference is paired over the seeds. "
        f"Made with {'; '.join(made)}."
    )
