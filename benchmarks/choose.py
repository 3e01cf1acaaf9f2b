"""How good a choice of views is: points behind the best views in hindsight, on several sets of images.

Every set is trained with each of some named families, with today's and the former default, and with what `choose`
takes without labels and with few; all are judged by the linear probe and kNN with all labels. The regret of a choice
is how far the mean of both is behind that of the best views of all that were trained.

    python benchmarks/choose.py --data FOLDER --out STUDY            # hours; goes on where it was
    python benchmarks/choose.py --quick --json                       # minutes: short pilots, short trainings

FOLDER holds sets as NAME/{train,test}/CLASS/*.png, or archives (.tar.gz) of such folders; by default ../shared/data.
"""

import argparse
import json
import statistics
import sys
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

import coviews
from coviews.comparison.results import read_results
from coviews.policies.factors import FAMILIES, RECIPE, family

ROOT = Path(__file__).parent.parent
SETS = ("cifar10", "fruits", "steel", "signs", "speech")
NAMED = {
    "recipe": RECIPE, "cropflip": FAMILIES["cropflip"], "bright": family("crop small, mirror, light"),
    "noflip": replace(RECIPE, mirror=False), "geo": family("crop small, mirror, tilt"),
    "quarter": replace(RECIPE, turns=True),
}  # fmt: skip
LABELS = (0, 3, 10, 50)  # a class


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="the folder of the sets")
    parser.add_argument("--sets", default="", help="only these, with commas between them")
    parser.add_argument("--out", type=Path, help="the folder of the study; by default one that is removed")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at once")
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
    """What `choose` takes with so many labels a class; the pilots are shared where they can be."""
    first = 14 if args.quick else 18  # pilots; each further number of labels has some more to go on from there
    lengths = {"epochs": 6, "images": 600} if args.quick else {"epochs": 16, "images": 1500}
    counts = (0, 10) if args.quick else LABELS
    made = {}
    for i, count in enumerate(counts):
        labels = {"labels": "none"} if count == 0 else {"per_class": count}
        made[f"choose {count}"] = coviews.choose(
            str(data / "train"),
            out=out,
            jobs=args.jobs,
            pilots=first + 4 * i,
            progress=sys.stderr.isatty(),
            **lengths,
            **labels,
        )
    return made


def study(name: str, data: Path, out: Path, args: argparse.Namespace) -> dict[str, float]:
    """The mean of linear probe and kNN, over the seeds, of everything that was trained on one set."""
    made = choices(data, out / "choice", args)
    named = {k: v for k, v in NAMED.items() if not args.quick or k in ("recipe", "cropflip", "noflip")}
    # one training for each family, however many names it has
    texts = {views.text for views in [*named.values(), *(c.family for c in made.values())]}
    variants = {text: {"views": text} for text in sorted(texts)} | {"former default": {"views": "coviews"}}
    images = 600 if args.quick else min(2000, len(list((data / "train").rglob("*.png"))))
    coviews.compare(
        str(data / "train"), variants=variants, test_data=str(data / "test"), seeds=1 if args.quick else 3,
        jobs=args.jobs, out=out / "trainings", size=32, subset=str(images), encoder="resnet8",
        epochs=12 if args.quick else 40, warmup_epochs=2 if args.quick else 4, batch_size=64 if args.quick else 128,
        lr=0.12, knn_every=0, report=False, tensorboard=False, progress=sys.stderr.isatty(),
    )  # fmt: skip
    results = read_results(out / "trainings" / "results.json")
    score = {v: statistics.fmean(statistics.fmean(r.accuracy.values()) for r in results.of(v)) for v in variants}
    print(f"{name}: " + ", ".join(f"{k} [{c.family.text}]" for k, c in made.items()), file=sys.stderr)
    return (
        {k: score[v.text] for k, v in named.items()}
        | {"former default": score["former default"], "default": score[coviews.PretrainSettings().family.text]}
        | {k: score[c.family.text] for k, c in made.items()}
    )  # fmt: skip


def main() -> None:
    args = options()
    with tempfile.TemporaryDirectory() as temporary:
        out = args.out or Path(temporary)
        out.mkdir(parents=True, exist_ok=True)
        sets = unpacked(args.data, out)
        wanted = [s for s in args.sets.split(",") if s] or (["fruits", "signs"] if args.quick else list(sets))
        if missing := [name for name in wanted if name not in sets]:
            sys.exit(f"error: {missing[0]} is not in {args.data}: give --data, a folder of sets")
        scores = {name: study(name, sets[name], out / name, args) for name in wanted}
    figures: dict[str, object] = {}
    names = {"recipe": "recipe", "former default": "default_old", "default": "default"}
    names |= {f"choose {count}": f"choose_{count}" for count in LABELS}
    for name, key in names.items():
        if not all(name in by_name for by_name in scores.values()):
            continue
        regrets = {s: max(by_name.values()) - by_name[name] for s, by_name in scores.items()}
        figures[f"regret_{key}"] = round(statistics.fmean(regrets.values()), 2)
        figures[f"worst_{key}"] = round(max(regrets.values()), 2)
    figures["scores"] = {s: {n: round(v, 2) for n, v in by_name.items()} for s, by_name in scores.items()}
    text = json.dumps(figures, indent=1)
    if args.json in (None, "-"):
        print(text)
    else:
        Path(args.json).write_text(text + "\n")


if __name__ == "__main__":
    main()
