"""The run's encoder tried on the run's images, for the report: which pairs it finds hard, which images similar."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from coviews.data.imageset import ImageSet, varied
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
from coviews.report.encoder_section import NeighbourTrial, PairTrial, ScoredPair, Trial
from coviews.report.gallery import (
    captions,
    make_pairs,
    newest_source,
    pair_pictures,
    picture,
    readable_settings,
    run_images,
)
from coviews.report.record import RunRecord, numbers
from coviews.runs.folder import read_checkpoint
from coviews.runs.settings import PretrainSettings

PAIRS, IMAGES = 256, 5_000  # that are tried at most
SECONDS = 4.0  # for the pairs, and again for the images: an encoder that is slow here tries fewer
_BYTES = 2**28  # of images that are held besides the run's own
_PART = 32  # images that pass the encoder at once: few, so that the time is kept with a slow one too
_SHOWN = 6  # hardest pairs, easiest pairs, images with neighbours
_BESIDE = 6  # neighbours of each


@dataclass(frozen=True)
class _Tried:
    """What is tried: a method with its projector, or an encoder alone."""

    encoder: nn.Module
    method: Method | None
    device: torch.device
    mean: Sequence[float]
    std: Sequence[float]
    why: str = ""  # there is no method


def try_encoder(
    run: RunRecord, *, images: ImageSet | None = None, method: Method | None = None, seed: int = 0
) -> Trial:
    """Score pairs of views of the run's images, and look for neighbours among them; nothing of a method changes.

    Args:
        run: what is reported on; an unfinished one is tried as its checkpoint is.
        images: the run's, where they are in memory already.
        method: the run's, where it is in memory already.
        seed: chooses images and views.
    """
    try:
        settings = readable_settings(run)
        some = _loaded(run, settings, images)
    except (CoviewsError, OSError) as error:
        return Trial(missing=f"The encoder is not tried on images: {_line(error)}")
    try:
        tried = _opened(run, settings, some, method)
    except (CoviewsError, OSError, RuntimeError) as error:
        return Trial(missing=f"The encoder is not tried: {_line(error)}")
    try:
        pairs = _pairs(run, settings, some, tried, np.random.default_rng([seed, 0]))
    except (CoviewsError, OSError, RuntimeError) as error:  # such as no memory left on a GPU
        pairs = PairTrial(missing=f"No pairs are shown: {_line(error)}")
    try:
        near = _neighbours(some, tried, np.random.default_rng([seed, 1]))
    except (CoviewsError, RuntimeError) as error:
        near = NeighbourTrial(missing=f"No neighbours are shown: {_line(error)}")
    return Trial(pairs, near)


# ------------------------------------------------------------------------------------------------ what is tried


def _loaded(run: RunRecord, settings: PretrainSettings, images: ImageSet | None) -> ImageSet:
    """As many images as can be loaded in a while: more and more, as long as the next step cannot take too long."""
    if images is not None:
        return run_images(run, settings, _most(images), images)
    count = 64
    while True:
        start = time.perf_counter()
        some = run_images(run, settings, count)
        spent = time.perf_counter() - start
        more = min(max(8 * count, IMAGES if count > 64 else 0), _most(some))
        if len(some) < count or more <= count or spent * more / count > 2 * SECONDS:
            return some
        count = more


def _most(images: ImageSet) -> int:
    """How many of such images are held in memory at most."""
    return max(64, min(IMAGES, _BYTES // max(1, math.prod(images.images.shape[1:]))))


def _opened(run: RunRecord, settings: PretrainSettings, images: ImageSet, method: Method | None) -> _Tried:
    mean, std = numbers(run.start, "mean"), numbers(run.start, "std")
    if not len(mean) == len(std) == images.images.shape[-1] or not min(std) > 0:
        mean, std = (list(values) for values in channel_statistics(images.images))
    if method is not None:
        return _Tried(method.encoder, method, device_of(method), mean, std)
    where = "auto" if run.finished else "cpu"  # the device may be busy with the run
    file = run.path / "checkpoints" / "last.pt"
    if settings.encoder.startswith("module "):
        raise CoviewsError("it is a module from Python, which no file can tell")
    with seeded(0, torch.device("cpu")):
        try:
            if not file.exists():
                raise CoviewsError("the run has no checkpoint")
            made = build_method(settings.replaced(init_from=None), images, None)
            made.load_state_dict(read_checkpoint(file)["method"])
        except (CoviewsError, KeyError, TypeError, RuntimeError) as error:
            if not run.finished:
                raise CoviewsError(_line(error)) from error
            alone = open_encoder(run.path).encoder
            return _Tried(alone, None, move_to_device(alone, where), mean, std, _line(error))
        return _Tried(made.encoder, made, move_to_device(made, where), mean, std)


# -------------------------------------------------------------------------------------------------------- pairs


def _pairs(
    run: RunRecord, settings: PretrainSettings, images: ImageSet, tried: _Tried, generator: np.random.Generator
) -> PairTrial:
    chosen = images.subset(generator.permutation(len(images))[:PAIRS])
    called, source = newest_source(run, settings)
    done = source.sample(len(chosen), generator).applied(generator)
    views = make_pairs(chosen.images, done, settings, images.mean, generator)  # (n, 2, H, W, C)
    scores, chance = _scores(views, tried)
    count = len(scores)
    if count < 2:
        raise CoviewsError("two images are needed")
    if not np.isfinite(scores).all():
        raise CoviewsError("the encoder gives no finite numbers, its training may have diverged")
    order = np.argsort(-scores, kind="stable")
    shown = min(_SHOWN, count // 2)
    places = np.concatenate([order[:shown], order[::-1][:shown]])
    few, words = chosen.subset(places), captions(chosen.subset(places))
    made = pair_pictures(views[places], done[places])
    name = "loss" if tried.method is not None else "cosine similarity"
    value = scores if tried.method is not None else -scores
    pairs = [
        ScoredPair(picture(few.images[i], words[i]), made[i], f"{name} {value[place]:.2f}")
        for i, place in enumerate(places)
    ]
    when = "final encoder" if run.finished else "encoder as it is in the last checkpoint"
    about = f"{count} pairs of views by {called}, cropped and flipped as in training, scored by the {when}. "
    if tried.method is not None:
        about += (
            f"The loss says how hard it is to tell a view's partner from all others: half of the pairs are below "
            f"{np.median(value):.2f}, and {chance:.2f} is as good as guessing. Hard pairs teach the encoder most, as "
            "long as a person still sees the same thing in both; if the hardest show nothing any more, the views are "
            "too strong."
        )
    else:
        about += f"The score is the similarity of the features (1 is the same), without the projector: {tried.why}."
    return PairTrial(pairs[:shown], pairs[shown:], about)


def _scores(views: NDArray[np.uint8], tried: _Tried) -> tuple[NDArray[np.float64], float]:
    """How hard each pair of views (n, 2, H, W, C) is, as far as there is time; and what is as good as guessing."""
    method, end = tried.method, time.perf_counter() + SECONDS
    parts: list[tuple[tuple[Tensor, ...], tuple[Tensor, ...]]] = []
    with evaluating(method or tried.encoder):
        for start in range(0, len(views), _PART // 4):  # pairs, of which some methods embed each view twice
            if start and time.perf_counter() > end:
                break
            part = np.ascontiguousarray(views[start : start + _PART // 4])
            both = torch.cat(to_tensors(part, tried.mean, tried.std, tried.device))
            made = method.embed(both) if method is not None else (tried.encoder(both).flatten(1).float(),)
            halves = [e.chunk(2) for e in made]
            parts.append((tuple(h[0] for h in halves), tuple(h[1] for h in halves)))
        a, b = (tuple(torch.cat(t) for t in zip(*(p[i] for p in parts), strict=True)) for i in (0, 1))
        found = method.compare(a, b) if method is not None else -F.cosine_similarity(a[0], b[0])
    return found.cpu().double().numpy(), method.chance(len(found)) if method is not None else 0.0


# --------------------------------------------------------------------------------------------------- neighbours


def _neighbours(images: ImageSet, tried: _Tried, generator: np.random.Generator) -> NeighbourTrial:
    mixed = images.subset(generator.permutation(len(images)))  # whatever there is time for is a fair share
    bank = check_features(np.concatenate(list(_features(mixed, tried))), "features")
    seen = mixed.subset(range(len(bank)))
    beside = min(_BESIDE, len(seen) - 1)
    if beside < 1:
        raise CoviewsError("two images are needed")
    own = varied(seen, _SHOWN, generator).tolist()
    indices, similarities = without_own(*nearest(bank, bank[own], beside + 1), own, beside)
    lines = [image_lines(seen, place) for place in own]
    made = Neighbours(indices, similarities, tuple(line[-1] for line in lines), seen, None)
    rows = [neighbour_row(made, i, seen.images[place], lines[i], place) for i, place in enumerate(own)]
    about = (
        f"Some images, and which of {len(seen):,} of the run's images the encoder finds most similar to them. "
        "The number is the cosine similarity of the features, at most 1."
    )
    return NeighbourTrial(rows, about)


def _features(images: ImageSet, tried: _Tried) -> Iterator[NDArray[np.float32]]:
    """The features of one batch after the other, as long as there is time."""
    end = time.perf_counter() + SECONDS
    for part in feature_batches(tried.encoder, images.images, tried.mean, tried.std, batch=_PART, device=tried.device):
        yield part.cpu().numpy()
        if time.perf_counter() > end:
            return


def _line(error: BaseException) -> str:
    """The first line of what an error says."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return (text.strip() or type(error).__name__).splitlines()[0][:300]
