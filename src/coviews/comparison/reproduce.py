"""`reproduce`: any table or figure of the paper by name, at its scale or at one for a CPU, its figures beside ours."""

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from coviews.comparison.compare import Comparison, carry_out, protocol, rich_table, write_out
from coviews.comparison.paper_tables import JUDGED_ON, SCALES, Recipe, chosen, recipe, small
from coviews.comparison.plan import Plan
from coviews.comparison.results import Results
from coviews.comparison.standings import Rows, mean_and_deviation, scores
from coviews.comparison.verdict import winner_sentence
from coviews.errors import CoviewsError, unknown
from coviews.evaluation.measures import MEASURES
from coviews.evaluation.text_tables import as_text
from coviews.runs.settings import changed_settings


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
            heads += [f"{column}, ours ({self.scale})"] + ([f"{column}, paper"] if self.recipe.paper else [])
        for row in self.rows:
            cells = [row]
            for column in self.columns:
                cells.append(_cell(self.recipe, results, row, self.rows[0], column))
                if self.recipe.paper:
                    printed = self.recipe.printed(row, column) if column in self.recipe.columns else None
                    cells.append("–" if printed is None else f"{printed:.2f}")
            rows.append(cells)
        return Rows(heads, rows)

    @property
    def sentences(self) -> list[str]:
        """Who wins in each column, where accuracies are compared."""
        if self.comparison is None or self.recipe.measure == "overhead" or self.recipe.shows != "table":
            return []
        measure, said = _measure(self.recipe, self.comparison.results), []
        for column in self.columns:
            found = scores(self.comparison.results, [variant(row, column) for row in self.rows], measure)
            by_row = {row: found[variant(row, column)] for row in self.rows}
            if any(by_row.values()):
                said.append(f"{column}: {winner_sentence(by_row, MEASURES[measure].title)}")
        return said

    def __rich__(self) -> RenderableType:
        parts: list[RenderableType] = [Text(self.recipe.about)]
        if self.comparison is not None and self.recipe.shows == "table":
            parts += [rich_table(self.table), *map(Text, self.sentences)]
        return Group(*parts)

    def __repr__(self) -> str:
        return as_text(self)


