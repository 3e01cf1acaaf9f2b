"""`compare`: train each view source at the same budget, judge all in the same way, and say who wins."""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from coviews.comparison.charts import progress_charts
from coviews.comparison.options import CompareOptions
from coviews.comparison.page import comparison_html
from coviews.comparison.plan import VIEWS, Job, Plan, named_variants, read_variants, view_variants
from coviews.comparison.results import Results, collect, read_results
from coviews.comparison.standings import Rows, below_untrained, main_measure, scores, standings
from coviews.comparison.verdict import winner_sentence
from coviews.comparison.workers import Workers
from coviews.console.option_types import CompareKeywords
from coviews.console.options import replaced
from coviews.console.progress import Display, duration
from coviews.errors import CoviewsError
from coviews.evaluation.measures import MEASURES
from coviews.evaluation.text_tables import as_text
from coviews.evaluation.train_and_test import shared_images, shared_text
from coviews.files.atomic import remove_partial_of
from coviews.files.lock import lock_folder
from coviews.launching.launchers import LOCAL, Launcher, named_launcher
from coviews.methods.view_networks import VIEW_NETWORKS
from coviews.runs.settings import AUTO, PretrainSettings

RESULTS = "results.json"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What came out; printed, it is the table that the command shows."""

    path: Path  # of the folder
    plan: Plan
    results: Results
    failed: dict[str, str]  # what went wrong, by the name of the run

    @property
    def table(self) -> Rows:
        """The standings."""
        return standings(self.results, list(self.plan.variants))

    @property
    def sentence(self) -> str:
        """Who wins."""
        measure = main_measure(self.results)
        if measure is None:
            return winner_sentence({}, "") if self.results.runs else "No run is done yet."
        variants = list(self.plan.variants)
        by_variant = scores(self.results, variants, measure)
        winner = winner_sentence(by_variant, MEASURES[measure].title, self.results.step)
        return winner + below_untrained(self.results, variants)

    def __rich__(self) -> RenderableType:
        leak = [Text(f"warning: {self.results.leak}")] if self.results.leak else []
        return Group(rich_table(self.table), Text(self.sentence), *leak)

    def __repr__(self) -> str:
        return as_text(self)


def compare(
    data: str | Path | None = None,
    *,
    settings: PretrainSettings | None = None,
    options: CompareOptions | None = None,
    **changes: Unpack[CompareKeywords],
) -> Comparison:
    """Train with each view source and each seed, judge all by one protocol, and write a table, charts and a page.

    Called again with the same folder it goes on where it was; what is done is not done again, and more view sources or
    seeds can be added.

    Args:
        data: a folder, a file or the name of a known set, as for `pretrain`.
        settings: what all trainings share; the defaults of PretrainSettings if none.
        options: what is compared, with how many seeds, and how all are judged.
        changes: fields of `CompareOptions` (`views` may be a list, `variants` a mapping of names to settings), and
            fields of `PretrainSettings`.
    """
    shared: dict[str, Any] = {**changes}
    own = {f.name: shared.pop(f.name) for f in dataclasses.fields(CompareOptions) if f.name in shared}
    if own.get("views") is not None and not isinstance(own["views"], str):
        own["views"] = ",".join(own["views"])
    mapping = own.pop("variants") if isinstance(own.get("variants"), Mapping) else None
    o = replaced(options or CompareOptions(), own)
    if data is not None:
        shared["data"] = str(data)
    base = (settings or PretrainSettings()).replaced(**shared)
    variants = _variants(base, o, mapping)
    probed = {"data": o.probe_data, "test_data": o.probe_test_data}
    judged_on = {name: {k: str(v) for k, v in probed.items() if v is not None} for name in variants}
    plan = Plan(variants, tuple(range(base.seed, base.seed + o.seeds)), protocol(o.k, o.paper), judged_on)
    launcher = named_launcher(o.launcher, o.launcher_options)
    comparison = carry_out(plan, Path(o.out), jobs=o.jobs, launcher=launcher, dry_run=o.dry_run, progress=o.progress)
    if not o.dry_run:
        write_out(comparison, f"Comparison on {Path(*Path(base.data).parts[-2:])}", o.figures)
    return comparison


def _variants(
    base: PretrainSettings, options: CompareOptions, mapping: Mapping[str, Any] | None
) -> dict[str, PretrainSettings]:
    """What is compared: the view sources, and the variants of a file or a mapping."""
    has_variants = mapping is not None or options.variants is not None
    views = VIEWS if options.views is None and not has_variants else (options.views or "").split(",")
    variants = view_variants(base, [name.strip() for name in views if name.strip()])
    if has_variants:
        if mapping is None:
            assert options.variants is not None
            more = named_variants(base, read_variants(options.variants), str(options.variants))
        else:
            more = named_variants(base, mapping, "variants")
        if twice := sorted(variants.keys() & more.keys()):
            raise CoviewsError(f"{twice[0]} is named twice, as a view source and as a variant")
        variants |= more
    return variants


def protocol(k: int | None, paper: bool) -> dict[str, Any]:
    """How all encoders are judged, as options of `evaluate`."""
    return {"k": k, "whole": False, "paper": paper, "baselines": True, "seed": 0}


def carry_out(
    plan: Plan,
    out: Path,
    *,
    jobs: int = 1,
    launcher: Launcher = LOCAL,
    dry_run: bool = False,
    progress: bool,
) -> Comparison:
    """Do what is not done yet of a plan; results.json grows with each run."""
    launcher.check()
    threads = launcher.threads(jobs)
    results = read_results(out / RESULTS)
    plan = _with_precision(plan, results)
    results.agree(plan, out / RESULTS)
    with Display(progress) as display:
        to_do = [job for job in plan.jobs if results.get(job.variant, job.seed) is None]
        expected = _expected(to_do, threads, progress)
        display.line(_announcement(plan, to_do, sum(expected.values()) / max(1, min(jobs, len(to_do))), jobs, launcher))
        if dry_run or not to_do:
            return Comparison(out, plan, results, {})
        _make_folder(out)
        with lock_folder(out), launcher.opened(out) as start:
            remove_partial_of(out / RESULTS)
            workers = Workers(out, expected, jobs, threads, display, start=start)

            def keep(job: Job) -> str:
                result = collect(job, workers.run_folder(job), threads)
                if result is None:
                    raise CoviewsError(f"{workers.run_folder(job)} is finished, but its results cannot be found")
                results.runs.append(result)
                results.save(out / RESULTS)
                values = [f"{MEASURES[m].title} {value:.1f} {MEASURES[m].unit}" for m, value in result.accuracy.items()]
                values = values or [f"{MEASURES['rankme'].title} {result.quality['rankme']:.1f}"]
                return " · ".join([*values, duration(result.seconds)])

            for job in list(to_do):  # trained and judged, but cut off before it was noted
                if collect(job, workers.run_folder(job), threads) is not None:
                    display.line(f"{job.variant}, seed {job.seed}: {keep(job)}")
                    to_do.remove(job)
            failed = workers.work_off(to_do, keep)
    return Comparison(out, plan, results, failed)


def write_out(
    comparison: Comparison, title: str, figures: str | Path | None = None, tables: Sequence[Rows] = ()
) -> None:
    """The page, and the charts as files if they are wanted; then say what failed."""
    from coviews.report.figures import write_figures
    from coviews.report.page import write_page

    tables = tables or [comparison.table]
    html = comparison_html(title, comparison.sentence, comparison.results, comparison.plan, tables, comparison.path)
    write_page(comparison.path / "comparison.html", html)
    if figures is not None:
        write_figures(progress_charts(comparison.results, list(comparison.plan.variants)), figures)


def rich_table(rows: Rows) -> Table:
    """For the terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, head in enumerate(rows.heads):
        table.add_column(head, justify="right" if i else "left", overflow="fold")
    for row in rows.rows:
        table.add_row(*map(Text, row))
    return table


