"""How good a choice of views is: points behind the best views in hindsight, on several sets of images.

`choose` finds views for each set without labels, with 3, 10 and 50 a class, and with all of them; those with 10 several
times, each time with other labels (--draws). Its pilots are shared: those after the screening try what tells most by
the first 10 labels a class. Then every choice, the recipe, the default, the former default and six other families
(OTHERS) are trained anew with three seeds, and judged by the linear probe and kNN with all labels. The regret of a
choice is how far the mean of both is behind that of the best of all that were trained on the set: the best in
hindsight.

    python benchmarks/choose.py --data FOLDER --out STUDY            # hours; goes on where it was
    python benchmarks/choose.py --quick --json                       # minutes: short pilots, short trainings, one seed

FOLDER holds sets as NAME/{train,test}/CLASS/*.png, or archives (.tar.gz) of such folders; by default ../shared/data.
"""

import argparse
import json
import statistics
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

import coviews
from coviews.comparison.results import read_results
from coviews.data.load import load_images
from coviews.policies.factors import RECIPE

ROOT = Path(__file__).parent.parent
SETS = ("cifar10", "fruits", "steel", "signs", "speech")
LABELS = (0, 3, 10, 50, None)  # a class; None: all
PILOTS = 36
OTHERS: dict[str, dict[str, object]] = {  # what the best in hindsight is looked for among, beside the choices
    "cropflip": {"views": "crop small, mirror"},
    "recipe without colour": {"views": "crop small, mirror, light"},
    "cropflip and tilt": {"views": "crop small, mirror, tilt"},
    "recipe without mirror": {"views": "recipe", "flip": 0.0},
    "recipe and turns": {"views": "crop small, mirror, turns, light, colour, grey"},
    "former default": {"views": "coviews"},
}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="the folder of the sets")
    parser.add_argument("--sets", default="", help="only these, with commas between them")
    parser.add_argument("--out", type=Path, help="the folder of the study; by default one that is removed")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at once")
    parser.add_argument("--draws", type=int, default=5, help="of 10 labels a class")
    parser.add_argument("--quick", action="store_true", help="two sets, short pilots and trainings, one seed")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="the figures as JSON, printed or written")
    return parser.parse_args()


def unpacked(folder: Path, where: Path) -> dict[str, Path]:
    """Each set by its name; archives are unpacked once."""
    for archive in sorted(folder.glob("*.tar.gz")):
        marker = where / f"{archive.name}.done"
        if not marker.exists():
            with tarfile.open(archive) as file:
                file.extractall(where, filter="data")
            marker.touch()
    sets = {p.parent.name: p.parent for f in (folder, where) for p in sorted(f.glob("*/train"))}
    return {name: sets[name] for name in [*SETS, *sorted(sets)] if name in sets}


def choices(data: Path, out: Path, args: argparse.Namespace) -> dict[str, coviews.Choice]:
    """What `choose` takes with so many labels a class."""
    lengths = {"epochs": 6, "images": 600} if args.quick else {"epochs": 16, "images": 1500}
    shared = {"jobs": args.jobs, "progress": sys.stderr.isatty(), **lengths}
    made: dict[object, coviews.Choice] = {
        count: coviews.choose(
            str(data / "train"), out=out / "choice", per_class=count, pilots=14 if args.quick else PILOTS, **shared
        )
        for count in ((10,) if args.quick else (10, 3, 50, None))  # the first decides which pilots there are
    }
    for draw in range(1, 1 if args.quick else args.draws):
        labels = some_labels(data / "train", 10, draw)
        made[10, draw] = coviews.choose(str(data / "train"), out=out / "choice", labels=labels, pilots=PILOTS, **shared)
    made[0] = coviews.choose(str(data / "train"), out=out / "choice-without-labels", labels="none", **shared)
    keys = [*((10, draw) for draw in range(1, args.draws)), *LABELS]
    return {f"choose {words(key)}": made[key] for key in keys if key in made}


def some_labels(folder: Path, per_class: int, draw: int) -> list[int | None]:
    """The class of so many images of each class, drawn at random, and None for all others."""
    classes = load_images(str(folder), size=32, progress=False).labels
    order = np.random.default_rng(draw).permutation(len(classes))
    known = {int(i) for c in np.unique(classes) for i in order[classes[order] == c][:per_class]}
    return [int(c) if i in known else None for i, c in enumerate(classes)]


