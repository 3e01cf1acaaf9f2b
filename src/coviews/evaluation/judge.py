"""All measures of an encoder on two sets of images, as plain numbers."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from coviews.console.progress import waiting
from coviews.encoders.features import Features
from coviews.encoders.frozen import device_of, seeded
from coviews.evaluation.classifiers import LabelledFeatures
from coviews.evaluation.feature_sets import FeatureSets, draw_images, encoder_features, standardised_pixels
from coviews.evaluation.finetune import finetune
from coviews.evaluation.knn import FEW, SHARE, usable_k
from coviews.evaluation.labels import Labels, accuracy, confusion, per_class
from coviews.evaluation.linear import Diverged, paper_probe
from coviews.evaluation.measures import MAIN, accuracy_measures, class_measures, quality_measures
from coviews.evaluation.options import EvaluateOptions, K
from coviews.evaluation.quality import EXACT
from coviews.evaluation.task import Labelled, Task, make_task
from coviews.ops.engine import AREA


def judge(
    encoder: nn.Module,
    train: Labelled,
    test: Labelled | None,
    options: EvaluateOptions,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    untrained: Callable[[], nn.Module] | None = None,
    crop: tuple[float, float] | None = AREA,
    flip: float = 0.5,
    device: torch.device | str | None = None,
) -> dict[str, Any]:
    """Compute all measures; the encoder stays as it is.

    The result holds plain numbers, texts, lists and dicts; two calls give the same. Accuracies are shares in 0..1,
    quality is that of the training images, and `missing` lists what could not be measured and why.

    Args:
        encoder: gives a vector for each image.
        train: the images whose labels may be learned from.
        test: the images to judge; if none, a fifth of the training images, drawn with the seed.
        options: what is measured; those of loading images and encoder do not matter here.
        mean: of each channel in 0..1, as in training.
        std: the same for the standard deviation.
        untrained: makes the same encoder with fresh weights, as a baseline.
        crop: of the two views whose alignment is measured, and of fine-tuning, as in training.
        flip: the same for their probability of a flip.
        device: where the encoder is; by default where its first parameter is.
    """
    task = make_task(train, test, options.seed)  # first: errors in the labels should be raised before the work
    where = device_of(encoder, device)
    images = draw_images(train, test, task, seed=options.seed, crop=crop, flip=flip)
    take = partial(
        encoder_features, images=images, mean=mean, std=std, batch=options.batch_size, device=where,
        progress=options.progress,
    )  # fmt: skip
    features = take(encoder, "encoder")
    results: dict[str, Any] = {
        "images": {"train": len(train.images), "test": 0 if test is None else len(test.images)},
        "features": features.train.shape[1],
        "quality": _quality(features, "encoder", options.progress),
        "baselines": {},
        "missing": [],
        "notes": [],
    }
    if features.turned is None:
        reason = "the images are not square, so that their shape gives a quarter turn away"
        results["missing"] = [{"name": m.name, "reason": reason} for m in quality_measures() if m.turned]
    if len(features.train) > EXACT:
        results["notes"].append(f"uniformity is of {EXACT:,} training images, chosen at random")
    fresh = fresh_features = None
    if untrained is not None:
        with seeded(options.seed, where):
            fresh = untrained().to(where)
        fresh_features = take(fresh, "untrained encoder")
        quality = _quality(fresh_features, "untrained encoder", options.progress)
        results["baselines"]["untrained"] = {"quality": quality}
    if isinstance(task, str):
        results["missing"] += [{"name": name, "reason": task} for name in _needing_labels(options)]
        return results

    k = usable_k(options.k, len(task.train))
    results["images"] |= {"train": len(task.train), "test": len(task.test), "left_out": int((task.truth < 0).sum())}
    results["classes"] = list(task.classes)
    if test is None:
        results["notes"].append(f"there is no test set: {len(task.test):,} training images are held out as one")
    if k < (options.k or K):
        wanted = "" if options.k is None else f", not {options.k}"
        why = f"{FEW} in small sets, and at most" if options.k is None else "at most"
        neighbours = f"{k} neighbour{'s' * (k > 1)}{wanted}"
        results["notes"].append(
            f"kNN asks {neighbours}: {why} one for every {SHARE} of {len(task.train):,} training images"
        )
    classify = partial(_classify, task=task, k=k, options=options)
    accuracies, predictions = classify(features, "encoder")
    results |= accuracies | _by_class(task, predictions)
    if fresh_features is not None:
        results["baselines"]["untrained"] |= classify(fresh_features, "untrained encoder")[0]
    if options.baselines:
        results["baselines"]["pixels"] = classify(standardised_pixels(images), "raw pixels")[0]
    if not (options.paper or options.fractions):
        return results

    # the measures that train on images rather than on features
    train_images, test_images = train.images, train.images if test is None else test.images
    if test is None:
        train_images, test_images = train.images[task.train], train.images[task.test]  # copies
    data = (train_images, task.labels, test_images, task.truth, mean, std)
    common: dict[str, Any] = {
        "classes": len(task.classes), "seed": options.seed, "device": where, "progress": options.progress,
    }  # fmt: skip

    def probe() -> dict[str, Any]:
        paper = paper_probe(encoder, *data, encoder_batch=options.batch_size, **common)
        return {"accuracy": paper.mean, "std": paper.std, "accuracies": list(paper.accuracies), "loss": paper.loss}

    def tune(module: nn.Module, fraction: float, name: str) -> dict[str, Any]:
        title = f"{name}: fine-tuning with {100 * fraction:g} % of the labels"
        tuned = finetune(module, *data, fraction=fraction, crop=crop, flip=flip, title=title, **common)
        return {"accuracy": tuned.accuracy, "images": tuned.images}

    def add(target: dict[str, Any], key: str, measure: Callable[[], dict[str, Any]], name: str) -> None:
        try:
            target[key] = measure()
        except Diverged as error:  # the other results are still good
            results["missing"].append({"name": name, "reason": str(error)})

    if options.paper:
        add(results, "paper", probe, "paper")
    for fraction in options.fractions:
        share = f"{100 * fraction:g}%"
        shares = results.setdefault("finetune", {})
        add(shares, share, partial(tune, encoder, fraction, "encoder"), f"finetune {share}")
        if fresh is not None:
            shares = results["baselines"]["untrained"].setdefault("finetune", {})
            name = f"finetune {share} of the untrained encoder"
            add(shares, share, partial(tune, fresh, fraction, "untrained encoder"), name)
    return results


def _needing_labels(options: EvaluateOptions) -> list[str]:
    """The names of what is asked for and needs labels."""
    names = [measure.name for measure in accuracy_measures() if not measure.optional]
    names += ["per_class", "confusion"] + ["pixels"] * options.baselines
    return names + [m.name for m in accuracy_measures() if m.optional and getattr(options, m.name)]


def _quality(features: FeatureSets, name: str, progress: bool) -> dict[str, float]:
    """All measures that need no labels."""
    assert features.views is not None
    quality = {}
    with waiting(f"{name}: quality without labels" if progress else ""):
        for measure in sorted(quality_measures(), key=lambda m: (m.two_views, m.turned)):
            assert measure.function is not None
            inputs: tuple[Features, ...] = features.views if measure.two_views else (features.train,)
            if measure.turned:
                if features.turned is None:
                    continue
                inputs = features.turned
            quality[measure.name] = measure.function(*inputs)
    return quality


def _classify(
    features: FeatureSets, name: str, *, task: Task, k: int, options: EvaluateOptions
) -> tuple[dict[str, Any], dict[str, Labels]]:
    """All measures that classify the test images by features: their results, and the predictions of each."""
    assert features.crops is not None  # there are labels
    data = LabelledFeatures(
        train=features.train[task.train],
        labels=task.labels,
        test=(features.train if features.test is None else features.test)[task.test],
        classes=len(task.classes),
        crops=features.crops,
        k=k,
        temperature=options.temperature,
        seed=options.seed,
    )
    results, predictions = {}, {}
    for measure in accuracy_measures():
        if measure.function is None or (measure.optional and not getattr(options, measure.name)):
            continue
        with waiting(f"{name}: {measure.title}" if options.progress else ""):
            predictions[measure.name], more = measure.function(data)
        results[measure.name] = {"accuracy": accuracy(task.truth, predictions[measure.name]), **more}
    return results, predictions


def _by_class(task: Task, predictions: dict[str, Labels]) -> dict[str, Any]:
    """The accuracy of each class by each measure that is always computed, and the main one's confusion matrix."""
    matrices = {m.name: confusion(task.truth, predictions[m.name], len(task.classes)) for m in class_measures()}
    shares = {name: per_class(matrix) for name, matrix in matrices.items()}
    images = matrices[MAIN].sum(1)
    rows = [
        {"class": name, "images": int(images[i])}
        | {measure: float(share[i]) if images[i] else None for measure, share in shares.items()}
        for i, name in enumerate(task.classes)
    ]
    return {"per_class": rows, "confusion": matrices[MAIN].tolist()}
