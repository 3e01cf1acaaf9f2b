"""Every system that the paper names, side by side: accuracy at equal time, what a search costs included.

The recipe gets so many epochs on each set (EPOCHS), and every other system as many as take the same time: the time of
its epochs and of its searches is measured first, by a short training of each, one after the other; nothing else should
run then. What searches before training (SelfRandAugment, SelfAugment, a population) does so once for each set, with
figures (SEARCHES) that take about half of the time, and trains for the rest. Then all are compared: two seeds, linear
probe and kNN.

    python benchmarks/systems.py --data FOLDER --out STUDY --time     # minutes
    python benchmarks/systems.py --data FOLDER --out STUDY            # hours on one core; goes on where it was

FOLDER holds sets as NAME/{train,test}/CLASS/*.png. Results go to STUDY/NAME/trainings/results.json, what everything
cost to STUDY/NAME/costs.json.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import coviews
from coviews.runs.presets import preset

SETS = ("cifar10", "fruits", "speech")
EPOCHS = {"cifar10": 20}  # of the recipe
_OTHERWISE = 32
IMAGES = {"cifar10": 5000}
BATCH = {"cifar10": 128}
SEEDS = 2
OF_COLOUR = ("infomin-flow",)  # not for images of one channel, such as spectrograms
TIMED_SET, TIMED_IMAGES, TIMED_EPOCHS = "fruits", 1500, 4

_ADVERSARIAL = preset("adversarial-autoaugment")
SYSTEMS: dict[str, dict[str, Any]] = {
    "recipe": {"views": "recipe"},
    "recipe-keep": {"views": "recipe-keep"},
    "uniform": {"views": "uniform"},
    "autoaugment": {"views": "autoaugment:cifar10"},
    "fast-autoaugment": {"views": "fast-autoaugment:cifar10"},
    "infomin": {"views": "infomin"},
    "infomin-flow": {"views": "infomin-flow"},
    "viewmaker": {"views": "viewmaker"},
    "adversarial-autoaugment": {
        name: getattr(_ADVERSARIAL, name) for name in ("views", "space", "queue_size", "search", "warmup_epochs")
    },
    "coviews by table": {"views": "coviews", "search": "table"},
    "coviews by ppo": {"views": "coviews", "search": "ppo", "space": "autoaugment"},
    "rotation": {"views": "recipe", "method": "rotation"},
}
# how each search before training is called: as small as its idea allows, since it takes from the time of the training
SEARCHES: dict[str, tuple[Any, dict[str, Any]]] = {
    "selfrandaugment": (coviews.self_randaugment, {"epochs": 2, "steps": (2,), "magnitudes": (5, 15)}),
    "selfaugment": (coviews.self_augment, {"epochs": 2, "folds": 2, "trials": 8, "repeats": 1, "best": 3}),
    "population": (coviews.population_augment, {"epochs": 2, "members": 3, "every": 1}),
}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the sets")
    parser.add_argument("--sets", default=",".join(SETS), help="with commas between them")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the study")
    parser.add_argument("--time", action="store_true", help="only measure how long everything takes")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once")
    return parser.parse_args()


def shared(data: Path) -> dict[str, Any]:
    """What all trainings on a set have in common."""
    name = data.name
    count = len(list((data / "train").rglob("*.png")))
    return {
        "data": str(data / "train"), "test_data": str(data / "test"), "size": 32, "encoder": "resnet8", "lr": 0.12,
        "subset": str(min(IMAGES.get(name, 1500), count)), "batch_size": BATCH.get(name, 64), "epochs": epochs(name),
        "lr_warmup_epochs": 2, "warmup_epochs": 2, "knn_every": 0, "report": False, "tensorboard": False,
    }  # fmt: skip


def epochs(name: str) -> int:
    return EPOCHS.get(name, _OTHERWISE)


def measured(name: str, data: Path, out: Path) -> dict[str, float]:
    """Seconds of an epoch and of a search in training, by a short training."""
    made = out / "seconds" / name.replace(" ", "-")
    if not (made / "encoder.safetensors").exists():
        changes = {**shared(data), **SYSTEMS[name], "subset": str(TIMED_IMAGES), "epochs": TIMED_EPOCHS, "out": made}
        changes["warmup_epochs"] = 1
        coviews.pretrain(settings=with_all(changes), overwrite=True, progress=False)
    records = [json.loads(line) for line in (made / "metrics.jsonl").read_text().splitlines()]
    seconds = {
        kind: [r["time"]["seconds"] for r in records if r["kind"] == kind and r["epoch"] > 1]
        for kind in ("epoch", "search")
    }
    return {kind: min(some, default=0.0) for kind, some in seconds.items()}


def with_all(changes: dict[str, Any]) -> coviews.PretrainSettings:
    """Settings, with the names of a method and of a search as in a file."""
    return coviews.PretrainSettings().replaced(**changes)


def searched(name: str, data: Path, out: Path) -> tuple[coviews.PretrainSettings, float]:
    """The settings that a search before training has found, and the seconds that it took."""
    folder, seconds = out / "searches" / name, out / "searches" / f"{name}.json"
    search, figures = SEARCHES[name]
    started = time.perf_counter()
    found = search(with_all({**shared(data), "views": name}), folder, progress=False, **figures)
    if not seconds.exists():
        seconds.write_text(json.dumps(round(time.perf_counter() - started, 1)))
    print(data.name, found.sentence, flush=True)
    return found.settings, json.loads(seconds.read_text())


def epochs_in_time(budget: float, epoch: float, search: float, settings: coviews.PretrainSettings) -> int:
    """The most epochs that, with their searches, take no longer than so many seconds; at least one."""
    fitting, spent = 0, 0.0
    while True:
        fitting += 1
        spent += epoch + (search if settings.learns_views and settings.searches_at(fitting) else 0.0)
        if spent > budget * 1.01 and fitting > 1:
            return fitting - 1


def study(data: Path, out: Path, jobs: int) -> None:
    """Search and compare on one set."""
    common, timed = shared(data), json.loads((out.parent / "seconds.json").read_text())
    recipe = timed["recipe"]["epoch"] * int(common["subset"]) / TIMED_IMAGES  # seconds
    budget = recipe * epochs(data.name)
    costs: dict[str, dict[str, float]] = {}
    variants: dict[str, dict[str, Any]] = {}
    one_channel = coviews.load_images(str(data / "train"), limit=1).images.shape[-1] == 1
    for name, changes in SYSTEMS.items():
        if one_channel and name in OF_COLOUR:
            continue
        epoch, search = recipe * timed[name]["epoch"] / timed["recipe"]["epoch"], timed[name]["search"]
        count = epochs_in_time(budget, epoch, search, with_all({**common, **changes}))
        variants[name] = {**changes, "epochs": count}
        costs[name] = {"epoch": epoch / recipe, "search": search / recipe, "epochs": count}
    for name in SEARCHES:
        settings, spent = searched(name, data, out)
        epoch = costs["uniform"]["epoch"]
        count = max(1, int((budget - spent) / (recipe * epoch) + 0.5))
        variants[name] = {
            "views": settings.views, "randaugment_steps": settings.randaugment_steps, "magnitude": settings.magnitude,
            "epochs": count,
        }  # fmt: skip
        costs[name] = {"epoch": epoch, "before": spent / recipe, "epochs": count}
    rounded = {name: {k: round(v, 3) for k, v in cost.items()} for name, cost in costs.items()}
    (out / "costs.json").write_text(json.dumps(rounded, indent=1) + "\n")
    print(data.name, json.dumps(rounded), flush=True)
    coviews.compare(
        variants=variants, seeds=SEEDS, jobs=jobs, out=out / "trainings", k=20, progress=sys.stderr.isatty(), **common
    )


def main() -> None:
    args = options()
    if args.time:
        timed = {name: measured(name, args.data / TIMED_SET, args.out) for name in SYSTEMS}
        (args.out / "seconds.json").write_text(json.dumps(timed, indent=1) + "\n")
        print(json.dumps(timed, indent=1))
        return
    for name in args.sets.split(","):
        if not (args.data / name / "train").is_dir():
            sys.exit(f"error: {name} is not in {args.data}: give --data, a folder of sets")
        (args.out / name / "searches").mkdir(parents=True, exist_ok=True)
        study(args.data / name, args.out / name, args.jobs)


if __name__ == "__main__":
    main()
