"""The tables and the picture of docs/results.md and its summary, from the results files: no figure is typed by hand.

A table stands between `<!-- NAME -->` and `<!-- end -->`, and is made anew where it stands.

    python benchmarks/results_page.py
"""

import json
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt

from coviews.comparison.results import Result, Results, read_results
from coviews.comparison.standings import Rows, mean_and_deviation, scores
from coviews.comparison.verdict import paired
from coviews.policies.factors import RECIPE

ROOT = Path(__file__).parent.parent
RESULTS, PAGES, FIGURE = (
    ROOT / "docs" / "results",
    ("docs/results.md", "docs/what-to-use.md"),
    ROOT / "docs/figures/study.png",
)
SETS = ("cifar10", "fruits", "steel", "signs", "speech")
LABELLED_SETS = ("fashion", "emoji")
UNSEEN_SETS = ("digits", "fashion", "emoji")
DRAWS = 5  # of ten labels a class
SYSTEM_SETS = ("cifar10", "fruits", "speech")
KEEP_AND_HARD_SETS = ("cifar10", "fruits", "steel")
QUIET = 2  # the seed in the study during whose runs hardly anything else ran
LEARNED = ("CoViews", "IndepViews", "CoViews by table", "IndepViews by table")
OVER_FIXED = [
    *((one, other) for one in LEARNED for other in ("Uniform", "Random")),
    ("CoViews by table", "CoViews"), ("IndepViews by table", "IndepViews"),
]  # fmt: skip
BY_TABLE = [
    *((f"{views}:{how}", "uniform") for how in ("table", "ppo") for views in ("coviews", "indepviews")),
    *((name, "random") for name in ("coviews:table", "coviews:ppo")),
    ("coviews:table", "coviews:ppo"), ("indepviews:table", "indepviews:ppo"), ("coviews:table", "indepviews:table"),
    ("coviews:table", "coviews:ppo in the same time"), ("simclr", "coviews:table"), ("hardviews", "simclr"),
    ("hardviews in the same time", "simclr"),
]  # fmt: skip
EQUAL_TIME = [
    ("CoViews by table", "CoViews in the same time"), ("CoViews in the same time", "Uniform"),
    ("Hard views in the same time", "SimCLR's recipe"), ("Hard views in the same time", "CoViews by table"),
]  # fmt: skip
OVER_MOCO = [
    *((name, "Random") for name in ("CoViews", "IndepViews", "CoViews with a target", "Uniform")),
    *((name, "Uniform") for name in ("CoViews", "IndepViews", "CoViews with a target")),
]
AT_02 = ["hardviews", "simclr", "coviews:table", "uniform", "coviews:ppo", "simclr at 0.5", "by table at 0.5"]
OVER_AT_02 = [
    ("coviews:table", "uniform"), ("coviews:table", "coviews:ppo"), ("uniform", "coviews:ppo"),
    ("simclr", "coviews:table"), ("hardviews", "simclr"), ("hardviews", "coviews:table"),
    ("coviews:table", "by table at 0.5"), ("simclr", "simclr at 0.5"), ("simclr at 0.5", "by table at 0.5"),
]  # fmt: skip
HARDNESS = {
    "hardness -0.1": "-0.1", "uniform": "0: `uniform`", "hardness 0.05": "0.05", "coviews:table": "0.1, the default",
    "hardness 0.2": "0.2", "hardness 0.4": "0.4",
}  # fmt: skip
OVER_HARDNESS = [
    *((name, "hardness -0.1") for name in ("coviews:table", "hardness 0.2", "hardness 0.4")),
    *((name, "uniform") for name in ("hardness 0.05", "coviews:table", "hardness 0.2", "hardness 0.4")),
    ("uniform", "hardness -0.1"), ("hardness 0.2", "coviews:table"), ("hardness 0.05", "hardness 0.4"),
]  # fmt: skip
SPACES, STEPS = ("all", "simclr", "autoaugment"), (1, 2, 4)
OVER_SPACES = [
    ("coviews:table", "2 of autoaugment"), ("2 of simclr", "coviews:table"), ("1 of simclr", "coviews:table"),
    ("coviews:table", "1 of all"), ("coviews:table", "4 of all"), ("1 of simclr", "simclr"), ("2 of simclr", "simclr"),
    ("2 of simclr", "4 of simclr"), ("2 of autoaugment", "1 of autoaugment"), ("2 of autoaugment", "4 of autoaugment"),
]  # fmt: skip
OVER_SHAPES = [
    ("the defaults", "uniform"), ("the defaults", "the paper's"), ("uniform", "the paper's"),
    ("simclr", "the defaults"),
]  # fmt: skip
OVER_RECIPE = [(name, "recipe") for name in ("joint crop", "harder crops", "easier crops")]
OVER_RECIPE += [("harder crops", "easier crops")]
MANY_VIEWS = {
    "SimCLR with 4 views": "SimCLR with 4 views", "recipe": "SimCLR with 2 views",
    "DINO with 2 + 4 views": "DINO with 2 + 4 views",
}  # fmt: skip
OVER_TWO_VIEWS = [("SimCLR with 4 views", "recipe"), ("DINO with 2 + 4 views", "recipe")]
UNLEARNED_ROWS = [
    "uniform with 4 of all", "uniform with 2 of simclr", "uniform with 4 of simclr", "uniform with 2 of autoaugment",
    "uniform at 0.5", "simclr tilted", "hard views of uniform",
]  # fmt: skip
UNLEARNED = [
    ("coviews:table", "uniform"), ("4 of all", "uniform with 4 of all"), ("2 of simclr", "uniform with 2 of simclr"),
    ("4 of simclr", "uniform with 4 of simclr"), ("2 of autoaugment", "uniform with 2 of autoaugment"),
    ("simclr tilted", "simclr"), ("by table at 0.5", "uniform at 0.5"), ("hard views of uniform", "uniform"),
    ("uniform with 2 of simclr", "simclr"), ("uniform with 2 of simclr", "uniform"),
]  # fmt: skip


