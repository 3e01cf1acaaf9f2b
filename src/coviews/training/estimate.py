"""How long a training will take on this machine: a few steps are timed, and multiplied."""

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from coviews.console.progress import rough_duration
from coviews.data.imageset import ImageSet
from coviews.encoders.architectures import SMALL, WIDTHS
from coviews.encoders.method import build_method
from coviews.methods.method import Method
from coviews.methods.view_networks import VIEW_NETWORKS, make_view_network
from coviews.runs.settings import PretrainSettings
from coviews.training.monitor import MOST_IMAGES

_STEPS = 2  # that are timed, after one that is not
_VIEWS = 1.05  # making the views, and all that is besides the encoder
_POLICY = 1.25  # what a search costs over its encoder passes
_TRIAL = 1 << 19  # pixels of the views in a step that is timed: enough to tell, done in a second, in 0.2 GB
_LEAST_BATCH = 8  # images in a trial step, before its views are made smaller than those of the run
_LEAST_SIDE = 8  # pixels of such views
_LONG = 30 * 60  # seconds from which on a faster way is named


@dataclass(frozen=True)
class EncoderTimes:
    """What the encoder's work takes."""

    training: float  # seconds of a step of training
    passing: float  # seconds of an image that only passes the encoder


def measured_pace(settings: PretrainSettings, images: ImageSet, threads: int) -> EncoderTimes:
    """Time a few steps on the CPU; where there is another accelerator, a run will be faster."""
    before = torch.get_num_threads()
    with torch.random.fork_rng():
        torch.set_num_threads(threads)
        try:
            return _times(build_method(settings, images, None), settings, images, _STEPS)
        finally:
            torch.set_num_threads(before)


def trial_pace(settings: PretrainSettings, images: ImageSet, method: Method) -> EncoderTimes:
    """Time one small step of a copy of the method on the CPU, after one that is not timed."""
    with torch.random.fork_rng():
        return _times(copy.deepcopy(method).train(), settings, images, 1)


def estimate_text(settings: PretrainSettings, images: ImageSet, seconds: float) -> str:
    """What is said of a run that will take so long, with a faster way where that is long."""
    text = f"about {rough_duration(seconds)} on this machine"
    if seconds < _LONG:
        return text
    s, shorter = settings, min(images.images.shape[1:3])
    size = max(SMALL, shorter // 2)
    faster = [f"--epochs {s.epochs // 2}: {rough_duration(seconds / 2)}"] if s.epochs > 1 else []
    if size < shorter and s.view_size is None:
        faster.insert(0, f"--size {size}: {rough_duration(seconds * (size / shorter) ** 2)}")
    if s.encoder not in WIDTHS:
        faster.append("--encoder resnet8 is small and fast")
    return f"{text} ({'; '.join(faster)})" if faster else text


def _view_sizes(settings: PretrainSettings, height: int, width: int) -> list[tuple[int, int]]:
    s = settings
    sizes = [s.view_sizes[0] if s.view_sizes else (height, width)] * s.views_global
    return [*sizes, *s.local_sizes((height, width))]


def _trial_step(settings: PretrainSettings, sizes: list[tuple[int, int]]) -> tuple[int, float]:
    """How many images a step that is timed has, and the share of the sides of its views: at most _TRIAL pixels."""
    pixels = sum(h * w for h, w in sizes)
    batch = min(settings.batch_size, max(_LEAST_BATCH, _TRIAL // pixels))
    if settings.encoder.startswith("timm/"):  # may need images of one size
        return max(2, min(batch, _TRIAL // pixels)), 1.0
    return batch, min(1.0, (_TRIAL / (batch * pixels)) ** 0.5)


def _times(method: Method, settings: PretrainSettings, images: ImageSet, steps: int) -> EncoderTimes:
    """The times of a step and of a pass; for large batches or views, those of smaller ones, multiplied."""
    _, height, width, channels = images.images.shape
    sizes = _view_sizes(settings, height, width)
    batch, share = _trial_step(settings, sizes)
    smaller = [
        (min(h, max(_LEAST_SIDE, round(share * h))), min(w, max(_LEAST_SIDE, round(share * w)))) for h, w in sizes
    ]
    views = [torch.randn(batch, channels, *size) for size in smaller]
    optimizer = torch.optim.SGD([p for p in method.parameters() if p.requires_grad], 1e-6)
    network = make_view_network(settings.views, channels) if settings.views in VIEW_NETWORKS else None

    def mixed() -> torch.autocast:
        return torch.autocast("cpu", torch.bfloat16, enabled=settings.precision == "bf16-mixed")

    def train() -> None:
        optimizer.zero_grad()
        made = views if network is None else [network(view) for view in views]
        with mixed():
            loss = method.losses(made).each.mean()
        loss.backward()
        optimizer.step()

    def look() -> None:
        with torch.no_grad(), mixed():
            method.encoder(views[0])

    larger = sum(h * w for h, w in sizes) / sum(h * w for h, w in smaller)
    training = _timed(train, steps) * larger * settings.batch_size / batch
    return EncoderTimes(training, _timed(look, steps) * larger / batch)


def expected_seconds(settings: PretrainSettings, pace: EncoderTimes, images: int, tested: int) -> float:
    """The seconds of a run on so many images, judged on so many test images; about."""
    s, passing = settings, pace.passing
    steps = images // s.batch_size
    epoch = steps * pace.training * _VIEWS
    if s.views == "hardviews" and s.hard_views > 2:
        epoch += steps * s.batch_size * s.hard_views * passing * s.hard_scale**2 * _VIEWS
    looks = (s.epochs // s.knn_every + 1 if s.knn_every else 0) + 1  # the last one is the evaluation
    looked = looks * (min(images, MOST_IMAGES) + min(tested, MOST_IMAGES))
    return s.epochs * epoch + s.searches * s.search.encoder_passes * passing * _POLICY + looked * passing


def _timed(work: Callable[[], None], steps: int) -> float:
    work()
    spent = []
    for _ in range(steps):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return float(np.median(spent))
