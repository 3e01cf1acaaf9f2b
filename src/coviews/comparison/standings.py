"""The results of a comparison as rows: for the terminal, for a page and for a document."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coviews.comparison.results import Result, Results
from coviews.comparison.verdict import paired
from coviews.console.progress import duration
from coviews.evaluation.measures import MEASURES, accuracy_measures


@dataclass(frozen=True)
class Rows:
    """A table of texts."""

    heads: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        """As Markdown."""
        lines = [self.heads, ["---", *["---:"] * (len(self.heads) - 1)], *self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def scores(results: Results, variants: Sequence[str], measure: str) -> dict[str, dict[int, float]]:
    """One measure in percent, by variant and seed."""
    return {name: {r.seed: r.accuracy[measure] for r in results.of(name) if measure in r.accuracy} for name in variants}


def accuracies_of(results: Results) -> list[str]:
    """The names of the measures with labels that some run has, the main one first."""
    names = [measure.name for measure in accuracy_measures(main_first=True)]
    return [name for name in names if any(name in r.accuracy for r in results.runs)]


def main_measure(results: Results) -> str | None:
    """The measure that decides who wins; without labels there is none."""
    return next(iter(accuracies_of(results)), None)


def mean_and_deviation(values: Sequence[float]) -> str:
    """Mean and standard deviation."""
    if not values:
        return "–"
    mean = statistics.fmean(values)
    return f"{mean:.1f}" if len(values) == 1 else f"{mean:.1f} ± {statistics.stdev(values):.1f}"


def standings(results: Results, variants: Sequence[str]) -> Rows:
    """Each variant: accuracies, the difference to the best, time and the search's share of it."""
    measures, main = accuracies_of(results), main_measure(results)
    by_variant = scores(results, variants, main) if main else {}
    means = {name: statistics.fmean(s.values()) for name, s in by_variant.items() if s}
    best = max(means, key=lambda name: means[name]) if means else None
    heads = ["", *(MEASURES[m].title_and_unit for m in measures)]
    heads += ["to the best, ± 95 %"] if best else []
    heads += [MEASURES["rankme"].title, "time a run", "in searches", "seeds"]
    rows = []
    for name in sorted(variants, key=lambda n: -means.get(n, 0.0)):
        runs = results.of(name)
        row = [name, *(mean_and_deviation([r.accuracy[m] for r in runs if m in r.accuracy]) for m in measures)]
        if best:
            gap = (
                paired(by_variant[name], by_variant[best], results.step) if by_variant[name] and name != best else None
            )
            row.append("" if gap is None else str(gap))
        row.append(mean_and_deviation([r.quality["rankme"] for r in runs if "rankme" in r.quality]))
        row.append(_time(runs))
        row.append(_share(runs))
        rows.append([*row, str(len(runs))])
    untrained = _untrained(results, measures)
    if untrained:
        rows.append(["untrained encoder", *untrained, *[""] * (len(heads) - 1 - len(measures))])
    return Rows(heads, rows)


def below_untrained(results: Results, variants: Sequence[str]) -> str:
    """A sentence about measures by which no variant is above the untrained encoder; empty if there are none."""
    sentences = []
    for measure in accuracies_of(results):
        untrained = [r.untrained[measure] for r in results.runs if measure in r.untrained]
        means = [
            statistics.fmean(by_seed.values()) for by_seed in scores(results, variants, measure).values() if by_seed
        ]
        if untrained and means and max(means) <= statistics.fmean(untrained):
            sentences.append(
                f" By {MEASURES[measure].title}, none is above the untrained encoder "
                f"({statistics.fmean(untrained):.1f} %): more --epochs may help."
            )
    return "".join(sentences)


def _untrained(results: Results, measures: Sequence[str]) -> list[str]:
    by_seed: Mapping[int, Result] = {r.seed: r for r in results.runs if r.untrained}  # the same for all variants
    if not by_seed:
        return []
    return [mean_and_deviation([r.untrained[m] for r in by_seed.values() if m in r.untrained]) for m in measures]


def _time(runs: Sequence[Result]) -> str:
    return duration(statistics.fmean(r.seconds for r in runs)) if runs else "–"


def _share(runs: Sequence[Result]) -> str:
    spent = sum(r.seconds for r in runs)
    searching = sum(r.searching for r in runs)
    return f"{searching / spent:.0%}" if spent and searching else "–"