def short(name: str) -> str:
    """The row's name without its column's; a family of views stays whole."""
    return name if name.startswith("crop ") else name.split(", ")[0]


def pooled(parts: Sequence[Results]) -> Results:
    """All of them, a row that several have from the first."""
    whole = Results()
    for part in parts:
        known = {short(name) for name in whole.variants}
        new = {name: settings for name, settings in part.variants.items() if short(name) not in known}
        whole.variants |= new
        whole.runs += [r for r in part.runs if r.variant in new]
    return whole


def ranked(results: Results, measure: str = "linear") -> list[str]:
    found = scores(results, list(results.variants), measure)
    done = [name for name in results.variants if found[name]]
    return sorted(done, key=lambda name: -statistics.fmean(found[name].values()))


def standings(
    results: Results,
    measures: Sequence[str] = ("linear", "knn"),
    order: Sequence[str] | Mapping[str, str] | None = None,
    what: str = "accuracy in %",
) -> Rows:
    """All variants, the best first, or those in `order`, which may give them other names."""
    heads = {"linear": "linear probe", "knn": "kNN"}
    rows = []
    for name in ranked(results, measures[0]) if order is None else order:
        runs = results.of(name)
        cells = [mean_and_deviation([r.accuracy[m] for r in runs]) for m in measures]
        label = order[name] if isinstance(order, Mapping) else short(name)
        rows.append([label, *cells, mean_and_deviation([r.quality["rankme"] for r in runs]), str(len(runs))])
    untrained = next((r.untrained for r in results.runs if r.untrained), None)  # the same weights for all
    if untrained:
        rows.append(["*untrained encoder*", *(mean_and_deviation([untrained[m]]) for m in measures), "", "1"])
    return Rows([what, *(heads[m] for m in measures), "RankMe", "seeds"], rows)


def grid(results: Results) -> Rows:
    """Linear probe / kNN of views by table: a column for each space, a row for each number of steps."""
    rows = []
    for steps in STEPS:
        names = [f"{steps} of {where}" for where in SPACES]
        runs = [results.of("coviews:table" if name == "2 of all" else name) for name in names]
        cells = [
            " / ".join(mean_and_deviation([r.accuracy[m] for r in found]) for m in ("linear", "knn")) for found in runs
        ]
        rows.append([str(steps), *cells])
    return Rows(["operations in a row", *(f"of `{name}`" for name in SPACES)], rows)


