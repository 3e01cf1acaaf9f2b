"""`report.html`: all that is known of a run, or of several side by side, in one file that needs no network."""

import base64
import hashlib
import html
import importlib.metadata
import importlib.resources
import json
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from coviews.data.imageset import ImageSet
from coviews.errors import CoviewsError
from coviews.files.atomic import write_whole
from coviews.report import sections
from coviews.report.charts import Chart
from coviews.report.encoder_section import Trial, trial_parts
from coviews.report.evaluations import evaluation_parts
from coviews.report.gallery import gallery
from coviews.report.plotly_figures import changes, figure
from coviews.report.policy_charts import favourites, over_epochs, policy_frames
from coviews.report.record import RunRecord
from coviews.report.summary import facts, sentence
from coviews.report.training_charts import search_charts, training_charts

Part = tuple[str, str, str]  # the key of a section, its name in the menu, and its HTML


def run_charts(run: RunRecord) -> list[Chart]:
    """Every chart of a run's page, each once."""
    charts = [*training_charts(run), *search_charts(run), *_over_epochs(run), *policy_frames(run)[0]]
    return [*charts, *evaluation_parts(run)[1]]


def run_page(run: RunRecord, *, trial: Trial | None = None, images: ImageSet | None = None, live: str = "") -> str:
    """The page of a run.

    Args:
        run: what is known of it.
        trial: what its encoder makes of its images, if that was tried.
        images: the run's, if they are in memory.
        live: the page's version, if it is to ask its server for newer ones.
    """
    parts: list[Part] = []
    charts: list[Chart] = []
    training, searching, moving = training_charts(run), search_charts(run), _over_epochs(run)
    newest, frames = policy_frames(run)
    if training:
        about = "The contrastive loss depends on how hard the views are: it may rise when a policy gets harder."
        parts.append(
            ("training", "Training", sections.section("training", "Training", about, sections.plots(training)))
        )
    if moving:
        parts.append(("policies", "What was learned", _policies(run, moving, newest, frames)))
    shown = gallery(run, images=images)
    about = "Some of the images, and what the policies make of them; the steps stand in the order they are applied in, "
    about += "and are followed by a random crop and flip where the run has them."
    parts.append(
        ("gallery", "Views", sections.section("gallery", "Views of your images", about, sections.pictures(shown)))
    )
    if trial is not None:
        parts += trial_parts(trial)
    if searching:
        about = (
            "A search learns a policy by reward: high for hard pairs, low for pairs over the bound, which have lost "
        )
        about += "what is in the image. Darker lines are earlier searches."
        if any(chart.key.startswith("table") for chart in searching):
            about = (
                "Before every epoch a table of what each choice adds to a pair's loss was fitted to the pairs that "
                "training had seen. The policy prefers what is hard, and not what is expected over the bound."
            )
        parts.append(("search", "Search", sections.section("search", "The searches", about, sections.plots(searching))))
    judged, confused = evaluation_parts(run)
    if judged or confused:
        body = sections.section("evaluation", "Evaluation", "", judged, sections.plots(confused, wide=True))
        parts.append(("evaluation", "Evaluation", body))
    config = f"<pre>{html.escape(run.config_text)}</pre>" if run.config_text else ""
    about = "These settings, given to coviews pretrain --config, repeat the run."
    parts.append(("settings", "Settings", sections.section("settings", "Settings", about if config else "", config)))
    for group in (training, moving, newest, searching, confused):
        charts += group

    warned = [f"epoch {r.get('epoch', '?')}: {r.get('text', '')}" for r in run.of_kind("warning")]
    top = sections.cards(facts(run)) + sections.notes("What is missing", run.missing)
    top += sections.notes("Warnings of the run", warned)
    made = [{"label": f["label"], "told": f["told"], "changes": {c.key: changes(c) for c in f["charts"]},
             "alts": {c.key: c.alt for c in f["charts"]}} for f in frames]  # fmt: skip
    return page_html(run.name, "Pretraining run", sentence(run), top, parts, charts, made, live)


def page_html(
    title: str,
    kind: str,
    lead: str,
    top: str,
    parts: Sequence[Part],
    charts: Sequence[Chart],
    frames: Sequence[Any] = (),
    live: str = "",
) -> str:
    """The whole page around its parts."""
    from plotly.offline import get_plotlyjs  # only who makes a page waits for it

    script, plotly = _file("page.js"), get_plotlyjs()
    content = {"charts": {c.key: figure(c) for c in charts}, "frames": list(frames), "live": live}
    data = json.dumps(content, separators=(",", ":"))
    links = "".join(f'<a href="#{key}">{html.escape(name)}</a>' for key, name, _ in parts)
    return Template(_file("page.html")).substitute(
        title=html.escape(f"{title} · coviews"),
        kind=html.escape(kind),
        heading=html.escape(title),
        lead=html.escape(lead),
        links=links,
        body=top + "".join(body for _, _, body in parts),
        version=html.escape(importlib.metadata.version("coviews")),
        css=_file("page.css"),
        # nothing in the data can end the script that holds it
        data=data.replace("<", "\\u003c"),
        plotly=plotly,
        script=script,
        connect="'self'" if live else "'none'",
        # only these two scripts may run, and nothing may be fetched: a name from the data can do neither
        hashes=" ".join(map(_hash, (plotly, script))),
    )


def write_page(path: Path, text: str) -> None:
    """Write a page, whole or not at all."""
    if path.is_dir():
        raise CoviewsError(f"cannot write {path}: it is a folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CoviewsError(f"cannot write {path}: {error.strerror}") from error
    write_whole(path, text.encode(errors="replace"))


def _over_epochs(run: RunRecord) -> list[Chart]:
    newest = over_epochs(run.statistics, "current", "Operations of each policy")
    return newest + over_epochs(run.queues, "queue", "Operations of the queue, which makes the views")


def _policies(run: RunRecord, moving: list[Chart], newest: list[Chart], frames: list[dict[str, Any]]) -> str:
    choice = (
        '<fieldset class="choice"><legend>Show</legend>'
        '<label><input type="radio" name="mixture" value="current" autocomplete="off" checked> each policy</label>'
        '<label><input type="radio" name="mixture" value="queue" autocomplete="off"> the queue of the most recent '
        "ones</label></fieldset>"
    )
    half = len(moving) // 2
    groups = (("current", moving[:half], ""), ("queue", moving[half:], " hidden"))
    shown = "".join(f'<div data-mixture="{k}"{off}>{sections.plots(charts)}</div>' for k, charts, off in groups)
    last = run.statistics[max(run.statistics)]
    ops = favourites(last, len(last.space.ops))
    rows = [[op, *(f"{v:.1%}" for v in last.ops[:, :, last.space.ops.index(op)].ravel())] for op, _ in ops]
    heads = [f"view {v + 1}, step {s + 1}" for v in range(last.ops.shape[0]) for s in range(last.ops.shape[1])]
    listed = sections.table(["operation", *heads], rows)
    values = f"<details><summary>The newest policy as a table</summary>{listed}</details>"
    p = run.policies[max(run.policies)].p
    about = (
        "The probability of each operation in a step, by the epoch before which a policy was learned. What is drawn is "
        f"applied with the probability {p:g}. What is likely makes pairs hard for this encoder without losing their "
        "image."
    )
    charts = sections.slider([f["label"] for f in frames], frames[-1]["told"]) + sections.plots(newest)
    return sections.section("policies", "What was learned", about, choice, shown, charts, values)


def _file(name: str) -> str:
    return importlib.resources.files("coviews.report").joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
