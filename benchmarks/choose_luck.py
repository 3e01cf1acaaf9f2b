"""How much of a choice of views is luck with the labels: labels are drawn many times, for the pilots of a study.

Each draw gives a choice among the families of the pilots. Its regret is how far its family is behind the best of them
on the test images, by the mean of kNN and a ridge probe with all labels. A single pilot is lucky or not, so what counts
is what the model of `choose` expects of each family by the test images.

    python benchmarks/choose.py --data FOLDER --out STUDY
    python benchmarks/choose_luck.py --data FOLDER --out STUDY --labels 10
"""

import argparse
import json
import statistics
from pathlib import Path

import numpy as np

from coviews.choosing import unlabelled
from coviews.choosing.agreement import agreements, weight
from coviews.choosing.choose import _candidates
from coviews.choosing.model import FamilyModel, Observations
from coviews.choosing.pilot_plan import PlanFile
from coviews.choosing.pilot_worker import SIGNALS
from coviews.choosing.pilots import NAMED
from coviews.choosing.probes import class_chances, leave_one_out
from coviews.choosing.score import observed
from coviews.choosing.verdict import verdict
from coviews.comparison.plan import folder_name
from coviews.data.load import load_images
from coviews.encoders.features import features
from coviews.encoders.images import normalisation
from coviews.encoders.open import open_encoder
from coviews.evaluation.knn import knn_accuracy

RIDGES = (0.001, 0.01, 0.1)  # times the mean eigenvalue: the best counts


def ridge_accuracy(x: np.ndarray, labels: np.ndarray, test: np.ndarray, truth: np.ndarray) -> float:
    """The share of test images that ridge regression names."""
    mean, spread = x.mean(0), x.std(0) + 1e-6
    x, test = (x - mean) / spread, (test - mean) / spread
    names, gram = np.unique(labels), x.T @ x
    targets = (labels[:, None] == names) - np.bincount(np.searchsorted(names, labels)) / len(labels)
    shares = []
    for ridge in RIDGES:
        weights = np.linalg.solve(gram + ridge * np.trace(gram) / len(gram) * np.eye(len(gram)), x.T @ targets)
        shares.append(float((names[(test @ weights).argmax(1)] == truth).mean()))
    return max(shares)


def regrets(data: Path, study: Path, args: argparse.Namespace) -> list[float]:
    """The regret of the choice with each draw of labels, on one set of images."""
    train, test = (load_images(str(data / part), size=32, progress=False) for part in ("train", "test"))
    plan = PlanFile.read(study / "choice")
    assert plan is not None
    families, encoded, accuracies, mirrored = [], [], [], []
    for family, seed in plan.pilots:
        folder = study / "choice" / "runs" / f"{folder_name(family.text)}-{seed}"
        model, signals = open_encoder(folder), json.loads((folder / SIGNALS).read_text())
        if not family.mirror and not family.turns and (args.pilots is None or len(families) < args.pilots):
            mirrored.append(signals["mirrored"])
        x, y = (features(model.encoder, s.images, *normalisation(model, train)).astype(float) for s in (train, test))
        knn = knn_accuracy(x, train.labels, y, test.labels, k=20)
        accuracies.append(50 * (knn + ridge_accuracy(x, train.labels, y, test.labels)))
        families.append(family)
        encoded.append(x)
    candidates = _candidates(train, {})
    signs = unlabelled.seen_gains(candidates.free, mirrored, candidates.alike_in_colour)
    told = unlabelled.verdict_without_labels(candidates.start, candidates.free, mirrored, candidates.alike_in_colour)
    seen = Observations(tuple(families), np.array(accuracies), np.eye(len(families)))
    by_test = FamilyModel(candidates.start, candidates.free, seen, signs)
    mean = dict(zip(families, by_test.expected(families), strict=True))
    some, agree = slice(args.pilots), not args.no_agreement
    families, encoded = families[some], encoded[some]
    made = []
    for draw in range(args.draws):
        generator = np.random.default_rng(draw)
        classes = [np.flatnonzero(train.labels == c) for c in np.unique(train.labels)]
        rows = np.sort(np.concatenate([generator.permutation(c)[: args.labels] for c in classes]))
        judged = [leave_one_out(x[rows], train.labels[rows]) for x in encoded]
        others = generator.permutation(np.setdiff1d(np.arange(len(train)), rows))[:NAMED]
        chances = [class_chances(x[rows], train.labels[rows], x[others]) for x in encoded] if agree else []
        agreed = agreements(families, chances) if agree else None
        seen = observed(families, judged, agreed, weight(train.labels[rows], len(others)))
        choice = verdict(FamilyModel(candidates.start, candidates.free, seen, signs), families, told.family)
        made.append(max(mean.values()) - mean[choice.family])
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the sets, as NAME/{train,test}/CLASS")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the study")
    parser.add_argument("--labels", type=int, default=10, help="a class")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--pilots", type=int, help="choose among the first so many of the pilots, instead of all")
    parser.add_argument("--no-agreement", action="store_true", help="judge pilots by the labelled images alone")
    args = parser.parse_args()
    for study in sorted(args.out.glob("*/choice/plan.json")):
        name = study.parents[1].name
        made = regrets(args.data / name, args.out / name, args)
        print(f"{name}: {statistics.fmean(made):.1f} points on average, {max(made):.1f} at worst", flush=True)


if __name__ == "__main__":
    main()