def differences(results: Results, pairs: Sequence[tuple[str, str]]) -> Rows:
    """What one adds to the other, paired over the seeds."""
    rows = []
    for one, other in pairs:
        cells = [_difference(results, one, other, measure) for measure in ("linear", "knn")]
        if any(cells):
            rows.append([f"{one} over {other}", *cells])
    return Rows(["points, ± 95 %", "linear probe", "kNN"], rows)


def _difference(results: Results, one: str, other: str, measure: str) -> str:
    found = {short(name): s for name, s in scores(results, list(results.variants), measure).items()}
    gap = paired(found.get(one, {}), found.get(other, {}))
    return "" if gap is None else str(gap)


def overhead(results: Results, plain: str = "Random", left_out: str | None = None, seed: int = QUIET) -> Rows:
    """The time of runs over that with plain views, less 1: of the seed that was disturbed least."""
    quiet = (r for r in results.runs if r.seed == seed)
    runs = {short(r.variant): r for r in quiet if left_out is None or left_out not in r.variant}
    rows = [
        [name, f"{r.seconds / runs[plain].seconds - 1:+.2f}", f"{r.searching / r.seconds:.0%}"]
        for name, r in sorted(runs.items(), key=lambda item: item[1].seconds)
    ]
    return Rows(["", f"time over {plain}'s, less 1", "share of searches"], rows)


def made(results: Results) -> str:
    learned, judged = results.runs[0].images
    with_what = "; ".join(sorted({r.made for r in results.runs}))
    return f"{learned:,} training images, {judged:,} test images; {with_what}.\n\n"


def plot(results: Results, path: Path) -> None:
    """Each seed a point, the mean a bar."""
    names = ranked(results)
    figure, axes = plt.subplots(1, 2, figsize=(9, 0.8 + 0.32 * len(names)), sharey=True)
    for axis, (measure, title) in zip(axes, {"linear": "linear probe", "knn": "kNN"}.items(), strict=True):
        untrained = [r.untrained[measure] for r in results.runs if measure in r.untrained]
        axis.axvline(statistics.fmean(untrained), color="0.6", linestyle=":")
        for y, name in enumerate(names):
            values = list(scores(results, [name], measure)[name].values())
            colour = "#d55e00" if "Views" in name else "#0072b2"
            axis.plot(values, [y] * len(values), "o", color=colour, alpha=0.6)
            axis.plot(statistics.fmean(values), y, "|", color="black", markersize=14)
        axis.set_xlabel(f"{title}, accuracy in % (dotted: untrained)")
        axis.grid(axis="x", color="0.9")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(names)), [short(name) for name in names])
    axes[0].invert_yaxis()
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)


