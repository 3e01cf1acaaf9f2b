"""`reproduce`: any table or figure of the paper by name, at its scale or at one for a CPU, its figures beside ours."""

import dataclasses
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from rich.console import Group, RenderableType
from rich.text import Text

from coviews.comparison.compare import Comparison, carry_out, protocol, rich_table, write_out
from coviews.comparison.options import ReproduceOptions
from coviews.comparison.paper_tables import JUDGED_ON, Recipe, recipe, select
from coviews.comparison.plan import Plan
from coviews.comparison.results import Results
from coviews.comparison.standings import Rows, mean_and_deviation, scores
from coviews.comparison.verdict import winner_sentence
from coviews.console.option_types import ReproduceKeywords
from coviews.console.options import replaced
from coviews.errors import CoviewsError
from coviews.evaluation.measures import MEASURES
from coviews.evaluation.text_tables import as_text
from coviews.runs.settings import AUTO
from coviews.runs.settings_file import changed_settings


@dataclass(frozen=True, eq=False, repr=False)
class Reproduction:
    """What came out, beside the paper's figures."""

    recipe: Recipe
    scale: str
    rows: list[str]
    columns: list[str]
    comparison: Comparison | None  # none where nothing is trained
    written: list[Path]

    @property
    def table(self) -> Rows:
        """Ours, and the paper's figure beside it."""
        assert self.comparison is not None
        results, heads, rows = self.comparison.results, [""], []
        for column in self.columns:
            heads += [self._head(column)] + ([f"{column}, paper"] if self.recipe.paper else [])
        for row in self.rows:
            cells = [row]
            for column in self.columns:
                cells.append(_cell(self.recipe, results, row, self.rows[0], column))
                if self.recipe.paper:
                    printed = self.recipe.printed(row, column) if column in self.recipe.columns else None
                    cells.append("–" if printed is None else f"{printed:.2f}")
            rows.append(cells)
        return Rows(heads, rows)

    def _head(self, column: str) -> str:
        """What stands over our own figures: on data of the user's, the number of images."""
        if not self.recipe.own_data:
            return f"{column}, ours ({self.scale})"
        assert self.comparison is not None
        runs = [run for row in self.rows for run in self.comparison.results.of(variant(row, column))]
        counts = sorted({run.pretrained_on for run in runs} - {0})
        return ", ".join([column, *(f"{count:,} images" for count in counts), self.scale])

    @property
    def sentences(self) -> list[str]:
        """Who wins in each column, where accuracies are compared."""
        if self.comparison is None or self.recipe.measure == "overhead" or self.recipe.shows != "table":
            return []
        measure, sentences = _measure(self.recipe, self.comparison.results), []
        step = self.comparison.results.step
        for column in self.columns:
            by_variant = scores(self.comparison.results, [variant(row, column) for row in self.rows], measure)
            by_row = {row: by_variant[variant(row, column)] for row in self.rows}
            if any(by_row.values()):
                sentences.append(f"{column}: {winner_sentence(by_row, MEASURES[measure].title, step)}")
        return sentences

    def __rich__(self) -> RenderableType:
        parts: list[RenderableType] = [Text(self.recipe.about)]
        if self.comparison is not None and self.recipe.shows == "table":
            leak = self.comparison.results.leak
            parts += [rich_table(self.table), *map(Text, self.sentences), *([Text(f"warning: {leak}")] if leak else [])]
        return Group(*parts)

    def __repr__(self) -> str:
        return as_text(self)


