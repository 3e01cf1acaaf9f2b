"""The model card of an encoder, filled in from its run: data, views, results and limits."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from coviews.boundary.json_text import json_lines
from coviews.boundary.schema import Count, OpenSchema, checked
from coviews.encoders.open import OpenedEncoder
from coviews.errors import CoviewsError
from coviews.runs.folder import Run

_TITLES = {"knn": "kNN", "linear": "linear probe", "whole": "probe of whole images", "paper": "paper's probe"}


def model_card(model: OpenedEncoder, description: dict[str, Any], snippet: str, *, timm: bool) -> str:
    """The card as Markdown, with the front matter that the hub reads."""
    height, width = description["image_size"]
    channels = description["channels"]
    head = [
        "---", f"library_name: {'timm' if timm else 'pytorch'}", "pipeline_tag: image-feature-extraction",
        "tags: [image-feature-extraction, self-supervised-learning, coviews]", "---", "",
    ]  # fmt: skip
    run = Run.open(model.run, writes=False) if model.run is not None else None
    about = f"{_code(model.name)}, {description['features']:,} features of images of {height} x {width} x {channels}"
    trained = _training(run, model) if run else ["The file does not tell how it was trained."]
    return "\n".join([
        *head, f"# {_text(model.run.resolve().name if model.run else model.name)}", "",
        f"An encoder trained without labels by coviews {description['coviews']}: {about}.", "",
        "## Use", "", "```python", snippet.rstrip(), "```", "",
        "## Training", "", *trained, "",
        "## Results", "", *(_results(run) if run else ["None are known."]), "",
        "## Limits", "", *_limits(run, description), "",
    ])  # fmt: skip


def _training(run: Run, model: OpenedEncoder) -> list[str]:
    s = run.settings
    epochs = f"{s.epochs}" if model.epoch is None else f"{model.epoch} of {s.epochs}; the training has not ended"
    of_family = s.family is not None and s.base_views == s.views
    part = f" ({_text(s.subset)})" if s.subset else ""
    rows = {
        "Images": f"{_code(Path(s.data).name)}, {run.start().images:,}{part}",
        "Views": _code(s.family.text if s.family is not None and of_family else s.views),
        "Method": f"{s.method.name}, {epochs} epochs, batches of {s.batch_size}, learning rate {s.base_lr:g}, "
        f"seed {s.seed}",
        "Started from": _code(Path(s.init_from).name) if s.init_from else "random weights",
    }
    limits = {"never changed": s.matters, "always varied": s.ignores, "forbidden": s.forbid, "capped": s.cap}
    rows |= {f"Views: {name}": _code(value) for name, value in limits.items() if value}
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]


def _results(run: Run) -> list[str]:
    records = _evaluations(run.path / "evaluations.jsonl")
    if not records:
        return ["The encoder was not evaluated: `coviews evaluate` adds results to its run."]
    record = records[-1]
    columns = {"encoder": record.measures, **record.baselines}
    rows = [
        [f"{_TITLES.get(name, _text(name))}, accuracy", *(_share(part, name) for part in columns.values())]
        for name in record.measures
    ]
    judged = f"{record.tested:,} images of {_code(Path(record.test_data or record.data).name)}"
    table = [
        "| " + " | ".join(cells) + " |" for cells in (["", *map(_text, columns)], ["---"] * (len(columns) + 1), *rows)
    ]
    quality = ", ".join(f"{_text(name)} {value:.3g}" for name, value in record.quality.items())
    lines = [f"Judged on {judged} ({_text(record.time[:10])}).", "", *table] if rows else []
    return [*lines, *(["", f"Without labels: {quality}."] if quality else [])]


def _limits(run: Run | None, description: dict[str, Any]) -> list[str]:
    height, width = description["image_size"]
    lines = [
        "- It gives features, not classes, and was made for images like those that it was trained on.",
        f"- Images are resized to {height} x {width} first, then scaled and normalised as above.",
    ]
    if run is not None:
        lines.append("- What the views change, the features were taught to ignore; do not use them where that matters.")
    if description["values"] is not None:
        lines.append("- The images' own values were scaled by a fixed range; others must be on the same scale.")
    return lines


class _Images(OpenSchema):
    test: Count


class _Results(OpenSchema):
    images: _Images
    baselines: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    quality: dict[str, float] = msgspec.field(default_factory=dict)


class _Line(OpenSchema):
    results: dict[str, Any]
    data: str
    test_data: str | None
    time: str


@dataclass(frozen=True)
class _Evaluation:
    """A line of a run's evaluations; the shares of images that each measure judged right, by its name."""

    measures: dict[str, float]
    baselines: dict[str, dict[str, float]]
    quality: dict[str, float]
    tested: int
    data: str
    test_data: str | None
    time: str


def _evaluations(path: Path) -> list[_Evaluation]:
    """All lines that are whole."""
    found = []
    for content in json_lines(path, "evaluations") if path.exists() else ():
        with contextlib.suppress(CoviewsError):
            line = checked(content, _Line, "a line")
            results = checked(line.results, _Results, "its results")
            baselines = {name: _accuracies(part) for name, part in results.baselines.items()}
            measures = _accuracies(line.results)
            found.append(
                _Evaluation(
                    measures, baselines, results.quality, results.images.test, line.data, line.test_data, line.time
                )
            )
    return found


def _accuracies(results: dict[str, Any]) -> dict[str, float]:
    values = {name: value.get("accuracy") for name, value in results.items() if isinstance(value, dict)}
    return {name: value for name, value in values.items() if isinstance(value, float)}


def _share(measures: dict[str, float], name: str) -> str:
    return f"{100 * measures[name]:.1f} %" if name in measures else ""


def _text(value: object) -> str:
    """A name in a line of Markdown: on one line, and without a meaning of its own."""
    plain = " ".join(str(value).split())
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>()#|!~" else c for c in plain)


def _code(value: object) -> str:
    """A name in code font; what would end it or the cell of a table is replaced."""
    return f"`{' '.join(str(value).split()).replace('`', chr(39)).replace('|', '/')}`"
