"""The evaluations of a run, as far as its evaluations.jsonl has them."""

from typing import Any

from markupsafe import Markup

from coviews.report.charts import Chart, Matrix
from coviews.report.record import RunRecord, number
from coviews.report.rendering import HtmlTable, render
from coviews.report.summary import Fact, accuracy, results_of

_CLASSES = 100  # more make no readable matrix


def evaluation_parts(run: RunRecord) -> tuple[Markup, list[Chart]]:
    """The last evaluation in numbers, all of them as a table, and the last confusion matrix."""
    rows: list[list[str]] = []
    charts: list[Chart] = []
    for line in run.evaluations:
        found = results_of(line)
        label = " ".join(str(line[name])[:60] for name in ("time", "data") if isinstance(line.get(name), str))
        baselines = found.get("baselines")
        others = baselines.items() if isinstance(baselines, dict) else ()
        for name, part in (("this encoder", found), *others):
            values = [accuracy(part, kind) for kind in ("linear", "knn", "whole", "paper")]
            if any(v is not None for v in values):
                rows.append([label, str(name), *("" if v is None else f"{100 * v:.1f} %" for v in values)])
        confused = _confusion(found)
        charts = [confused] if confused is not None else charts
    if not run.evaluations:
        return Markup(), []
    last = results_of(run.evaluations[-1])
    heads = ["evaluation", "features of", "linear probe", "kNN", "linear probe of whole images", "the paper's probe"]
    body = render(
        "evaluation.html",
        facts=_facts(last),
        evaluations=HtmlTable(heads, rows),
        classes=_by_class(last),
        reasons=_reasons(last),
    )
    return body, charts


def _facts(found: dict[str, Any]) -> list[Fact]:
    named = (("linear", "Linear probe"), ("knn", "kNN"), ("paper", "The paper's probe"))
    facts = [Fact(what, f"{100 * v:.1f} %") for key, what in named if (v := accuracy(found, key)) is not None]
    tuned = found.get("finetune")
    for share, part in tuned.items() if isinstance(tuned, dict) else ():
        value = number(part, "accuracy")
        if value is not None:
            facts.append(Fact(f"Fine-tuned with {share} of the labels", f"{100 * value:.1f} %"))
    quality = (("rankme", "RankMe", "dimensions that the features use"), ("alignment", "Alignment", "lower is closer"),
               ("uniformity", "Uniformity", "lower is more even"))  # fmt: skip
    for key, what, more in quality:
        value = number(found.get("quality"), key)
        if value is not None:
            facts.append(Fact(what, f"{value:.3g}", more))
    return facts


def _by_class(found: dict[str, Any]) -> HtmlTable:
    listed = found.get("per_class")
    rows = []
    for row in listed if isinstance(listed, list) else ():
        if isinstance(row, dict) and "class" in row:
            values = [number(row, name) for name in ("images", "linear", "knn")]
            shown = ["" if v is None else f"{v:,.0f}" if i == 0 else f"{100 * v:.1f} %" for i, v in enumerate(values)]
            rows.append([str(row["class"]), *shown])
    return HtmlTable(["class", "images", "linear probe", "kNN"], rows)


def _reasons(found: dict[str, Any]) -> list[str]:
    listed = found.get("missing")
    kept = [m for m in listed if isinstance(m, dict)] if isinstance(listed, list) else []
    return [f"{m.get('name', '')}: {m.get('reason', '')}" for m in kept]


def _confusion(found: dict[str, Any]) -> Matrix | None:
    matrix, classes = found.get("confusion"), found.get("classes")
    if not isinstance(matrix, list) or not isinstance(classes, list) or not 1 < len(classes) <= _CLASSES:
        return None
    n = len(classes)
    whole = len(matrix) == n and all(
        isinstance(row, list) and len(row) == n and all(number({"": v}, "") is not None for v in row) for row in matrix
    )
    if not whole:
        return None
    names = [str(c) for c in classes]
    shares: list[list[float | None]] = [[round(v / (sum(row) or 1), 4) for v in row] for row in matrix]
    most, i, j = max((shares[i][j] or 0.0, i, j) for i in range(n) for j in range(n) if i != j)
    alt = f"Confusion matrix: the commonest mistake takes {names[i]} for {names[j]} ({most:.0%} of its images)."
    texts = [[f"{a} taken for {b}" for b in names] for a in names]
    title = "Which class is taken for which"
    return Matrix(
        "confusion", title, "taken for", "true class", names, names, shares, alt, limits=(0.0, 1.0), texts=texts
    )