def _expected(jobs: Sequence[Job], threads: int, progress: bool) -> dict[str, float]:
    """The seconds of each job; the data is looked at once, so that a mistake is seen before hours of training."""
    if not jobs:
        return {}
    from coviews.comparison.searches_first import expected_search_seconds
    from coviews.training.estimate import expected_seconds, measured_pace
    from coviews.training.setup import for_this_machine, load_data

    loaded: dict[Any, Any] = {}
    paces: dict[Any, Any] = {}
    seconds = {}
    for job in jobs:
        s = for_this_machine(job.settings)
        data = (s.data, s.test_data, s.size, s.max_side, s.channels, s.subset, s.subset_seed, s.data_root)
        if data not in loaded:
            loaded[data] = load_data(s, s.data, 1, progress)
            if leak := shared_text(shared_images(*loaded[data]), len(loaded[data][1] or ())):
                warnings.warn(leak, stacklevel=2)
        images, test = loaded[data]
        network = s.views if s.views in VIEW_NETWORKS else None
        views = (network, s.view_size, s.views_global, s.views_local, s.local_size)
        work = (data, s.encoder, s.method, s.batch_size, s.precision, views)
        if work not in paces:
            paces[work] = measured_pace(s, images, threads)
        whole = expected_seconds(s, paces[work], len(images), 0 if test is None else len(test))
        seconds[job.name] = whole + expected_search_seconds(s, whole, paces[work].passing, len(images))
    return seconds


def _with_precision(plan: Plan, results: Results) -> Plan:
    """The plan with one precision for all variants that name none: that of the results so far, or this machine's."""
    from coviews.training.precision import with_precision

    before = {s.precision for s in results.variants.values()}
    shared = before.pop() if len(before) == 1 else AUTO
    variants = {}
    for name, s in plan.variants.items():
        own = results.variants[name].precision if name in results.variants else shared
        variants[name] = with_precision(s.replaced(precision=own) if s.precision == AUTO else s)
    return dataclasses.replace(plan, variants=variants)


def _announcement(plan: Plan, to_do: Sequence[Job], seconds: float, jobs: int, launcher: Launcher) -> str:
    total, seeds = len(plan.jobs), len(plan.seeds)
    runs = f"{len(plan.variants)} variants x {seeds} seed{'s' if seeds > 1 else ''} = {total} runs"
    if len(to_do) < total:
        runs += f", {total - len(to_do)} done"
    if not to_do:
        return f"{runs}: nothing is left to do"
    where = "on this machine" if launcher == LOCAL else "on machines as fast as this one"
    return f"{runs}; about {duration(seconds)} {where}{f', {jobs} at once' if jobs > 1 else ''}"


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CoviewsError(f"cannot write to {path}: {error.strerror}") from error


def failure(failed: Mapping[str, str]) -> CoviewsError:
    """What to say where some runs failed."""
    first = next(iter(failed))
    more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    return CoviewsError(f"{first} {failed[first]}{more}; the same command tries again")
