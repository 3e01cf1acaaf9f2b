"""Every measure of an encoder, one row each: JSON, terminal, page, comparison and docs derive from this table."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Measure:
    """One measure.

    Without labels, the function is given features (N, D), or with `two_views` the features of two views of the same
    images, or with `turned` the features of the same images by 0 to 3 quarter turns, and returns a number. With labels,
    it is given `classifiers.LabelledFeatures` and returns the predicted class of each test image (M,), and a dict of
    what the results should hold besides the accuracy. Without a function, the measure needs the encoder itself, and
    `judge` computes it.
    """

    name: str  # in JSON
    title: str  # in tables and charts
    unit: str  # "%" for an accuracy, which JSON has as a share in 0..1
    function: Callable[..., Any] | None
    needs_labels: bool
    higher_is_better: bool
    meaning: str
    optional: bool = False  # measured only if the option of this name asks for it
    two_views: bool = False
    turned: bool = False  # only of square images

    @property
    def heading(self) -> str:
        """The title at the beginning of a line: "Linear probe", but "kNN"."""
        capitalise = self.title.split(" ")[0].islower()
        return self.title[:1].upper() + self.title[1:] if capitalise else self.title

    @property
    def title_and_unit(self) -> str:
        """Such as "linear probe in %"."""
        return f"{self.title} in {self.unit}" if self.unit else self.title


def _late(module: str, name: str) -> Callable[..., Any]:
    """A function of this room, imported when it is called: a report needs the table, but not torch."""

    def function(*inputs: Any) -> Any:
        return getattr(importlib.import_module(f"coviews.evaluation.{module}"), name)(*inputs)

    return function


def _accuracy(name: str, title: str, function: Callable[..., Any] | None, meaning: str, **more: Any) -> Measure:
    return Measure(name, title, "%", function, needs_labels=True, higher_is_better=True, meaning=meaning, **more)


def _quality(
    name: str, title: str, function: Callable[..., float], meaning: str, *, higher_is_better: bool, **more: Any
) -> Measure:
    return Measure(
        name, title, "", function, needs_labels=False, higher_is_better=higher_is_better, meaning=meaning, **more
    )


MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        _accuracy("knn", "kNN", _late("classifiers", "knn_classes"),
                  "accuracy of a vote of the nearest training images; nothing is learned"),
        _accuracy("linear", "linear probe", _late("classifiers", "linear_classes"),
                  "accuracy of a linear classifier that learns from random crops"),
        _accuracy("whole", "probe of whole images", _late("classifiers", "whole_classes"),
                  "accuracy of a linear classifier that learns from whole images", optional=True),
        _accuracy("paper", "paper's probe", None,
                  "accuracy of a linear classifier, trained by the paper's protocol", optional=True),
        _accuracy("finetune", "fine-tuning", None,
                  "accuracy of a copy of the encoder, trained with a share of the labels", optional=True),
        _quality("rankme", "RankMe", _late("quality", "rankme"),
                 "directions in use, at most one a feature; more is better, 1 is a collapse", higher_is_better=True),
        _quality("spread", "spread", _late("quality", "feature_spread"),
                 "1 if features point everywhere, 0 if all images look alike", higher_is_better=True),
        _quality("alignment", "alignment", _late("quality", "alignment"),
                 "distance of two crops of an image, 0 to 4; low is good if uniformity is too",
                 higher_is_better=False, two_views=True),
        _quality("uniformity", "uniformity", _late("quality", "uniformity"),
                 "how evenly features fill the sphere; low is good: 0 a collapse, -4 the best",
                 higher_is_better=False),
        _quality("rotation", "rotation probe", _late("turns", "rotation_probe"),
                 "share of quarter turns that a linear classifier can tell; 0.25 is chance",
                 higher_is_better=True, turned=True),
    )
}  # fmt: skip

MAIN = "linear"  # the measure that encoders are compared by
BASELINES = {"untrained": "untrained encoder", "pixels": "raw pixels"}  # titles of what is measured beside the encoder


def accuracy_measures(*, main_first: bool = False) -> list[Measure]:
    """The measures that need labels, in the order of the table or with the main one first."""
    measures = [measure for measure in MEASURES.values() if measure.needs_labels]
    return sorted(measures, key=lambda measure: measure.name != MAIN) if main_first else measures


def class_measures(*, main_first: bool = False) -> list[Measure]:
    """The measures with labels that are always computed: they have an accuracy for each class as well."""
    return [m for m in accuracy_measures(main_first=main_first) if not m.optional and m.function is not None]


def quality_measures() -> list[Measure]:
    """The measures that need no labels."""
    return [measure for measure in MEASURES.values() if not measure.needs_labels]


def title_of(name: str) -> str:
    """The title of a measure, a baseline or another part of the results; an unknown name stays as it is."""
    parts = {"per_class": "accuracy by class", "confusion": "confusion matrix", **BASELINES}
    return MEASURES[name].title if name in MEASURES else parts.get(name, name)


def measures_table() -> tuple[list[str], list[list[str]]]:
    """All measures as the docs list them: the heads of the columns, and the rows."""
    heads = ["measure", "in JSON", "needs labels", "better", "meaning"]
    rows = [
        [
            m.title_and_unit, m.name, "yes" if m.needs_labels else "no", "higher" if m.higher_is_better else "lower",
            m.meaning + (f" (--{m.name})" if m.optional else ""),
        ]
        for m in MEASURES.values()
    ]  # fmt: skip
    return heads, rows
