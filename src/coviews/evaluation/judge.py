"""Everything that can be said of an encoder on two sets of images, as plain numbers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from coviews.console.progress import waiting
from coviews.encoders.features import Features, features
from coviews.encoders.frozen import device_of, seeded
from coviews.errors import CoviewsError
from coviews.evaluation.crop_model import Scatter
from coviews.evaluation.crops import AREA, random_crops
from coviews.evaluation.finetune import finetune as finetune_on
from coviews.evaluation.knn import SHARE, TEMPERATURE, K, knn_predict, usable_k
from coviews.evaluation.labels import Labels, accuracy, confusion, per_class
from coviews.evaluation.linear import Diverged, crop_probe, fast_probe, paper_probe
from coviews.evaluation.quality import EXACT, alignment, feature_spread, rankme, uniformity
from coviews.evaluation.task import Labelled, Task, make_task
from coviews.ops.images import Images

PAIRS = 500  # images of which two views are compared, and two crops tell a probe what crops do to features
PIXELS = 16  # the side that images have as a baseline: 32 is no better on CIFAR-10, and ten times as slow


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
    whole: bool = False,
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
        whole: the linear probe that learns from whole images as well, with the penalty that fits.
        paper: the paper's probe as well: a hundred passes of the training images.
        finetune: fractions of the labels, such as 0.01 and 0.1, to fine-tune a copy with, and the untrained one.
        crop: of the two views whose alignment is measured, and of fine-tuning, as in training.
        flip: the same for their probability of a flip.
        batch: images that pass the encoder at once.
        device: where the encoder is; by default where its first parameter is.
        progress: show progress where it takes long.
    """
    check_measures(k, temperature, finetune)
    task = make_task(train, test, seed)  # first: what is wrong with the labels should be told before the work
    where = device_of(encoder, device)
    generator = np.random.default_rng([seed, 1])
    few = np.sort(generator.choice(len(train.images), min(PAIRS, len(train.images)), replace=False))
    pair = random_crops(train.images[few], generator, area=crop, flip=flip, views=2)
    crops = None
    if not isinstance(task, str):
        known = few if test is not None else few[np.isin(few, task.train)]  # nothing of what is held out
        crops = _Crops(known, random_crops(train.images[known], generator, views=2))
    seen = partial(
        _seen, train=train, test=test, pair=pair, crops=crops,
        mean=mean, std=std, batch=batch, device=where, progress=progress,
    )  # fmt: skip
    ours = seen(encoder, "encoder")
    result: dict[str, Any] = {
        "images": {"train": len(train.images), "test": 0 if test is None else len(test.images)},
        "features": ours.train.shape[1],
        "quality": ours.quality,
        "baselines": {},
        "missing": [],
        "notes": [],
    }
    if len(ours.train) > EXACT:
        result["notes"].append(f"uniformity is of {EXACT:,} training images, chosen at random")
    fresh = plain = None
    if untrained is not None:
        with seeded(seed, where):
            fresh = untrained().to(where)
        plain = seen(fresh, "untrained encoder")
        result["baselines"]["untrained"] = {"quality": plain.quality}
    if isinstance(task, str):
        names = ["knn", "linear", "per_class", "confusion", *["pixels"] * pixels]
        names += ["whole"] * whole + ["paper"] * paper + ["finetune"] * bool(finetune)
        result["missing"] = [{"name": name, "reason": task} for name in names]
        return result

    used = usable_k(k, len(task.train))
    result["images"] |= {"train": len(task.train), "test": len(task.test), "left_out": int((task.truth < 0).sum())}
    result["classes"] = list(task.classes)
    if test is None:
        result["notes"].append(f"there is no test set: {len(task.test):,} training images are held out as one")
    if used < k:
        why = f"at most one for every {SHARE} of {len(task.train):,} training images"
        result["notes"].append(f"kNN asks {used} neighbour{'s' * (used > 1)}, not {k}: {why}")
    judge = partial(_judge, task=task, k=used, temperature=temperature, whole=whole, seed=seed, progress=progress)
    found, predictions = judge(ours, "encoder")
    result |= found | _by_class(task, predictions)
    if plain is not None:
        result["baselines"]["untrained"] |= judge(plain, "untrained encoder")[0]
    if pixels and crops is not None:
        result["baselines"]["pixels"] = judge(_pixels(train, test, crops), "raw pixels")[0]

    both = (train.images, train.images if test is None else test.images)
    if test is None and (paper or finetune):
        both = (train.images[task.train], train.images[task.test])  # a copy
    sets = (both[0], task.labels, both[1], task.truth, mean, std)
    common: dict[str, Any] = {"classes": len(task.classes), "seed": seed, "device": where, "progress": progress}

    def tune(module: nn.Module, fraction: float, name: str) -> dict[str, Any]:
        title = f"{name}: fine-tuning with {100 * fraction:g} % of the labels"
        tuned = finetune_on(module, *sets, fraction=fraction, crop=crop, flip=flip, title=title, **common)
        return {"accuracy": tuned.accuracy, "images": tuned.images}

    def kept(name: str, measure: Callable[[], dict[str, Any]], into: dict[str, Any], key: str) -> None:
        try:
            into[key] = measure()
        except Diverged as error:  # the other results are worth keeping
            result["missing"].append({"name": name, "reason": str(error)})

    if paper:
        kept("paper", lambda: _paper(paper_probe(encoder, *sets, encoder_batch=batch, **common)), result, "paper")
    for fraction in finetune:
        share = f"{100 * fraction:g}%"
        kept(f"finetune {share}", partial(tune, encoder, fraction, "encoder"), result.setdefault("finetune", {}), share)
        if fresh is not None:
            into = result["baselines"]["untrained"].setdefault("finetune", {})
            name = f"finetune {share} of the untrained encoder"
            kept(name, partial(tune, fresh, fraction, "untrained encoder"), into, share)
    return result


