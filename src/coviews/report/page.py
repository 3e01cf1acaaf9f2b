"""`report.html`: all that is known of a run, in one file that needs no network."""

import base64
import hashlib
import importlib.metadata
import importlib.resources
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from coviews.data.imageset import ImageSet
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole
from coviews.report.charts import Chart
from coviews.report.encoder_section import EncoderExamples, encoder_sections
from coviews.report.evaluations import evaluation_parts
from coviews.report.gallery import make_gallery
from coviews.report.plotly_figures import changes, figure
from coviews.report.policy_charts import PolicyFrame, favourites, learned_text, over_epochs, policy_frames
from coviews.report.record import RunRecord, search_measures
from coviews.report.rendering import HtmlTable, Section, render
from coviews.report.summary import facts, sentence
from coviews.report.training_charts import search_charts, training_charts


def run_charts(run: RunRecord) -> list[Chart]:
    """Every chart of a run's page, each once."""
    frames = policy_frames(run)
    newest = frames[-1].charts if frames else []
    searches = search_charts(run, search_measures(run))
    return [
        *training_charts(run),
        *searches,
        *_policies_over_epochs(run),
        *_queues_over_epochs(run),
        *newest,
        *evaluation_parts(run)[1],
    ]


def run_page(
    run: RunRecord, *, examples: EncoderExamples | None = None, images: ImageSet | None = None, live: str = ""
) -> str:
    """The page of a run.

    Args:
        run: what is known of it.
        examples: what its encoder finds hard and similar, if that is to be shown.
        images: the run's, if they are in memory.
        live: the page's version, if the page is to ask its server for newer ones.
    """
    training, searches = training_charts(run), search_charts(run, search_measures(run))
    policies, queues, frames = _policies_over_epochs(run), _queues_over_epochs(run), policy_frames(run)
    evaluation, confusion = evaluation_parts(run)
    sections: list[Section] = []
    if training:
        more = (
            "it may rise when a policy gets harder" if run.policies else "compare it only between runs of equal views"
        )
        about = f"The contrastive loss depends on how hard the views are: {more}."
        sections.append(Section("training", "Training", "Training", charts_html(training), about))
    if frames:
        sections.append(_policies_section(run, policies, queues, frames))
    sections.append(_gallery_section(run, images))
    if examples is not None:
        sections += encoder_sections(examples)
    if searches:
        about = "How the search for each policy went."
        if any(line.shade is not None for chart in searches for line in chart.lines):
            about += " Darker lines are earlier searches."
        sections.append(Section("search", "Search", "The searches", charts_html(searches), about))
    if evaluation or confusion:
        body = evaluation + charts_html(confusion, wide=True)
        sections.append(Section("evaluation", "Evaluation", "Evaluation", body))
    about = "These settings, given to coviews pretrain --config, repeat the run." if run.config_text else ""
    body = render("run_settings.html", config=run.config_text)
    sections.append(Section("settings", "Settings", "Settings", body, about))

    warned = [f"epoch {r.get('epoch', '?')}: {r.get('text', '')}" for r in run.of_kind("warning")]
    check = str(run.check.get("sentence", ""))
    top = render("run_summary.html", facts=facts(run), check=check, missing=run.missing, warnings=warned)
    charts = [*training, *policies, *queues, *(frames[-1].charts if frames else []), *searches, *confusion]
    frame_data = [
        {
            "label": frame.label,
            "told": frame.text,
            "changes": {c.key: changes(c) for c in frame.charts},
            "alts": {c.key: c.alt for c in frame.charts},
        }
        for frame in frames
    ]
    return page_html(run.name, "Pretraining run", sentence(run), top, sections, charts, frame_data, live)


def page_html(
    title: str,
    kind: str,
    lead: str,
    top: Markup,
    sections: Sequence[Section],
    charts: Sequence[Chart],
    frames: Sequence[Any] = (),
    live: str = "",
) -> str:
    """The whole page around its sections."""
    from plotly.offline import get_plotlyjs  # here, so that only those who make a page wait for it

    script, plotly = _file("page.js"), Markup(get_plotlyjs())
    return render(
        "page.html",
        title=title,
        kind=kind,
        lead=lead,
        top=top,
        sections=sections,
        version=importlib.metadata.version("coviews"),
        css=_file("page.css"),
        data={"charts": {c.key: figure(c) for c in charts}, "frames": list(frames), "live": live},
        plotly=plotly,
        script=script,
        # only these two scripts may run, and nothing may be fetched: a name from the data can do neither
        hashes=[_hash(plotly), _hash(script)],
    )


def charts_html(charts: Sequence[Chart], *, wide: bool = False) -> Markup:
    """Places for charts, each with its words; wide: each over the whole width."""
    return render("charts.html", charts=charts, wide=wide)


def write_page(path: Path, text: str) -> None:
    """Write a page, whole or not at all."""
    if path.is_dir():
        raise CoviewsError(f"cannot write {path}: it is a folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CoviewsError(f"cannot write {path}: {error.strerror}") from error
    write_whole(path, text.encode(errors="replace"))


def _policies_over_epochs(run: RunRecord) -> list[Chart]:
    return over_epochs(run.statistics, "current", "Operations of each policy")


def _queues_over_epochs(run: RunRecord) -> list[Chart]:
    return over_epochs(run.queues, "queue", "Operations of the queue, which makes the views")


def _policies_section(run: RunRecord, policies: list[Chart], queues: list[Chart], frames: list[PolicyFrame]) -> Section:
    newest = run.statistics[max(run.statistics)]
    views, steps, count = newest.ops.shape
    rows = [
        [op, *(f"{v:.1%}" for v in newest.ops[:, :, newest.space.ops.index(op)].ravel())]
        for op, _ in favourites(newest, count)
    ]
    heads = [f"view {v + 1}, step {s + 1}" for v in range(views) for s in range(steps)]
    p = run.policies[max(run.policies)].p
    learned = learned_text(newest)
    about = (
        f"{learned[0].upper()}{learned[1:]} Shown is how much more often than its prior a policy draws each operation, "
        "by the epoch before which it was learned; 1 is as often, and Identity, which changes nothing, is left out. An "
        f"operation that is drawn is applied with the probability {p:g}. Preferred operations make pairs hard for this "
        "encoder without losing what is in the image."
    )
    table = HtmlTable(["operation", *heads], rows)
    body = render("policies.html", policies=policies, queues=queues, frames=frames, table=table)
    return Section("policies", "What was learned", "What was learned", body, about)


def _gallery_section(run: RunRecord, images: ImageSet | None) -> Section:
    about = (
        "Some of the images, with views made as in training. Below a view is what was done to it, in this order; "
        "crop: left, top, right and bottom, in pixels."
    )
    gallery = make_gallery(run, images=images)
    if gallery.note:
        about += f" Of each image {gallery.note}."
    template = "gallery.html" if gallery.rows else "missing.html"
    body = render(template, gallery=gallery, reason=gallery.missing)
    return Section("gallery", "Views", "Views of your images", body, about)


def _file(name: str) -> Markup:
    text = importlib.resources.files("coviews.report").joinpath(name).read_text(encoding="utf-8")
    return Markup(text)


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