def reproduce(
    name: str,
    *,
    scale: str = "small",
    data: str | Path | None = None,
    test_data: str | Path | None = None,
    subset: str | None = None,
    columns: str | None = None,
    rows: str | None = None,
    seeds: int | None = None,
    epochs: int | None = None,
    precision: str | None = None,
    out: str | Path | None = None,
    data_root: str | Path = "data",
    download: bool = False,
    jobs: int = 1,
    dry_run: bool = False,
    progress: bool = True,
) -> Reproduction:
    """Make a table or figure of the paper; cut off, the same call goes on.

    Args:
        name: such as `table-less-data`; `coviews reproduce --list` names all.
        scale: `small` (5,000 images, `resnet8`, 60 epochs: hours on a CPU) or `paper` (ResNet-50, up to 800 epochs:
            days on a GPU).
        data: images instead of the paper's, with labels; then there is one column.
        test_data: images to judge by, with `data`.
        subset: a part of `data`: "10%" or a number of images.
        columns: only these of the table, such as "CIFAR-10,SVHN".
        rows: only these, such as "Random,CoViews".
        seeds: pretraining seeds; by default 1 at the paper's scale (as the paper) and up to 3 at the small one.
        epochs: other than the scale's; warm-up and the time between searches shrink with them.
        precision: of all trainings, as for `pretrain`, such as bf16-mixed.
        out: the folder; by default reproduced/NAME-SCALE.
        data_root: where the known data sets are.
        download: fetch those that are not there.
        jobs: trainings at once.
        dry_run: only say what would be done, and how long it would take.
        progress: show what is going on.
    """
    found = recipe(name)
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    folder = Path(out) if out is not None else Path("reproduced") / f"{name}-{scale}"
    if found.shows == "reward":
        return Reproduction(found, scale, [], [], None, [] if dry_run else _reward_figure(folder))
    if (test_data is not None or subset is not None) and data is None:
        given = "--subset" if test_data is None else "--test-data"
        raise CoviewsError(f"{given} goes with --data: the paper's sets have their own")
    if found.measure == "overhead" and jobs > 1:
        raise CoviewsError("times are compared, and would disturb each other: --jobs must be 1 here")
    taken = chosen(rows, found.all_rows, "row")
    over = chosen(columns, found.columns, "column")
    changes: dict[str, Any] = {"data_root": str(data_root), "download": download}
    if precision is not None:
        changes["precision"] = precision
    if data is not None:
        over = over[:1]
        own = {"data": str(data), "test_data": None if test_data is None else str(test_data), "subset": subset}
        changes |= own
    variants = {}
    for column in over:
        for row in taken:
            settings = found.settings(row, column, scale)
            if epochs is not None:
                resized = small(settings, epochs)
                names = ("epochs", "warmup_epochs", "search_every")
                settings = settings.replaced(**{n: getattr(resized, n) for n in names})
            settings = changed_settings(settings, changes)
            variants[variant(row, column)] = settings
    seeds = seeds if seeds is not None else (1 if scale == "paper" else found.seeds)
    if seeds < 1:
        raise CoviewsError(f"--seeds must be 1 or more, not {seeds}")
    judged_on = {
        variant(row, column): JUDGED_ON[found.columns[column]]
        for column in over
        for row in taken
        if data is None and found.columns[column] in JUDGED_ON
    }
    plan = Plan(variants, tuple(range(seeds)), protocol(200, paper=scale == "paper"), judged_on)
    made = carry_out(plan, folder, jobs=jobs, dry_run=dry_run, progress=progress)
    result = Reproduction(found, scale, taken, over, made, [])
    if dry_run:
        return result
    written = _figures(found, made, folder)
    tables = [result.table, made.table] if found.shows == "table" else [made.table]
    write_out(made, f"{found.name}, {scale}: {found.about}", tables=tables)
    return Reproduction(found, scale, taken, over, made, [folder / "comparison.html", *written])


def variant(row: str, column: str) -> str:
    """What a cell's training is called."""
    return f"{row}, {column}"


def _cell(found: Recipe, results: Results, row: str, first: str, column: str) -> str:
    runs = results.of(variant(row, column))
    if found.measure != "overhead":
        measure = _measure(found, results)
        return mean_and_deviation([r.accuracy[measure] for r in runs if measure in r.accuracy])
    base = {r.seed: r.seconds for r in results.of(variant(first, column))}
    extra = [r.seconds / base[r.seed] - 1 for r in runs if r.seed in base]
    return f"{statistics.fmean(extra):.2f}" if extra and row != first else "–"


def _measure(found: Recipe, results: Results) -> str:
    """The paper's probe where it was run."""
    return "paper" if found.measure == "linear" and results.evaluation.get("paper") else found.measure


def _figures(found: Recipe, made: Comparison, folder: Path) -> list[Path]:
    """The policies' charts of the first seed, side by side, as the paper's figures have them."""
    if found.shows == "table":
        return []
    from coviews.report.figures import write_figures
    from coviews.report.several_runs import comparison_charts, read_runs

    done = {(r.variant, r.seed) for r in made.results.runs}
    runs = [folder / "runs" / job.name for job in made.plan.jobs if job.seed == 0 and (job.variant, 0) in done]
    kinds = {"evolution": ("current",), "co-occurrence": ("co-occurrence", "lift")}[found.shows]
    charts = [c for c in comparison_charts(read_runs(runs)) if c.key.startswith(kinds)]
    return write_figures(charts, folder / "figures")


def _reward_figure(folder: Path) -> list[Path]:
    from coviews.report.figures import write_figures
    from coviews.report.reward_chart import reward_chart

    return write_figures([reward_chart()], folder / "figures")
