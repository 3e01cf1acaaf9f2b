"""Everything that can be said of an encoder on two sets of images, as plain numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from coviews.errors import CoviewsError
from coviews.evaluation.crops import AREA, random_crops
from coviews.evaluation.features import Features, features
from coviews.evaluation.finetune import finetune as finetune_on
from coviews.evaluation.knn import TEMPERATURE, K, knn_predict, usable_k
from coviews.evaluation.linear import Diverged, fast_probe, paper_probe
from coviews.evaluation.quality import EXACT, alignment, feature_spread, rankme, uniformity
from coviews.evaluation.results import Labels, accuracy, check_label_array, check_labels, confusion, per_class
from coviews.evaluation.splits import balanced_share
from coviews.images import Images
from coviews.learners.frozen import device_of, seeded

PAIRS = 500  # images of which two crops are compared
PIXELS = 16  # the side that images have as a baseline: 32 is no better on CIFAR-10, and ten times as slow
HELD_OUT = 0.2  # of the training images, where there is no test set


class Labelled(Protocol):
    """Images with what is known about them, such as an `ImageSet`."""

    @property
    def images(self) -> Images:
        """(N, H, W, C)."""
        ...

    @property
    def labels(self) -> Labels | None:
        """(N,), indices into classes."""
        ...

    @property
    def classes(self) -> Sequence[str] | None:
        """The names."""
        ...


def evaluate(
    encoder: nn.Module,
    train: Labelled,
    test: Labelled | None = None,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    k: int = K,
    temperature: float = TEMPERATURE,
    seed: int = 0,
    untrained: Callable[[], nn.Module] | None = None,
    pixels: bool = True,
    paper: bool = False,
    finetune: Sequence[float] = (),
    crop: tuple[float, float] | None = AREA,
    flip: float = 0.5,
    batch: int = 256,
    device: torch.device | str | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Judge an encoder: with labels by kNN and linear probes, always by its features' quality. It stays as it is.

    The result holds plain numbers, texts, lists and dicts; two calls give the same. Accuracies are shares in 0..1,
    quality is of the training images, and `missing` tells what could not be measured and why.

    Args:
        encoder: gives a vector for each image.
        train: the images whose labels may be learned from.
        test: those that are judged; if none, a fifth of the training images, chosen by the seed.
        mean: of each channel in 0..1, as in training.
        std: the same for the standard deviation.
        k: neighbours that vote, fewer on small sets (see `usable_k`).
        temperature: of the vote.
        seed: for all that is drawn.
        untrained: makes the same encoder with fresh weights, as a baseline: passes of all images once more.
        pixels: the pixels themselves as a baseline.
        paper: the paper's probe as well: a hundred passes of the training images.
        finetune: fractions of the labels, such as 0.01 and 0.1, to fine-tune a copy with.
        crop: of the two views whose alignment is measured, and of fine-tuning, as in training.
        flip: the same for their probability of a flip.
        batch: images that pass the encoder at once.
        device: where the encoder is; by default where its first parameter is.
        progress: show progress bars where it takes long.
    """
    if not all(0 < fraction <= 1 for fraction in finetune):
        raise CoviewsError(f"fractions of the labels must be above 0 and at most 1, not {list(finetune)}")
    task = _task(train, test, seed)  # first: what is wrong with the labels should be told before the work
    where = device_of(encoder, device)
    take = partial(features, batch=batch, device=where, progress=progress)
    ours = _taken(lambda images: take(encoder, images, mean, std), train, test)
    result: dict[str, Any] = {
        "images": {"train": len(train.images), "test": 0 if test is None else len(test.images)},
        "features": ours.train.shape[1],
        "quality": _quality(ours.train),
        "missing": [],
        "notes": [],
    }
    pair = _two_views(train.images, np.random.default_rng([seed, 1]), crop, flip)
    z1, z2 = (take(encoder, pair[:, view], mean, std) for view in (0, 1))
    result["quality"]["alignment"] = alignment(z1, z2)
    if len(ours.train) > EXACT:
        result["notes"].append(f"uniformity is of {EXACT} training images, chosen at random")

    if isinstance(task, str):
        names = ["knn", "linear", "per_class", "confusion", "baselines"]
        names += ["paper"] * paper + ["finetune"] * bool(finetune)
        result["missing"] = [{"name": name, "reason": task} for name in names]
        return result
    judge = partial(_judge, task=task, k=usable_k(k, len(task.train)), temperature=temperature, seed=seed)
    result["images"] |= {"train": len(task.train), "test": len(task.test), "left_out": int((task.truth < 0).sum())}
    if test is None:
        result["notes"].append(f"there is no test set: {len(task.test)} training images are held out as one")
    result["classes"] = list(task.classes)
    found, predictions = judge(ours)
    result |= found | _by_class(task, predictions)

    baselines: dict[str, Any] = {}
    if untrained is not None:
        with seeded(seed, where):
            fresh = untrained().to(where)
        plain = _taken(lambda images: take(fresh, images, mean, std), train, test)
        baselines["untrained"] = judge(plain)[0] | {"quality": _quality(plain.train)}
    if pixels:
        baselines["pixels"] = judge(_standardised(_taken(pixel_features, train, test)))[0]
    result["baselines"] = baselines

    if not paper and not finetune:
        return result
    both = (train.images[task.train], train.images[task.test]) if test is None else (train.images, test.images)
    sets = (both[0], task.labels, both[1], task.truth, mean, std)
    common: dict[str, Any] = {"classes": len(task.classes), "seed": seed, "device": where, "progress": progress}
    name = "paper"
    try:
        if paper:
            probe = paper_probe(encoder, *sets, encoder_batch=batch, **common)
            heads = {"accuracies": list(probe.accuracies), "std": probe.std}
            result["paper"] = {"accuracy": probe.mean, **heads, "loss": probe.loss}
        name = "finetune"
        for fraction in finetune:
            tuned = finetune_on(encoder, *sets, fraction=fraction, crop=crop, flip=flip, **common)
            one = {"accuracy": tuned.accuracy, "images": tuned.images}
            result.setdefault("finetune", {})[f"{100 * fraction:g}%"] = one
    except Diverged as error:  # the other results are worth keeping
        result["missing"].append({"name": name, "reason": str(error)})
    return result