def reproduce(
    name: str, *, options: ReproduceOptions | None = None, **changes: Unpack[ReproduceKeywords]
) -> Reproduction:
    """Make a table or figure of the paper; cut off, the same call goes on.

    Args:
        name: such as `table-less-data`; `coviews reproduce --list` names all.
        options: which part is made, on which data, at which scale.
        changes: fields of `ReproduceOptions`.
    """
    o, paper_table = replaced(options or ReproduceOptions(), changes), recipe(name)
    folder = Path(o.out) if o.out is not None else Path("reproduced") / f"{name}-{o.scale}"
    if paper_table.shows == "reward":
        return Reproduction(paper_table, o.scale, [], [], None, [] if o.dry_run else _reward_figure(folder))
    if paper_table.measure == "overhead" and o.jobs > 1:
        raise CoviewsError("times are compared, and would disturb each other: --jobs must be 1 here")
    rows = select(o.rows, paper_table.all_rows, "row")
    columns = select(o.columns, paper_table.columns, "column")
    if o.data is not None:
        paper_table = paper_table.on_data(Path(o.data).name or str(o.data), columns[0])
        columns = list(paper_table.columns)
    shared = _shared_settings(o)
    variants = {
        variant(row, column): changed_settings(paper_table.settings(row, column, o.scale, o.epochs), shared)
        for column in columns
        for row in rows
    }
    seeds = o.seeds if o.seeds is not None else (1 if o.scale == "paper" else paper_table.seeds)
    judged_on = {
        variant(row, column): JUDGED_ON[paper_table.columns[column]]
        for column in columns
        for row in rows
        if o.data is None and paper_table.columns[column] in JUDGED_ON
    }
    plan = Plan(variants, tuple(range(seeds)), protocol(200, paper=o.scale == "paper"), judged_on)
    comparison = carry_out(plan, folder, jobs=o.jobs, dry_run=o.dry_run, progress=o.progress)
    result = Reproduction(paper_table, o.scale, rows, columns, comparison, [])
    if o.dry_run:
        return result
    written = _figures(paper_table, comparison, folder)
    tables = [result.table, comparison.table] if paper_table.shows == "table" else [comparison.table]
    write_out(comparison, f"{paper_table.name}, {o.scale}: {paper_table.about}", tables=tables)
    return dataclasses.replace(result, written=[folder / "comparison.html", *written])


def _shared_settings(options: ReproduceOptions) -> dict[str, Any]:
    """The settings that the options give all trainings."""
    shared: dict[str, Any] = {"data_root": str(options.data_root), "download": options.download}
    if options.precision is not None or options.data is not None:  # the paper's settings have 32 bits
        shared["precision"] = options.precision or AUTO
    if options.data is not None:
        test_data = None if options.test_data is None else str(options.test_data)
        shared |= {"data": str(options.data), "test_data": test_data, "subset": options.subset}
    return shared


def variant(row: str, column: str) -> str:
    """What a cell's training is called."""
    return f"{row}, {column}"


def _cell(paper_table: Recipe, results: Results, row: str, first: str, column: str) -> str:
    runs = results.of(variant(row, column))
    if paper_table.measure != "overhead":
        measure = _measure(paper_table, results)
        return mean_and_deviation([r.accuracy[measure] for r in runs if measure in r.accuracy])
    base = {r.seed: r.seconds for r in results.of(variant(first, column))}
    extra = [r.seconds / base[r.seed] - 1 for r in runs if r.seed in base]
    return f"{statistics.fmean(extra):.2f}" if extra and row != first else "–"


def _measure(paper_table: Recipe, results: Results) -> str:
    """The paper's probe where it was run."""
    return "paper" if paper_table.measure == "linear" and results.evaluation.get("paper") else paper_table.measure


def _figures(paper_table: Recipe, comparison: Comparison, folder: Path) -> list[Path]:
    """The policies' charts of the first seed, side by side, as the paper's figures have them."""
    if paper_table.shows == "table":
        return []
    from coviews.report.figures import write_figures
    from coviews.report.several_runs import read_runs, several_runs_charts

    done = {(r.variant, r.seed) for r in comparison.results.runs}
    runs = [folder / "runs" / job.name for job in comparison.plan.jobs if job.seed == 0 and (job.variant, 0) in done]
    kinds = {"evolution": ("current",), "co-occurrence": ("co-occurrence", "lift")}[paper_table.shows]
    charts = [c for c in several_runs_charts(read_runs(runs)) if c.key.startswith(kinds)]
    return write_figures(charts, folder / "figures")


def _reward_figure(folder: Path) -> list[Path]:
    from coviews.report.figures import write_figures
    from coviews.report.reward_chart import reward_chart

    return write_figures([reward_chart()], folder / "figures")
