"""`check`: is a training working? A verdict without labels, from what the run recorded and from its encoder."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from coviews.console.progress import waiting
from coviews.data.load import ImageSet, load_images
from coviews.encoders.architectures import make_encoder
from coviews.encoders.features import Features, features
from coviews.encoders.frozen import device_of, seeded
from coviews.encoders.images import own_data, reading_of
from coviews.encoders.open import open_encoder
from coviews.evaluation.quality import feature_spread, rankme
from coviews.files.atomic import write_whole
from coviews.methods.losses import chance_loss
from coviews.policies.fixed import fitted_source
from coviews.policies.learned import load_policy
from coviews.policies.subpolicy import ViewSource
from coviews.report.gallery import make_pairs
from coviews.report.record import CHECK, number
from coviews.runs.folder import Run, Start
from coviews.runs.settings import PretrainSettings
from coviews.training.monitor import COLLAPSED, ONE_DIRECTION
from coviews.training.setup import first_source

IMAGES = 400  # that signals are computed on
# thresholds, from short trainings on four data sets: see docs/evaluate.md
GUESSING = 0.9  # of the loss of guessing: 0.27 to 0.83 where views were learned from, 0.93 and more where not
FEW_DIRECTIONS = 0.25  # of the untrained encoder's RankMe: 0.8 to 2.2 in all of them
FALLEN = 0.5  # of the highest RankMe of all looks
MOVING = 0.5  # of the ten nearest neighbours that are the same at the last two looks
BELOW = 2.0  # points of kNN accuracy below the untrained encoder, where looks had labels


@dataclass(frozen=True)
class Check:
    """What was found out about a training, without labels."""

    verdict: str  # collapsed, not trained enough, losing directions, below untrained, still changing or healthy
    sentence: str
    signals: dict[str, float]

    def __repr__(self) -> str:
        width = max(len(TITLES[name]) for name in self.signals)
        numbers = {name: 100 * value if name == "agreement" else value for name, value in self.signals.items()}
        lines = [f"{TITLES[name]:<{width}}  {value:.3g}" for name, value in numbers.items()]
        return "\n".join([self.sentence, "", *lines])


TITLES = {
    "loss": "loss of the last epoch",
    "guessing": "loss of guessing",
    "spread": "spread of the features (1 is good, 0 a collapse)",
    "rankme": "RankMe of the features",
    "untrained_rankme": "RankMe of the untrained encoder",
    "highest_rankme": "highest RankMe of all looks",
    "retrieval": "views that find their partner, in %",
    "untrained_retrieval": "views that find their partner by the untrained encoder, in %",
    "knn": "kNN accuracy at the last look, in %",
    "untrained_knn": "kNN accuracy of the untrained encoder, in %",
    "agreement": "nearest neighbours that stayed the same between the last two looks, in %",
}


def check(run: str | Path, data: Any = None, *, encoder: nn.Module | None = None, progress: bool = True) -> Check:
    """Tell whether a training works, without labels: collapsed, not trained enough, or healthy; kept in its folder.

    Args:
        run: the folder of a run, finished or not.
        data: images, if not those of the run: anything that `load_images` takes.
        encoder: the run's encoder, if it is a module of your own.
        progress: show what takes long.
    """
    folder = Run.open(Path(run), writes=False)
    settings, records = folder.settings, folder.metrics()
    start = folder.start()
    images = _images(folder, start, data, progress)
    with waiting("checking the encoder" if progress else ""):
        if encoder is None:
            encoder = open_encoder(folder.path).encoder
        signals = _recorded(settings, records) | _measured(folder, settings, start, encoder, images)
    verdict, sentence = judged(signals)
    result = Check(verdict, sentence, {name: signals[name] for name in TITLES if name in signals})
    content = {"verdict": verdict, "sentence": sentence, "signals": result.signals}
    write_whole(folder.path / CHECK, (json.dumps(content, indent=1) + "\n").encode())
    return result


def judged(signals: dict[str, float]) -> tuple[str, str]:
    """The verdict, and a sentence that says why and what to do; signals that are not known are left out."""
    s = {name: value for name, value in signals.items() if math.isfinite(value)}
    if s["spread"] < COLLAPSED or s["rankme"] < ONE_DIRECTION:
        return "collapsed", (
            f"Collapsed: all images look alike to the encoder (spread {s['spread']:.2g}, RankMe {s['rankme']:.3g}). "
            "Try a lower --lr, a larger --batch-size or milder views."
        )
    untrained = s.get("untrained_rankme", 0.0)
    if s["rankme"] < FEW_DIRECTIONS * untrained:
        return "collapsed", (
            f"Nearly collapsed: the features use {s['rankme']:.1f} directions, those of the untrained encoder "
            f"{untrained:.1f}. Try a lower --lr, a larger --batch-size or milder views."
        )
    longer = "Train longer (--epochs), or make the views milder; coviews preview shows them."
    if "guessing" in s and s.get("loss", 0.0) > GUESSING * s["guessing"]:
        return "not trained enough", (
            f"Not trained enough: the loss is {s['loss']:.2f}, and guessing which views belong together has "
            f"{s['guessing']:.2f}. {longer}"
        )
    if s["retrieval"] <= s.get("untrained_retrieval", 0.0):
        return "not trained enough", (
            f"Not trained enough: {s['retrieval']:.1f} % of the views find their partner, and with the untrained "
            f"encoder {s['untrained_retrieval']:.1f} %. {longer}"
        )
    if s["rankme"] < FALLEN * s.get("highest_rankme", 0.0):
        return "losing directions", (
            f"Losing directions: RankMe fell from {s['highest_rankme']:.1f} to {s['rankme']:.1f} during training. "
            "Compare an earlier encoder (--keep-every), or try a lower --lr."
        )
    if s.get("knn", math.inf) < s.get("untrained_knn", 0.0) - BELOW:
        return "below untrained", (
            f"Below the untrained encoder: the kNN accuracy fell from {s['untrained_knn']:.1f} to {s['knn']:.1f} %. "
            "Train longer (--epochs), or find views that suit these images: coviews choose."
        )
    found = f"{s['retrieval']:.0f} % of the views find their partner"
    if "untrained_retrieval" in s:
        found += f" (untrained {s['untrained_retrieval']:.0f} %)"
    if s.get("agreement", 1.0) < MOVING:
        return "still changing", (
            f"Still changing: {found}, but between the last two looks {100 - 100 * s['agreement']:.0f} % of the "
            "nearest neighbours changed. More --epochs may help (--resume RUN --epochs N)."
        )
    return "healthy", f"Looks healthy: {found}. With 20 labels a class coviews evaluate would tell more."


def _images(folder: Run, start: Start, data: Any, progress: bool) -> ImageSet:
    if isinstance(data, ImageSet) and data.images.shape[1:3] == (start.height, start.width):
        count = min(len(data), IMAGES)
        return data.subset(np.arange(count) * len(data) // count)
    settings = folder.settings
    model = open_encoder(folder.path)
    return load_images(
        own_data(model) if data is None else data, size=(start.height, start.width), channels=start.channels,
        subset=settings.subset if data is None else None, subset_seed=settings.subset_seed, limit=IMAGES,
        root=settings.data_root, cache=settings.cache, progress=progress, **reading_of(model),
    )  # fmt: skip


def _recorded(settings: PretrainSettings, records: list[dict[str, Any]]) -> dict[str, float]:
    """What the run itself measured; what is damaged is left out."""
    signals: dict[str, float] = {}
    losses = [number(r, "loss") for r in records if r.get("kind") == "epoch"]
    all_looks = [r for r in records if r.get("kind") == "look"]
    looks = [r for r in all_looks if (number(r, "epoch") or 0) > 0]
    if losses and losses[-1] is not None and settings.method.reveals_hardness and settings.view_count == 2:
        bank = getattr(settings.method, "bank", None)
        guessing = chance_loss(settings.batch_size) if bank is None else math.log(1 + bank)
        signals |= {"loss": losses[-1], "guessing": guessing}
    ranks = [rank for look in looks if (rank := number(look, "rankme")) is not None]
    if ranks:
        signals["highest_rankme"] = max(ranks)
    if looks and all_looks[0] is not looks[0]:  # one before training
        accuracies = {"untrained_knn": number(all_looks[0], "knn"), "knn": number(looks[-1], "knn")}
        signals |= {name: accuracy for name, accuracy in accuracies.items() if accuracy is not None}
    if looks and (agreement := number(looks[-1], "agreement")) is not None:
        signals["agreement"] = agreement
    return signals


def _measured(
    folder: Run, settings: PretrainSettings, start: Start, encoder: nn.Module, images: ImageSet
) -> dict[str, float]:
    """What the encoder shows, and the same of an encoder with new weights."""
    pixels, generator = images.images, np.random.default_rng(settings.seed)
    source = fitted_source(_source(folder, settings), pixels.shape[3], pixels.dtype)
    mean_colour = images.mean if pixels.shape[3] != 1 else images.mean[:1]
    pairs, _ = make_pairs(folder.path, pixels, source, settings, mean_colour, generator)

    def measure(module: nn.Module, prefix: str) -> dict[str, float]:
        def take(part: NDArray[Any]) -> Features:
            return features(module, part, start.mean, start.std)

        first, second = (_unit(take(np.ascontiguousarray(pairs[:, view]))) for view in (0, 1))
        hits = (first @ second.T).argmax(1) == np.arange(len(first))
        whole = take(pixels)
        return {
            f"{prefix}spread": feature_spread(whole),
            f"{prefix}rankme": rankme(whole),
            f"{prefix}retrieval": 100 * float(hits.mean()),
        }

    signals = measure(encoder, "")
    if not settings.encoder.startswith("module "):
        where = device_of(encoder)
        with seeded(settings.seed, where):
            fresh = make_encoder(settings.encoder, (start.height, start.width), start.channels).to(where)
        signals |= measure(fresh, "untrained_")
    return signals


def _source(folder: Run, settings: PretrainSettings) -> ViewSource:
    """Who makes the views now: the newest policy, where views are learned."""
    files = sorted((folder.path / "policies").glob("[0-9]*.safetensors")) if settings.learns_views else []
    return load_policy(files[-1]) if files else first_source(settings)


def _unit(rows: Features) -> Features:
    centred = rows - rows.mean(0)
    return centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