@dataclass(frozen=True, eq=False)
class _Task:
    """Which images are learned from, which are judged, and what is true."""

    train: NDArray[np.int64]  # indices into the training set
    test: NDArray[np.int64]  # indices into the test set; without one, into the training set
    labels: Labels  # of train
    truth: Labels  # of test, -1 for a class that training lacks
    classes: tuple[str, ...]


def _task(train: Labelled, test: Labelled | None, seed: int) -> _Task | str:
    """The task, or why there is none."""
    if train.labels is None:
        return "needs labels: the training images have none (a folder for each class gives them)"
    if test is not None and test.labels is None:
        return "needs labels: the test images have none (a folder for each class gives them)"
    known = None if train.classes is None else len(train.classes)
    labels = check_label_array(train.labels, len(train.images), known, "training")
    classes = tuple(str(c) for c in (range(int(labels.max()) + 1) if train.classes is None else train.classes))
    if len(np.unique(labels)) < 2:
        return "needs labels of two classes at least: all training images are of one"
    everything = np.arange(len(labels))
    if test is not None:
        assert test.labels is not None
        truth = check_labels(labels, train.classes, test.labels, test.classes)
        if len(truth) != len(test.images):
            raise CoviewsError(f"there are {len(truth)} test labels for {len(test.images)} images: one each is needed")
        return _Task(everything, np.arange(len(truth)), labels, truth, classes)
    held = balanced_share(labels, HELD_OUT, np.random.default_rng([seed, 0]))
    kept = np.setdiff1d(everything, held)
    return _Task(kept, held, labels[kept], check_labels(labels[kept], classes, labels[held], classes), classes)


@dataclass(frozen=True, eq=False)
class _Taken:
    """The features of both sets, taken once."""

    train: Features
    test: Features | None


def _taken(take: Callable[[Images], Features], train: Labelled, test: Labelled | None) -> _Taken:
    return _Taken(take(train.images), None if test is None else take(test.images))


def _judge(taken: _Taken, *, task: _Task, k: int, temperature: float, seed: int) -> tuple[dict[str, Any], Any]:
    """kNN and the fast probe: their results, and their predictions."""
    bank, queries = taken.train[task.train], (taken.train if taken.test is None else taken.test)[task.test]
    count = len(task.classes)
    near = knn_predict(bank, task.labels, queries, k=k, temperature=temperature, classes=count)
    probe = fast_probe(bank, task.labels, queries, classes=count, seed=seed)
    found = {
        "knn": {"accuracy": accuracy(task.truth, near), "k": k, "temperature": temperature},
        "linear": {"accuracy": accuracy(task.truth, probe.predictions), "strength": probe.strength},
    }
    return found, {"knn": near, "linear": probe.predictions}


def _by_class(task: _Task, predictions: dict[str, Labels]) -> dict[str, Any]:
    """The accuracy of each class by either classifier, and the linear one's confusion matrix."""
    matrices = {name: confusion(task.truth, p, len(task.classes)) for name, p in predictions.items()}
    shares = {name: per_class(matrix) for name, matrix in matrices.items()}
    images = matrices["linear"].sum(1)
    rows = [
        {"class": name, "images": int(images[i])}
        | {kind: float(share[i]) if images[i] else None for kind, share in shares.items()}
        for i, name in enumerate(task.classes)
    ]
    return {"per_class": rows, "confusion": matrices["linear"].tolist()}


def _quality(found: Features) -> dict[str, float]:
    return {"rankme": rankme(found), "spread": feature_spread(found), "uniformity": uniformity(found)}


def _two_views(images: Images, generator: np.random.Generator, crop: Any, flip: float) -> Images:
    """Two crops (n, 2, H, W, C) of each of some images."""
    chosen = np.sort(generator.choice(len(images), min(PAIRS, len(images)), replace=False))
    return random_crops(images[chosen], generator, area=crop, flip=flip, views=2)


def pixel_features(images: Images) -> Features:
    """The pixels of images, averaged down to 16 x 16 where they are larger (N, D): what needs no encoder."""
    size = (min(PIXELS, images.shape[1]), min(PIXELS, images.shape[2]))
    parts = []
    for start in range(0, len(images), 1024):
        part = np.array(images[start : start + 1024])
        tensor = torch.from_numpy(part.reshape(*part.shape[:3], -1)).permute(0, 3, 1, 2).float()
        parts.append(F.adaptive_avg_pool2d(tensor, size).flatten(1).numpy())
    return np.concatenate(parts)


def _standardised(taken: _Taken) -> _Taken:
    """By the training set's mean and deviation: brightness would else be all that a cosine sees."""
    mean, scale = taken.train.mean(0), 1 / np.maximum(taken.train.std(0), 1e-3)
    return _Taken((taken.train - mean) * scale, None if taken.test is None else (taken.test - mean) * scale)