TABLES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "study": ("less-data", lambda r: made(r) + standings(r).markdown()),
    "learned over fixed": ("less-data", lambda r: differences(r, OVER_FIXED).markdown()),
    "overhead": ("less-data", lambda r: overhead(r, left_out=" by table").markdown()),
    "equal time": ("equal-5000", lambda r: made(r) + standings(r).markdown()),
    "equal time differences": ("less-data+equal-5000", lambda r: differences(r, EQUAL_TIME).markdown()),
    "equal time overhead": ("equal-5000", lambda r: overhead(r, "CoViews by table", seed=1).markdown()),
    "threshold": ("threshold", lambda r: made(r) + standings(r).markdown()),
    "tolerance": ("tolerance", lambda r: made(r) + standings(r).markdown()),
    "table": ("table-1000", lambda r: made(r) + standings(r).markdown()),
    "table differences": ("table-1000", lambda r: differences(r, BY_TABLE).markdown()),
    "table overhead": ("table-1000", lambda r: overhead(r, "random").markdown()),
    "at 0.2": ("table-100", lambda r: made(r) + standings(r, order=AT_02).markdown()),
    "at 0.2 differences": ("table-100", lambda r: differences(r, OVER_AT_02).markdown()),
    "hardness": ("table-100", lambda r: standings(r, order=HARDNESS, what="hardness").markdown()),
    "hardness differences": ("table-100", lambda r: differences(r, OVER_HARDNESS).markdown()),
    "spaces": ("table-100", lambda r: grid(r).markdown()),
    "spaces differences": ("table-100", lambda r: differences(r, OVER_SPACES).markdown()),
    "unlearned rows": ("table-100", lambda r: standings(r, order=UNLEARNED_ROWS).markdown()),
    "unlearned": ("table-100", lambda r: differences(r, UNLEARNED).markdown()),
    "shapes": ("shapes", lambda r: made(r) + standings(r).markdown()),
    "shapes differences": ("shapes", lambda r: differences(r, OVER_SHAPES).markdown()),
    **{
        f"crops {name}": (f"crops-{name}", lambda r: made(r) + standings(r).markdown())
        for name in ("cifar10", "signs", "steel")
    },
    **{
        f"crops {name} differences": (f"crops-{name}", lambda r: differences(r, OVER_RECIPE).markdown())
        for name in ("cifar10", "signs", "steel")
    },
    "many views": ("many-views+crops-cifar10", lambda r: made(r) + standings(r, order=MANY_VIEWS).markdown()),
    "many views differences": ("many-views+crops-cifar10", lambda r: differences(r, OVER_TWO_VIEWS).markdown()),
    **{
        f"useful {name}": (f"useful-{name}", lambda r, name=name: made(r) + standings(studied(r, name)).markdown())
        for name in SETS
    },
    **{
        f"useful {name} differences": (f"useful-{name}", lambda r, name=name: over_recipe(studied(r, name)).markdown())
        for name in SETS
    },
    **{f"unseen {name}": (f"unseen-{name}", lambda r: made(r) + standings(r).markdown()) for name in UNSEEN_SETS},
    **{f"labelled {name}": (f"labelled-{name}", lambda r: made(r) + standings(r).markdown()) for name in LABELLED_SETS},
    "choose resnet18": ("choose-resnet18", lambda r: made(r) + standings(r).markdown()),
    "choose resnet18 differences": ("choose-resnet18", lambda r: over_recipe(r).markdown()),
    "learning rate": ("learning-rate", lambda r: made(r) + standings(r).markdown()),
    "learning rate fruits": ("learning-rate-fruits", lambda r: made(r) + standings(r).markdown()),
    "precision": ("precision", lambda r: made(r) + standings(r).markdown()),
    "precision differences": ("precision", lambda r: differences(r, [("bf16", "32 bits")]).markdown()),
    **{
        f"systems {name} differences": (f"systems-{name}", lambda r: over_plain_recipe(r).markdown())
        for name in SYSTEM_SETS
    },
    "moco": ("moco", lambda r: made(r) + standings(r, ("knn", "linear")).markdown()),
    "moco differences": ("moco", lambda r: differences(r, OVER_MOCO).markdown()),
    **{
        f"keep and hard {name}": (f"keep-and-hard-{name}", lambda r: made(r) + standings(r).markdown())
        for name in KEEP_AND_HARD_SETS
    },
    **{
        f"keep and hard {name} differences": (f"keep-and-hard-{name}", lambda r: over_plain_recipe(r).markdown())
        for name in KEEP_AND_HARD_SETS
    },
    **{
        f"methods {name}": (f"methods-{name}", lambda r: made(r) + standings(r).markdown())
        for name in ("cifar10", "fruits")
    },
}


def studied(results: Results, name: str) -> Results:
    """What the study of `choose` trained on a set of images; the files also hold what earlier versions chose."""
    among = json.loads((RESULTS / "choose.json").read_text())["sets"][name]["scores"]
    variants = {v: s for v, s in results.variants.items() if v in among}
    return Results(variants, results.evaluation, [r for r in results.runs if r.variant in variants])


def over_recipe(results: Results) -> Rows:
    """Everything on a set of images over the photo recipe, which is without colour where the images are."""
    names = [name for name in ranked(results) if len(results.of(name)) >= 3]
    recipe = recipe_of(results)
    return differences(results, [(name, recipe) for name in names if name != recipe])


def over_plain_recipe(results: Results) -> Rows:
    return differences(results, [(name, "recipe") for name in ranked(results) if name != "recipe"])


