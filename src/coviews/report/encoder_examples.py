"""Examples of what a run's encoder finds hard and similar among the run's images, for the report."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from coviews.data.imageset import ImageSet, varied
from coviews.data.shown_channels import Shown, shown_channels
from coviews.encoders.features import check_features, feature_batches
from coviews.encoders.frozen import device_of, evaluating, seeded
from coviews.encoders.images import move_to_device
from coviews.encoders.method import build_method
from coviews.encoders.open import open_encoder
from coviews.encoders.pixels import to_tensors
from coviews.errors import CoviewsError
from coviews.evaluation.knn import nearest
from coviews.features.neighbours import Neighbours, image_lines, neighbour_row, without_own
from coviews.methods.method import Method
from coviews.ops.images import channel_statistics
from coviews.report.encoder_section import EncoderExamples, NeighbourExamples, PairExamples, ScoredPair
from coviews.report.gallery import (
    captions,
    gallery_images,
    make_pairs,
    newest_source,
    pair_pictures,
    picture,
    readable_settings,
)
from coviews.report.record import RunRecord, numbers
from coviews.runs.folder import read_checkpoint
from coviews.runs.settings import PretrainSettings

PAIRS, IMAGES = 256, 5_000  # the largest numbers that are scored
SECONDS = 4.0  # for the pairs, and again for the images: with a slow encoder there are fewer
_BYTES = 2**28  # of images that are loaded at most
_BATCH = 32  # images that pass the encoder at once: few, so that a slow encoder keeps to the time too
_SHOWN = 6  # hardest pairs, easiest pairs, images with neighbours
_NEIGHBOURS = 6  # of each image


@dataclass(frozen=True)
class _Model:
    """A method with its projector, or an encoder alone."""

    encoder: nn.Module
    method: Method | None
    device: torch.device
    mean: Sequence[float]
    std: Sequence[float]
    reason: str = ""  # why there is no method


def make_encoder_examples(
    run: RunRecord, *, images: ImageSet | None = None, method: Method | None = None, seed: int = 0
) -> EncoderExamples:
    """Score pairs of views of the run's images, and find neighbours among the images; the method is not changed.

    Args:
        run: its encoder is that of the last checkpoint while it is not finished.
        images: the run's, if they are in memory.
        method: the run's, if it is in memory.
        seed: for the random choice of images and views.
    """
    try:
        settings = readable_settings(run)
        loaded = _load_images(run, settings, images)
    except (CoviewsError, OSError) as error:
        return EncoderExamples(missing=f"The encoder is not tried on images: {_line(error)}")
    try:
        model = _open_model(run, settings, loaded, method)
    except (CoviewsError, OSError, RuntimeError) as error:
        return EncoderExamples(missing=f"The encoder is not tried: {_line(error)}")
    try:
        pairs = _pairs(run, settings, loaded, model, np.random.default_rng([seed, 0]))
    except (CoviewsError, OSError, RuntimeError) as error:  # such as no memory left on a GPU
        pairs = PairExamples(missing=f"No pairs are shown: {_line(error)}")
    try:
        shown = shown_channels(settings.show_channels, loaded.images.shape[3])
        near = _neighbours(loaded, model, np.random.default_rng([seed, 1]), shown)
    except (CoviewsError, RuntimeError) as error:
        near = NeighbourExamples(missing=f"No neighbours are shown: {_line(error)}")
    return EncoderExamples(pairs, near)


# --------------------------------------------------------------------------------------------- images and model


def _load_images(run: RunRecord, settings: PretrainSettings, images: ImageSet | None) -> ImageSet:
    """As many images as load in a few seconds: the number grows while the next step is expected to be fast enough."""
    if images is not None:
        return gallery_images(run, settings, _most(images), images)
    count = 64
    while True:
        start = time.perf_counter()
        loaded = gallery_images(run, settings, count)
        spent = time.perf_counter() - start
        more = min(max(8 * count, IMAGES if count > 64 else 0), _most(loaded))
        if len(loaded) < count or more <= count or spent * more / count > 2 * SECONDS:
            return loaded
        count = more


def _most(images: ImageSet) -> int:
    """The largest number of such images that are loaded."""
    return max(64, min(IMAGES, _BYTES // max(1, math.prod(images.images.shape[1:]))))


def _open_model(run: RunRecord, settings: PretrainSettings, images: ImageSet, method: Method | None) -> _Model:
    mean, std = numbers(run.start, "mean"), numbers(run.start, "std")
    if not len(mean) == len(std) == images.images.shape[-1] or not min(std) > 0:
        mean, std = (list(values) for values in channel_statistics(images.images))
    if method is not None:
        return _Model(method.encoder, method, device_of(method), mean, std)
    device = "auto" if run.finished else "cpu"  # a GPU may be busy with the run
    file = run.path / "checkpoints" / "last.pt"
    if settings.encoder.startswith("module "):
        raise CoviewsError("it is a module from Python, which no file can tell")
    with seeded(0, torch.device("cpu")):
        try:
            if not file.exists():
                raise CoviewsError("the run has no checkpoint")
            method = build_method(settings.replaced(init_from=None), images, None)
            method.load_state_dict(read_checkpoint(file)["method"])
        except (CoviewsError, KeyError, TypeError, RuntimeError) as error:
            if not run.finished:
                raise CoviewsError(_line(error)) from error
            encoder = open_encoder(run.path).encoder
            return _Model(encoder, None, move_to_device(encoder, device), mean, std, _line(error))
        return _Model(method.encoder, method, move_to_device(method, device), mean, std)


# -------------------------------------------------------------------------------------------------------- pairs


def _pairs(
    run: RunRecord, settings: PretrainSettings, images: ImageSet, model: _Model, generator: np.random.Generator
) -> PairExamples:
    sample = images.subset(generator.permutation(len(images))[:PAIRS])
    source_name, source = newest_source(run, settings, images)
    views, plan = make_pairs(run.path, sample.images, source, settings, images.mean, generator)  # (n, 2, H, W, C)
    scores, chance = _scores(views, model)
    count = len(scores)
    if count < 2:
        raise CoviewsError("two images are needed")
    if not np.isfinite(scores).all():
        raise CoviewsError("the encoder gives no finite numbers, its training may have diverged")
    order = np.argsort(-scores, kind="stable")
    shown = min(_SHOWN, count // 2)
    indices = np.concatenate([order[:shown], order[::-1][:shown]])
    examples = sample.subset(indices)
    shown_ones = shown_channels(settings.show_channels, images.images.shape[3])
    names, pictures = captions(examples), pair_pictures(views[indices], plan[indices], shown_ones)
    name = "loss" if model.method is not None else "cosine similarity"
    value = scores if model.method is not None else -scores
    pairs = [
        ScoredPair(picture(examples.images[i], names[i], shown_ones), pictures[i], f"{name} {value[index]:.2f}")
        for i, index in enumerate(indices)
    ]
    encoder = "final encoder" if run.finished else "encoder as it is in the last checkpoint"
    about = source_name if " views" in source_name else f"views by {source_name}"
    about = f"{count} pairs of {about}, placed as in training, scored by the {encoder}. "
    if model.method is not None:
        about += (
            f"The loss says how hard it is to tell a view's partner from all others: half of the pairs are below "
            f"{np.median(value):.2f}, and {chance:.2f} is as good as guessing. Hard pairs teach the encoder most, as "
            "long as a person still sees the same thing in both; if the hardest show nothing any more, the views are "
            "too strong."
        )
    else:
        about += f"The score is the similarity of the features (1 is the same), without the projector: {model.reason}."
    return PairExamples(pairs[:shown], pairs[shown:], about)


def _scores(views: NDArray[Any], model: _Model) -> tuple[NDArray[np.float64], float]:
    """How hard each pair of views (n, 2, H, W, C) is, for as many as there is time; and the score of guessing."""
    method, end = model.method, time.perf_counter() + SECONDS
    parts: list[tuple[tuple[Tensor, ...], tuple[Tensor, ...]]] = []
    with evaluating(method or model.encoder):
        for start in range(0, len(views), _BATCH // 4):  # pairs, of which some methods embed each view twice
            if start and time.perf_counter() > end:
                break
            part = np.ascontiguousarray(views[start : start + _BATCH // 4])
            both = torch.cat(to_tensors(part, model.mean, model.std, model.device))
            embeddings = method.embed(both) if method is not None else (model.encoder(both).flatten(1).float(),)
            halves = [e.chunk(2) for e in embeddings]
            parts.append((tuple(h[0] for h in halves), tuple(h[1] for h in halves)))
        a, b = (tuple(torch.cat(t) for t in zip(*(p[i] for p in parts), strict=True)) for i in (0, 1))
        scores = method.compare(a, b) if method is not None else -F.cosine_similarity(a[0], b[0])
    return scores.cpu().double().numpy(), method.chance(len(scores)) if method is not None else 0.0


# --------------------------------------------------------------------------------------------------- neighbours


def _neighbours(images: ImageSet, model: _Model, generator: np.random.Generator, shown: Shown) -> NeighbourExamples:
    shuffled = images.subset(generator.permutation(len(images)))  # the first ones are then a random sample
    bank = check_features(np.concatenate(list(_features(shuffled, model))), "features")
    encoded = shuffled.subset(range(len(bank)))
    count = min(_NEIGHBOURS, len(encoded) - 1)
    if count < 1:
        raise CoviewsError("two images are needed")
    queries = varied(encoded, _SHOWN, generator).tolist()
    indices, similarities = without_own(*nearest(bank, bank[queries], count + 1), queries, count)
    lines = [image_lines(encoded, query) for query in queries]
    neighbours = Neighbours(indices, similarities, tuple(line[-1] for line in lines), encoded, None)
    rows = [
        neighbour_row(neighbours, i, encoded.images[query], lines[i], query, shown) for i, query in enumerate(queries)
    ]
    about = (
        f"Some images, and which of {len(encoded):,} of the run's images the encoder finds most similar to them. "
        "The number is the cosine similarity of the features, at most 1."
    )
    return NeighbourExamples(rows, about)


def _features(images: ImageSet, model: _Model) -> Iterator[NDArray[np.float32]]:
    """The features of one batch after the other, while there is time."""
    end = time.perf_counter() + SECONDS
    for part in feature_batches(model.encoder, images.images, model.mean, model.std, batch=_BATCH, device=model.device):
        yield part.cpu().numpy()
        if time.perf_counter() > end:
            return


def _line(error: BaseException) -> str:
    """The first line of an error's message."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return (text.strip() or type(error).__name__).splitlines()[0][:300]
