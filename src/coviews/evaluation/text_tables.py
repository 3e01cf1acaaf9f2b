"""Results as tables for people."""

import io
import math
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from coviews.evaluation.quality import MEANINGS

WORST = 10  # classes that are shown
WIDTH = 120  # of a line where there is no terminal

_QUALITY = {"rankme": "RankMe", "spread": "spread", "alignment": "alignment", "uniformity": "uniformity"}
_NAMES = {
    "knn": "kNN", "linear": "linear probe", "per_class": "accuracy by class", "confusion": "confusion matrix",
    "pixels": "raw pixels",
    "whole": "linear probe of whole images", "paper": "the paper's probe",
    "finetune": "fine-tuning", "untrained": "untrained encoder",
}  # fmt: skip


def result_tables(results: dict[str, Any], heading: Sequence[str]) -> RenderableType:
    """What `evaluate` found: accuracies beside the baselines', quality without labels, the worst classes."""
    parts: list[RenderableType] = [Text(clean(line), "bold" if i == 0 else "") for i, line in enumerate(heading)]
    if "linear" in results:
        parts += [Text(), _accuracies(results), Text(verdict(results))]
    parts += [Text(), _quality(results)]
    if "per_class" in results:
        parts += [Text(), _classes(results)]
    said = [*missing_lines(results["missing"]), *(f"note: {note}" for note in results["notes"])]
    parts += [Text(), *(Text(clean(line)) for line in said)] if said else []
    return Group(*parts)


def as_text(tables: RenderableType) -> str:
    """As plain lines, for a file or a pipe."""
    out = io.StringIO()
    Console(file=out, width=WIDTH, color_system=None, force_terminal=False).print(tables)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def clean(text: Any) -> str:
    """A text from the data or a path that cannot steer a terminal, nor break a line."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def margin(share: float, n: int, z: float = 1.96) -> float:
    """How far the true accuracy may be from one that was measured on n images (95 %, after Wilson)."""
    return z * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)


def verdict(results: dict[str, Any]) -> str:
    """Whether the encoder is better than the baselines, and how exact that is."""
    counts = [row["images"] for row in results["per_class"]]
    n, ours = sum(counts), results["linear"]["accuracy"]
    exact, most = 100 * margin(ours, n), _percent(max(counts) / n)
    told = f"An accuracy on {n:,} images is exact to about ± {exact:.1f} points; guessing the largest class: {most} %."
    gains = {
        name: 100 * (ours - results["baselines"][key]["linear"]["accuracy"])
        for key, name in (("untrained", "the untrained encoder"), ("pixels", "raw pixels"))
        if key in results["baselines"]
    }
    if not gains:
        return told
    each = [f"{abs(gain):.1f} points {'above' if gain >= 0 else 'below'} {name}" for name, gain in gains.items()]
    begin = "By the linear probe" if min(gains.values()) > exact else "No clear gain: by the linear probe"
    return f"{begin} it is {' and '.join(each)}.\n{told}"


def missing_lines(missing: list[dict[str, str]]) -> list[str]:
    """What could not be measured, by reason."""
    by_reason: dict[str, list[str]] = {}
    for entry in missing:
        by_reason.setdefault(entry["reason"], []).append(_NAMES.get(entry["name"], entry["name"]))
    return [f"not measured: {', '.join(names)}: {reason}" for reason, names in by_reason.items()]


def _table(*columns: str, left: Sequence[str] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i == 0 or name in left else "right", overflow="fold")
    return table


def _accuracies(results: dict[str, Any]) -> Table:
    tuned = list(results.get("finetune", {}))
    whole = ["of whole images"] if "whole" in results else []
    paper = ["paper's probe"] if "paper" in results else []
    names = [f"fine-tuned, {share.removesuffix('%')} %" for share in tuned]
    table = _table("accuracy in %", "kNN", "linear probe", *whole, *paper, *names)
    rows = {"this encoder": results} | {
        name: results["baselines"][key]
        for key, name in (("untrained", "untrained encoder"), ("pixels", "raw pixels"))
        if key in results["baselines"]
    }
    for name, found in rows.items():
        cells = [_percent(found["knn"]["accuracy"]), _percent(found["linear"]["accuracy"])]
        if whole:
            cells.append(_percent(found["whole"]["accuracy"]))
        if paper:
            heads = found.get("paper")
            cells.append("-" if heads is None else f"{_percent(heads['accuracy'])} ± {_percent(heads['std'])}")
        shares = found.get("finetune", {})
        cells += [_percent(shares[share]["accuracy"]) if share in shares else "-" for share in tuned]
        table.add_row(name, *cells, style="bold" if found is results else "")
    return table


def _quality(results: dict[str, Any]) -> Table:
    untrained = results["baselines"].get("untrained", {}).get("quality")
    meaning = "what it means"
    table = _table("without labels", "this encoder", *(["untrained"] if untrained else []), meaning, left=[meaning])
    for key, name in _QUALITY.items():
        numbers = [_number(found[key]) for found in (results["quality"], untrained) if found]
        table.add_row(name, *numbers, Text(MEANINGS[key], "dim"))
    return table


def _classes(results: dict[str, Any]) -> Table:
    """The worst first, by the linear probe; and what the images of each are taken for instead."""
    rows = results["per_class"]
    there = sorted((i for i, row in enumerate(rows) if row["images"]), key=lambda i: rows[i]["linear"])
    shown = there[:WORST]
    title = "class, worst first" if len(shown) == len(there) else f"worst {len(shown)} of {len(there)} classes"
    other = "most often taken for"
    table = _table(title, "images", "kNN", "linear probe", other, left=[other])
    table.columns[0].max_width = table.columns[-1].max_width = 36
    for i in shown:
        found, taken = rows[i], [0 if j == i else count for j, count in enumerate(results["confusion"][i])]
        most = max(taken)
        wrong = f"{clean(rows[taken.index(most)]['class'])} ({100 * most / found['images']:.0f} %)" if most else "-"
        numbers = (f"{found['images']:,}", _percent(found["knn"]), _percent(found["linear"]))
        table.add_row(Text(clean(found["class"])), *numbers, Text(wrong))
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