def systems() -> str:
    """Every system on each set: linear probe and kNN, the epochs that it had time for, and what it costs."""
    sets = {name: read_results(RESULTS / f"systems-{name}.json") for name in SYSTEM_SETS}
    costs = json.loads((RESULTS / "systems-costs.json").read_text())
    means = {
        system: statistics.fmean(statistics.fmean(map(both, r.of(system))) for r in sets.values())
        for system in costs[SYSTEM_SETS[0]]
        if all(r.of(system) for r in sets.values())
    }
    rows = []
    for system in sorted(costs[SYSTEM_SETS[0]], key=lambda name: -means.get(name, 0.0)):
        cost = costs[SYSTEM_SETS[0]][system]
        spent = cost.get("before", 0.0) / costs[SYSTEM_SETS[0]]["recipe"]["epochs"]
        cells = []
        for name, results in sets.items():
            runs = results.of(system)
            if not runs:
                cells.append("")
                continue
            accuracies = " / ".join(mean_and_deviation([r.accuracy[m] for r in runs]) for m in ("linear", "knn"))
            cells.append(f"{accuracies} ({costs[name][system]['epochs']})")
        before = f"{spent:.0%} before" if spent else f"{cost['search']:.2f} each" if cost.get("search") else ""
        rows.append([system, f"{cost['epoch']:.2f}", before, *cells, f"{means[system]:.1f}" if system in means else ""])
    untrained = [next(r.untrained for r in results.runs if r.untrained) for results in sets.values()]
    cells = [" / ".join(f"{found[m]:.1f}" for m in ("linear", "knn")) for found in untrained]
    mean = statistics.fmean(statistics.fmean((found["linear"], found["knn"])) for found in untrained)
    rows.append(["*untrained encoder*", "", "", *cells, f"{mean:.1f}"])
    head = ["linear probe / kNN in % (epochs)", "time of an epoch", "searches on cifar10", *sets, "mean"]
    about = "; ".join(sorted({run.made for results in sets.values() for run in results.runs}))
    return f"{about}.\n\n{Rows(head, rows).markdown()}"


def recipe_of(results: Results) -> str:
    """The name of the photo recipe among what was trained on a set of images."""
    return next(f.text for f in (RECIPE, RECIPE.without_colour()) if results.of(f.text))


def regrets(every: bool = False) -> str:
    """Points behind the best views in hindsight, the mean of linear probe and kNN, of several ways to take views.

    every: behind the best of everything that was ever trained on a set, also by earlier versions, instead of the study.
    """
    sets = {name: read_results(RESULTS / f"useful-{name}.json") for name in SETS}
    studies = json.loads((RESULTS / "choose.json").read_text())["sets"]
    among = {name: sets[name].variants if every else list(studies[name]["scores"]) for name in SETS}
    ways = {
        "the photo recipe": "recipe",
        "the former default (learned by table)": "former default",
        "the default: the recipe with the keeping head": "default",
        "`choose` without labels": "choose 0",
        **{f"`choose` with {count} labels a class": f"choose {count}" for count in (3, 10, 50)},
        "`choose` with all labels": "choose all",
    }
    rows = []
    for way, key in ways.items():
        if all(sets[name].of(studies[name]["views"][key]) for name in SETS):
            behind = [behind_best(sets[name], [studies[name]["views"][key]], among[name]) for name in SETS]
            rows.append([way, *behind_cells(behind), str(min(len(sets[n].of(studies[n]["views"][key])) for n in SETS))])
    drawn = {n: [v for k, v in studies[n]["views"].items() if k.split(",")[0] == "choose 10"] for n in SETS}
    if all(len(views) > 1 and all(map(sets[n].of, views)) for n, views in drawn.items()):
        draws = min(map(len, drawn.values()))
        behind = [behind_best(sets[n], views[:draws], among[n]) for n, views in drawn.items()]
        seeds = min(len(sets[n].of(v)) for n, views in drawn.items() for v in views)
        place = 1 + [row[0] for row in rows].index("`choose` with 10 labels a class")
        rows.insert(place, [f"the same, mean of {draws} draws of labels", *behind_cells(behind), str(seeds)])
    best = "the best ever trained" if every else "the best in hindsight"
    return Rows([f"points behind {best}", *SETS, "mean", "worst", "seeds"], rows).markdown()


def behind_best(results: Results, views: Sequence[str], among: Sequence[str]) -> float:
    """Points by which views are behind the best of those that were trained with three seeds: the mean over them."""
    means = {v: statistics.fmean(map(both, results.of(v))) for v in results.variants if len(results.of(v)) >= 3}
    return max(means[v] for v in among if v in means) - statistics.fmean(means[v] for v in views)


def behind_cells(behind: Sequence[float]) -> list[str]:
    """Points behind the best on each set, their mean and the worst."""
    return [f"{points:.1f}" for points in (*behind, statistics.fmean(behind), max(behind))]