def words(labels: object) -> str:
    """How many labels a class; for a further draw, which."""
    if isinstance(labels, tuple):
        return f"{labels[0]}, draw {labels[1] + 1}"
    return "all" if labels is None else str(labels)


def study(name: str, data: Path, out: Path, args: argparse.Namespace) -> dict[str, object]:
    """The mean of linear probe and kNN, over the seeds, of everything that was trained on one set, and the choices."""
    made = choices(data, out, args)
    colour, surest = made["choose 0"].decided.recipe.colour, list(made.values())[-1]
    default = coviews.PretrainSettings().family
    assert default is not None
    named = {"recipe": RECIPE, "default": default}
    if not colour:
        named = {k: v.without_colour() for k, v in named.items()}
    families = named | {k: c.family for k, c in made.items()}
    # one training for each family, however many names it has
    variants = {v.text: {"views": v.text} for v in families.values()}
    variants |= {k: v for k, v in OTHERS.items() if v not in variants.values()}
    count = len(list((data / "train").rglob("*.png")))
    coviews.compare(
        str(data / "train"), variants=variants, test_data=str(data / "test"), seeds=1 if args.quick else 3,
        jobs=args.jobs, out=out / "trainings", size=32, subset=str(min(600 if args.quick else 1500, count)),
        encoder="resnet8", epochs=6 if args.quick else 16, warmup_epochs=3, lr_warmup_epochs=2, batch_size=64, lr=0.12,
        knn_every=0, report=False, tensorboard=False, k=20, progress=sys.stderr.isatty(),
    )  # fmt: skip
    results = read_results(out / "trainings" / "results.json")
    scores = {v: [round(statistics.fmean(r.accuracy.values()), 2) for r in results.of(v)] for v in sorted(variants)}
    return {
        "scores": {v: s for v, s in scores.items() if len(s) >= (1 if args.quick else 3)},
        "views": {k: v.text for k, v in families.items()} | {"former default": "former default"},
        "sentences": {k: c.decided.sentence for k, c in made.items()},
        "effects": {f"{e.factor} {e.value}": [round(e.points, 2), round(e.error, 2)] for e in surest.decided.effects},
    }


def behind(study: dict[str, object], name: str) -> float:
    """Points by which one choice is behind the best of everything that was trained on the set."""
    means = {views: statistics.fmean(values) for views, values in study["scores"].items()}
    return max(means.values()) - means[study["views"][name]]


def main() -> None:
    args = options()
    with tempfile.TemporaryDirectory() as temporary:
        out = args.out or Path(temporary)
        out.mkdir(parents=True, exist_ok=True)
        sets = unpacked(args.data, out)
        wanted = [s for s in args.sets.split(",") if s] or (["fruits", "signs"] if args.quick else list(sets))
        if missing := [name for name in wanted if name not in sets]:
            sys.exit(f"error: {missing[0]} is not in {args.data}: give --data, a folder of sets")
        studies = {name: study(name, sets[name], out / name, args) for name in wanted}
    figures: dict[str, object] = {}
    names = {"recipe": "recipe", "former default": "default_old", "default": "default"}
    names |= {f"choose {words(count)}": f"choose_{words(count)}" for count in LABELS}
    for name, key in names.items():
        if not all(name in s["views"] for s in studies.values()):
            continue
        regrets = {set_name: behind(s, name) for set_name, s in studies.items()}
        figures[f"regret_{key}"] = round(statistics.fmean(regrets.values()), 2)
        figures[f"worst_{key}"] = round(max(regrets.values()), 2)
        figures[f"regrets_{key}"] = {s: round(v, 2) for s, v in regrets.items()}
    drawn = {
        name: [behind(s, key) for key in s["views"] if key.split(",")[0] == "choose 10"] for name, s in studies.items()
    }
    figures["regrets_choose_10_by_draw"] = {name: [round(v, 2) for v in values] for name, values in drawn.items()}
    figures["regret_choose_10_draws"] = round(statistics.fmean(map(statistics.fmean, drawn.values())), 2)
    figures["sets"] = studies
    text = json.dumps(figures, indent=1)
    if args.json in (None, "-"):
        print(text)
    else:
        Path(args.json).write_text(text + "\n")


if __name__ == "__main__":
    main()
