"""The results of an evaluation as tables for the terminal."""

import io
import math
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from coviews.evaluation.measures import (
    BASELINES,
    MAIN,
    MEASURES,
    accuracy_measures,
    class_measures,
    quality_measures,
    title_of,
)

WORST = 10  # classes that are shown
WIDTH = 120  # of a line where there is no terminal


def result_tables(results: dict[str, Any], heading: Sequence[str]) -> RenderableType:
    """The results of `judge`: accuracies beside the baselines', quality without labels, the worst classes."""
    parts: list[RenderableType] = [Text(clean(line), "bold" if i == 0 else "") for i, line in enumerate(heading)]
    if MAIN in results:
        parts += [Text(), _accuracy_table(results), Text(verdict(results))]
    parts += [Text(), _quality_table(results)]
    if "per_class" in results:
        parts += [Text(), _class_table(results)]
    lines = [*missing_lines(results["missing"]), *(f"note: {note}" for note in results["notes"])]
    parts += [Text(), *(Text(clean(line)) for line in lines)] if lines else []
    return Group(*parts)


def as_text(tables: RenderableType) -> str:
    """As plain lines, for a file or a pipe."""
    out = io.StringIO()
    Console(file=out, width=WIDTH, color_system=None, force_terminal=False).print(tables)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def clean(text: Any) -> str:
    """A text from the data or a path, without characters that could control a terminal or break a line."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def margin(share: float, n: int, z: float = 1.96) -> float:
    """How far the true accuracy may be from one that was measured on n images (95 %, after Wilson)."""
    return z * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)


def verdict(results: dict[str, Any]) -> str:
    """Whether the encoder is better than the baselines by the linear probe and by kNN, and how exact that is."""
    counts = [row["images"] for row in results["per_class"]]
    n, ours = sum(counts), results[MAIN]["accuracy"]
    exact, largest = 100 * margin(ours, n), _percent(max(counts) / n)
    precision = (
        f"An accuracy on {n:,} images is exact to about ± {exact:.1f} points; guessing the largest class: {largest} %."
    )
    main = _gains(results, MAIN)
    if not main:
        return precision
    probe = f"the {MEASURES[MAIN].title}"
    neighbours = _gains(results, "knn")
    clear, near = min(main.values()) > exact, not neighbours or min(neighbours.values()) > exact
    if clear:
        begin = f"By {probe}" if near else f"A gain by {probe} only:"
    else:
        begin = f"No clear gain by {probe}:" if neighbours and near else f"No clear gain: by {probe}"
    also = f"; by kNN it is {_above_or_below(neighbours)}" if neighbours else ""
    return f"{begin} it is {_above_or_below(main)}{also}.\n{precision}"


def _gains(results: dict[str, Any], measure: str) -> dict[str, float]:
    """How many points the encoder is above each baseline by a measure."""
    names = {"untrained": "the untrained encoder", "pixels": "raw pixels"}
    if measure not in results:
        return {}
    ours, baselines = results[measure]["accuracy"], results["baselines"]
    measured = {key: name for key, name in names.items() if measure in baselines.get(key, {})}
    return {name: 100 * (ours - baselines[key][measure]["accuracy"]) for key, name in measured.items()}


def _above_or_below(gains: dict[str, float]) -> str:
    each = [f"{abs(gain):.1f} points {'above' if gain >= 0 else 'below'} {name}" for name, gain in gains.items()]
    return " and ".join(each)


def missing_lines(missing: list[dict[str, str]]) -> list[str]:
    """What could not be measured, by reason."""
    by_reason: dict[str, list[str]] = {}
    for entry in missing:
        by_reason.setdefault(entry["reason"], []).append(title_of(entry["name"]))
    return [f"not measured: {', '.join(names)}: {reason}" for reason, names in by_reason.items()]


def _empty_table(*columns: str, left: Sequence[str] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i == 0 or name in left else "right", overflow="fold")
    return table


def _accuracy_table(results: dict[str, Any]) -> Table:
    """The encoder and its baselines by each measure with labels; fine-tuning has a column for each share."""
    columns: dict[str, tuple[str, ...]] = {}  # where in the results the accuracy stands, by title
    for measure in accuracy_measures():
        if measure.name == "finetune":
            for share in results.get("finetune", {}):
                columns[f"{measure.title}, {share.removesuffix('%')} %"] = ("finetune", share)
        elif measure.name in results:
            columns[measure.title] = (measure.name,)
    table = _empty_table("accuracy in %", *columns)
    table.add_row("this encoder", *(_accuracy(results, place) for place in columns.values()), style="bold")
    for key, title in BASELINES.items():
        if key in results["baselines"]:
            baseline = results["baselines"][key]
            table.add_row(title, *(_accuracy(baseline, place) for place in columns.values()))
    return table


def _accuracy(results: dict[str, Any], place: Sequence[str]) -> str:
    for name in place:
        results = results.get(name, {})
    if "accuracy" not in results:
        return "-"
    deviation = f" ± {_percent(results['std'])}" if "std" in results else ""
    return _percent(results["accuracy"]) + deviation


def _quality_table(results: dict[str, Any]) -> Table:
    untrained = results["baselines"].get("untrained", {}).get("quality")
    head = "what it means"
    table = _empty_table("without labels", "this encoder", *(["untrained"] if untrained else []), head, left=[head])
    for measure in quality_measures():
        if measure.name in results["quality"]:
            values = [quality[measure.name] for quality in (results["quality"], untrained) if quality]
            table.add_row(measure.title_and_unit, *map(_number, values), Text(measure.meaning, "dim"))
    return table


def _class_table(results: dict[str, Any]) -> Table:
    """The worst classes by the main measure, and the class that their images are most often taken for."""
    rows, measures = results["per_class"], class_measures()
    with_images = [i for i, row in enumerate(rows) if row["images"]]
    worst = sorted(with_images, key=lambda i: rows[i][MAIN])[:WORST]
    every = len(worst) == len(with_images)
    title = "class, worst first" if every else f"worst {len(worst)} of {len(with_images)} classes"
    head = "most often taken for"
    table = _empty_table(title, "images", *(measure.title for measure in measures), head, left=[head])
    table.columns[0].max_width = table.columns[-1].max_width = 36
    for i in worst:
        row, counts = rows[i], [0 if j == i else count for j, count in enumerate(results["confusion"][i])]
        most = max(counts)
        wrong = f"{clean(rows[counts.index(most)]['class'])} ({100 * most / row['images']:.0f} %)" if most else "-"
        shares = (_percent(row[measure.name]) for measure in measures)
        table.add_row(Text(clean(row["class"])), f"{row['images']:,}", *shares, Text(wrong))
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
