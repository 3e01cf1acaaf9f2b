"""The evaluations of a run, as far as its evaluations.jsonl has them."""

from typing import Any

from markupsafe import Markup

from coviews.evaluation.measures import MEASURES, accuracy_measures, class_measures, quality_measures, title_of
from coviews.report.charts import Chart, Matrix
from coviews.report.record import RunRecord, number
from coviews.report.rendering import HtmlTable, render
from coviews.report.summary import Fact, recorded_accuracy, results_of

_CLASSES = 100  # more make no readable matrix
_LONGEST = 100  # characters of the name of a class that are shown


def evaluation_parts(run: RunRecord) -> tuple[Markup, list[Chart]]:
    """The last evaluation in numbers, all of them as a table, and the last confusion matrix."""
    if not run.evaluations:
        return Markup(), []
    evaluations = [results_of(line) for line in run.evaluations]
    matrices = [matrix for results in evaluations if (matrix := _confusion(results)) is not None]
    last = evaluations[-1]
    body = render(
        "evaluation.html",
        facts=_facts(last),
        evaluations=_accuracies(run),
        classes=_by_class(last),
        reasons=_reasons(last),
    )
    return body, list(matrices[-1:])


def _accuracies(run: RunRecord) -> HtmlTable:
    """All evaluations: the accuracies of the encoder and of the baselines, by each measure that some of them has."""
    rows: list[tuple[list[str], dict[str, float | None]]] = []
    measures = accuracy_measures(main_first=True)
    for line in run.evaluations:
        results = results_of(line)
        label = " ".join(str(line[name])[:60] for name in ("time", "data") if isinstance(line.get(name), str))
        baselines = results.get("baselines")
        others = baselines.items() if isinstance(baselines, dict) else ()
        for name, part in (("this encoder", results), *others):
            shares = {m.name: recorded_accuracy(part, m.name) for m in measures}
            if any(share is not None for share in shares.values()):
                rows.append(([label, title_of(str(name))], shares))
    columns = [m for m in measures if any(shares[m.name] is not None for _, shares in rows)]
    cells = [[*names, *(_percent(shares[m.name]) for m in columns)] for names, shares in rows]
    return HtmlTable(["evaluation", "features of", *(m.title for m in columns)], cells)


def _facts(results: dict[str, Any]) -> list[Fact]:
    """A card for each measure of an evaluation; fine-tuning has one for each share of the labels."""
    facts = []
    for measure in accuracy_measures(main_first=True):
        share = recorded_accuracy(results, measure.name)
        if share is not None:
            facts.append(Fact(measure.heading, _percent(share)))
    tuned = results.get("finetune")
    for part, tuning in tuned.items() if isinstance(tuned, dict) else ():
        share = number(tuning, "accuracy")
        if share is not None:
            facts.append(Fact(f"{MEASURES['finetune'].heading} with {part} of the labels", _percent(share)))
    for measure in quality_measures():
        value = number(results.get("quality"), measure.name)
        if value is not None:
            facts.append(Fact(measure.heading, f"{value:.3g} {measure.unit}".rstrip(), measure.meaning))
    return facts


def _by_class(results: dict[str, Any]) -> HtmlTable:
    """The accuracy of each class by the measures that are always computed."""
    listed, measures = results.get("per_class"), class_measures(main_first=True)
    rows = []
    for row in listed if isinstance(listed, list) else ():
        if isinstance(row, dict) and "class" in row:
            images = number(row, "images")
            count = "" if images is None else f"{images:,.0f}"
            rows.append([str(row["class"])[:_LONGEST], count, *(_percent(number(row, m.name)) for m in measures)])
    return HtmlTable(["class", "images", *(m.title for m in measures)], rows)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def _reasons(results: dict[str, Any]) -> list[str]:
    """Why something was not measured."""
    listed = results.get("missing")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    titles: dict[str, list[str]] = {}  # of each reason: many have the same
    for entry in entries:
        titles.setdefault(str(entry.get("reason", "")), []).append(title_of(str(entry.get("name", ""))))
    return [f"{', '.join(names)}: {reason}" for reason, names in titles.items()]


def _confusion(results: dict[str, Any]) -> Matrix | None:
    matrix, classes = results.get("confusion"), results.get("classes")
    if not isinstance(matrix, list) or not isinstance(classes, list) or not 1 < len(classes) <= _CLASSES:
        return None
    n = len(classes)
    complete = len(matrix) == n and all(
        isinstance(row, list) and len(row) == n and all(number({"": v}, "") is not None for v in row) for row in matrix
    )
    if not complete:
        return None
    names = [str(c)[:_LONGEST] for c in classes]
    shares: list[list[float | None]] = [[round(v / (sum(row) or 1), 4) for v in row] for row in matrix]
    most, i, j = max((shares[i][j] or 0.0, i, j) for i in range(n) for j in range(n) if i != j)
    alt = f"Confusion matrix: the commonest mistake takes {names[i]} for {names[j]} ({most:.0%} of its images)."
    texts = [[f"{a} taken for {b}" for b in names] for a in names]
    title = "Which class is taken for which"
    return Matrix(
        "confusion", title, "taken for", "true class", names, names, shares, alt, limits=(0.0, 1.0), texts=texts
    )
