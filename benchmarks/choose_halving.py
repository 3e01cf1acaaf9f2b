"""Successive halving in the time of 18 pilots, to compare with the screening design of `choose`.

The recipe and 23 families drawn at random are trained for 4 epochs; the better half of them by 10 labels a class anew
for 8, the better half of those for 16: 288 epochs in all, as of 18 pilots of 16. The best of the last six is taken and
trained as in `choose.py`, with three seeds.

    python benchmarks/choose_halving.py --data FOLDER --out STUDY --sets steel,signs
"""

import argparse
import statistics
from pathlib import Path

import numpy as np

import coviews
from coviews.choosing.model import factor_names, families
from coviews.choosing.probes import leave_one_out
from coviews.comparison.plan import folder_name
from coviews.comparison.results import read_results
from coviews.data.load import load_images
from coviews.encoders.features import features
from coviews.encoders.images import normalisation
from coviews.encoders.open import open_encoder
from coviews.policies.factors import FACTORS, RECIPE

RUNGS = ((24, 4), (12, 8), (6, 16))  # families and epochs of each
LABELS = 10  # a class
SHARED = {
    "size": 32, "encoder": "resnet8", "warmup_epochs": 3, "lr_warmup_epochs": 2, "batch_size": 64, "lr": 0.12,
    "knn_every": 0, "report": False, "tensorboard": False, "k": 20, "progress": False,
}  # fmt: skip


def halving(data: Path, out: Path, jobs: int) -> str:
    """The family that is left, as text."""
    images = load_images(str(data / "train"), size=32, progress=False)
    generator = np.random.default_rng(0)
    classes = [np.flatnonzero(images.labels == c) for c in np.unique(images.labels)]
    rows = np.sort(np.concatenate([generator.permutation(c)[:LABELS] for c in classes]))
    colour = bool((images.images[..., :1] != images.images).any())
    start = RECIPE if colour else RECIPE.without_colour()
    every = families(start, [name for name in factor_names() if colour or not FACTORS[name].colour])
    drawn = generator.choice(len(every), RUNGS[0][0] - 1, replace=False)
    left = list(dict.fromkeys([start.text, *(every[i].text for i in drawn)]))
    for count, epochs in RUNGS:
        left, folder = left[:count], out / f"epochs-{epochs}"
        coviews.compare(
            str(data / "train"), variants={v: {"views": v} for v in left}, test_data=str(data / "test"), seeds=1,
            jobs=jobs, out=folder, subset=str(min(1500, len(images))), epochs=epochs, **SHARED,
        )  # fmt: skip
        chances = {}
        for text in left:
            model = open_encoder(folder / "runs" / f"{folder_name(text)}-0")
            encoded = features(model.encoder, images.images[rows], *normalisation(model, images))
            chances[text] = float(leave_one_out(encoded, images.labels[rows])[1].mean())
        left = sorted(left, key=lambda text: -chances[text])
    return left[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the sets, as NAME/{train,test}/CLASS")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the study")
    parser.add_argument("--sets", required=True, help="with commas between them")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at once")
    args = parser.parse_args()
    for name in args.sets.split(","):
        data, out = args.data / name, args.out / name
        taken = halving(data, out, args.jobs)
        count = len(list((data / "train").rglob("*.png")))
        coviews.compare(
            str(data / "train"), variants={taken: {"views": taken}}, test_data=str(data / "test"), seeds=3,
            jobs=args.jobs, out=out / "taken", subset=str(min(1500, count)), epochs=16, **SHARED,
        )  # fmt: skip
        runs = read_results(out / "taken" / "results.json").runs
        print(f"{name}: {taken}: {statistics.fmean(statistics.fmean(r.accuracy.values()) for r in runs):.1f}")


if __name__ == "__main__":
    main()