def both(run: Result) -> float:
    """The mean of linear probe and kNN."""
    return statistics.fmean((run.accuracy["linear"], run.accuracy["knn"]))


def effects() -> str:
    """What each change of the recipe does on each set, in points, by the most labels."""
    studies = json.loads((RESULTS / "choose.json").read_text())["sets"]
    by_set = {name: studies[name]["effects"] for name in SETS}
    changes = list(dict.fromkeys(change for name in SETS for change in by_set[name]))
    rows = []
    for change in changes:
        cells = [by_set[name].get(change) for name in SETS]
        rows.append([change, *(f"{c[0]:+.1f} ± {c[1]:.1f}" if c else "" for c in cells)])
    return Rows(["change of the recipe", *SETS], rows).markdown()


def fresh() -> str:
    """Points behind the best ever trained, both trained again with seeds by which nothing was selected."""
    again = json.loads((RESULTS / "choose-fresh.json").read_text())["sets"]
    studies = json.loads((RESULTS / "choose.json").read_text())["sets"]
    ways = {
        "the photo recipe": ["recipe"],
        "the default": ["default"],
        "`choose` without labels": ["choose 0"],
        "`choose` with 10 labels a class, first draw": ["choose 10"],
        f"the same, mean of {DRAWS} draws": ["choose 10", *(f"choose 10, draw {i}" for i in range(2, DRAWS + 1))],
    }
    rows = []
    for way, keys in ways.items():
        behind = []
        for name in again:
            scores = {views: statistics.fmean(values) for views, values in again[name]["scores"].items()}
            chosen = [scores[studies[name]["views"][key]] for key in keys]
            behind.append(scores[again[name]["best"]] - statistics.fmean(chosen))
        rows.append([way, *behind_cells(behind)])
    return Rows(["points behind the best ever trained", *again, "mean", "worst"], rows).markdown()


def choices() -> str:
    """What was chosen on each set, and with how many labels a class."""
    studies = json.loads((RESULTS / "choose.json").read_text())["sets"]
    lines = []
    for name in SETS:
        by_views: dict[str, list[str]] = {}
        for key, views in sorted(studies[name]["views"].items(), key=lambda item: labels_in(item[0])):
            if key.startswith("choose "):
                by_views.setdefault(views, []).append(key)
        lines.append(f"- {name}: {'; '.join(f'`{views}` ({in_words(keys)})' for views, keys in by_views.items())}\n")
    return "".join(lines)


def labels_in(choice: str) -> float:
    """How many labels a class a choice had."""
    count = choice.removeprefix("choose ").split(",")[0]
    return math.inf if count == "all" else float(count) if count.isdigit() else -1


def in_words(keys: Sequence[str]) -> str:
    """The numbers of labels of some choices; with 10 there are several draws."""
    counts = [labels_in(key) for key in keys]
    words = {0.0: "none", 10.0: f"10 in {counts.count(10)} of {DRAWS} draws", math.inf: "all"}
    return ", ".join(words.get(n, f"{n:.0f}") for n in dict.fromkeys(counts))


def filled(text: str) -> str:
    """The same page, its tables made anew."""
    for name, make in (
        ("choices", choices),
        ("effects", effects),
        ("fresh", fresh),
        ("regrets", regrets),
        ("regrets every", partial(regrets, every=True)),
        ("systems", systems),
    ):
        made = f"<!-- {name} -->\n{make()}<!-- end -->" if f"<!-- {name} -->" in text else ""
        text = re.sub(rf"<!-- {name} -->\n.*?<!-- end -->", made, text, flags=re.DOTALL)

    def table(match: re.Match[str]) -> str:
        source, make = TABLES[match[1]]
        results = pooled([read_results(RESULTS / f"{name}.json") for name in source.split("+")])
        body = make(results) if results.runs else "Not run yet.\n"
        return f"<!-- {match[1]} -->\n{body}<!-- end -->"

    return re.sub(rf"<!-- ({'|'.join(TABLES)}) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)


def main() -> None:
    for name in PAGES:
        page = ROOT / name
        page.write_text(filled(page.read_text()))
    plot(read_results(RESULTS / "less-data.json"), FIGURE)


if __name__ == "__main__":
    main()
