"""The results of a comparison as rows: for the terminal, for a page and for a document."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coviews.comparison.results import MEASURES, Result, Results
from coviews.comparison.verdict import paired
from coviews.console.progress import duration


@dataclass(frozen=True)
class Rows:
    """A table of words."""

    heads: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        """As documents have it."""
        lines = [self.heads, ["---", *["---:"] * (len(self.heads) - 1)], *self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def scores(results: Results, variants: Sequence[str], measure: str) -> dict[str, dict[int, float]]:
    """One measure in percent, by variant and seed."""
    return {name: {r.seed: r.accuracy[measure] for r in results.of(name) if measure in r.accuracy} for name in variants}


def main_measure(results: Results) -> str | None:
    """What decides: the first of the measures that there is."""
    return next((m for m in MEASURES if any(m in r.accuracy for r in results.runs)), None)


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation."""
    if not values:
        return "–"
    mean = statistics.fmean(values)
    return f"{mean:.1f}" if len(values) == 1 else f"{mean:.1f} ± {statistics.stdev(values):.1f}"


def standings(results: Results, variants: Sequence[str]) -> Rows:
    """Each variant: accuracies, the difference to the best, time and the search's share of it."""
    measures = [m for m in MEASURES if any(m in r.accuracy for r in results.runs)]
    main = main_measure(results)
    found = scores(results, variants, main) if main else {}
    means = {name: statistics.fmean(s.values()) for name, s in found.items() if s}
    best = max(means, key=lambda name: means[name]) if means else None
    heads = ["", *(f"{MEASURES[m]} in %" for m in measures)]
    heads += ["to the best, ± 95 %"] if best else []
    heads += ["RankMe", "time a run", "in searches", "seeds"]
    rows = []
    for name in sorted(variants, key=lambda n: -means.get(n, 0.0)):
        runs = results.of(name)
        row = [name, *(spread([r.accuracy[m] for r in runs if m in r.accuracy]) for m in measures)]
        if best:
            gap = paired(found[name], found[best]) if found[name] and name != best else None
            row.append("" if gap is None else str(gap))
        row.append(spread([r.quality["rankme"] for r in runs if "rankme" in r.quality]))
        row.append(_time(runs))
        row.append(_share(runs))
        rows.append([*row, str(len(runs))])
    untrained = _untrained(results, measures)
    if untrained:
        rows.append(["untrained encoder", *untrained, *[""] * (len(heads) - 1 - len(measures))])
    return Rows(heads, rows)


def _untrained(results: Results, measures: Sequence[str]) -> list[str]:
    by_seed: Mapping[int, Result] = {r.seed: r for r in results.runs if r.untrained}  # the same for all variants
    return [spread([r.untrained[m] for r in by_seed.values() if m in r.untrained]) for m in measures] if by_seed else []


def _time(runs: Sequence[Result]) -> str:
    return duration(statistics.fmean(r.seconds for r in runs)) if runs else "–"


def _share(runs: Sequence[Result]) -> str:
    spent = sum(r.seconds for r in runs)
    searching = sum(r.searching for r in runs)
    return f"{searching / spent:.0%}" if spent and searching else "–"