def check_measures(k: int, temperature: float, finetune: Sequence[float]) -> None:
    """An error if it cannot be measured like that."""
    if k < 1:
        raise CoviewsError(f"k must be at least 1 neighbour, not {k}")
    if not 0 < temperature < math.inf:
        raise CoviewsError(f"the temperature must be above 0, not {temperature}")
    if not all(0 < fraction <= 1 for fraction in finetune):
        raise CoviewsError(f"fractions of the labels must be above 0 and at most 1, not {list(finetune)}")


@dataclass(frozen=True, eq=False)
class _Crops:
    """Two random crops of each of some training images."""

    of: NDArray[np.int64]  # (M,), indices into the training images
    images: Images  # (M, 2, H, W, C)

    def scatter(self, bank: Features, take: Callable[[Images], Features]) -> Scatter:
        """What they do to features, given those of all training images and how features are taken."""
        return Scatter.of(np.tile(bank[self.of], (2, 1)), np.concatenate([take(self.images[:, i]) for i in (0, 1)]))


@dataclass(frozen=True, eq=False)
class _Seen:
    """The features of both sets, taken once, what crops do to them, and their quality."""

    train: Features
    test: Features | None
    scatter: Scatter | None  # needed by probes alone
    quality: dict[str, float]


def _seen(
    encoder: nn.Module,
    name: str,
    *,
    train: Labelled,
    test: Labelled | None,
    pair: Images,
    crops: _Crops | None,
    mean: Sequence[float],
    std: Sequence[float],
    progress: bool,
    **how: Any,
) -> _Seen:
    def take(images: Images, which: str) -> Features:
        return features(encoder, images, mean, std, title=f"{name}: {which}", progress=progress, **how)

    bank = take(train.images, "features of the training images")
    queries = None if test is None else take(test.images, "features of the test images")
    z1, z2 = (take(pair[:, view], "features of two views") for view in (0, 1))
    scatter = None if crops is None else crops.scatter(bank, partial(take, which="features of random crops"))
    with waiting(f"{name}: quality without labels" if progress else ""):
        quality = {"rankme": rankme(bank), "spread": feature_spread(bank), "uniformity": uniformity(bank)}
    return _Seen(bank, queries, scatter, quality | {"alignment": alignment(z1, z2)})


def _judge(
    seen: _Seen, name: str, *, task: Task, k: int, temperature: float, whole: bool, seed: int, progress: bool
) -> tuple[dict[str, Any], dict[str, Labels]]:
    """kNN and the fast probes: their results, and the predictions of the first two."""
    assert seen.scatter is not None  # there are labels
    bank, queries = seen.train[task.train], (seen.train if seen.test is None else seen.test)[task.test]
    count = len(task.classes)
    with waiting(f"{name}: kNN" if progress else ""):
        near = knn_predict(bank, task.labels, queries, k=k, temperature=temperature, classes=count)
    with waiting(f"{name}: linear probe" if progress else ""):
        probe = crop_probe(seen.scatter, bank, task.labels, queries, classes=count, seed=seed)
    found = {
        "knn": {"accuracy": accuracy(task.truth, near), "k": k, "temperature": temperature},
        "linear": {"accuracy": accuracy(task.truth, probe.predictions), "strength": probe.strength},
    }
    if whole:
        with waiting(f"{name}: linear probe of whole images" if progress else ""):
            best = fast_probe(bank, task.labels, queries, classes=count, seed=seed)
        found["whole"] = {"accuracy": accuracy(task.truth, best.predictions), "strength": best.strength}
    return found, {"knn": near, "linear": probe.predictions}


def _paper(probe: Any) -> dict[str, Any]:
    return {"accuracy": probe.mean, "std": probe.std, "accuracies": list(probe.accuracies), "loss": probe.loss}


def _by_class(task: Task, predictions: dict[str, Labels]) -> dict[str, Any]:
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


def pixel_features(images: Images) -> Features:
    """The pixels of images, averaged down to 16 x 16 where they are larger (N, D): what needs no encoder."""
    size = (min(PIXELS, images.shape[1]), min(PIXELS, images.shape[2]))
    parts = []
    for start in range(0, len(images), 1024):
        part = np.array(images[start : start + 1024])
        tensor = torch.from_numpy(part.reshape(*part.shape[:3], -1)).permute(0, 3, 1, 2).float()
        parts.append(F.adaptive_avg_pool2d(tensor, size).flatten(1).numpy())
    return np.concatenate(parts)


def _pixels(train: Labelled, test: Labelled | None, crops: _Crops) -> _Seen:
    """Standardised by the training set's mean and deviation: brightness would else be all that a cosine sees."""
    bank = pixel_features(train.images)
    mean, scale = bank.mean(0), 1 / np.maximum(bank.std(0), 1e-3)

    def take(images: Images) -> Features:
        return (pixel_features(images) - mean) * scale

    bank = (bank - mean) * scale
    return _Seen(bank, None if test is None else take(test.images), crops.scatter(bank, take), {})
