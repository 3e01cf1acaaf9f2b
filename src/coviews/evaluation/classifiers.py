"""The measures that classify features: each gives the class of every test image, and what the results should hold."""

from dataclasses import dataclass
from typing import Any

from coviews.encoders.features import Features
from coviews.evaluation.crop_model import CropModel
from coviews.evaluation.knn import knn_predict
from coviews.evaluation.labels import Labels
from coviews.evaluation.linear import crop_probe, fast_probe


@dataclass(frozen=True, eq=False)
class LabelledFeatures:
    """What the function of a measure with labels is given."""

    train: Features  # (N, D)
    labels: Labels  # (N,), 0..classes - 1
    test: Features  # (M, D)
    classes: int
    crops: CropModel  # what random crops do to these features
    k: int  # neighbours that vote in kNN
    temperature: float
    seed: int


def knn_classes(data: LabelledFeatures) -> tuple[Labels, dict[str, Any]]:
    """By a vote of the nearest training images."""
    how: dict[str, Any] = {"k": data.k, "temperature": data.temperature}
    return knn_predict(data.train, data.labels, data.test, classes=data.classes, **how), how


def linear_classes(data: LabelledFeatures) -> tuple[Labels, dict[str, Any]]:
    """By a linear probe that learns from random crops."""
    probe = crop_probe(data.crops, data.train, data.labels, data.test, classes=data.classes, seed=data.seed)
    return probe.predictions, {"strength": probe.strength}


def whole_classes(data: LabelledFeatures) -> tuple[Labels, dict[str, Any]]:
    """By a linear probe that learns from whole images."""
    probe = fast_probe(data.train, data.labels, data.test, classes=data.classes, seed=data.seed)
    return probe.predictions, {"strength": probe.strength}
