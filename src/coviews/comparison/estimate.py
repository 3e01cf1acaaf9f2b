"""How long a training will take on this machine: a few steps are timed, and multiplied."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from coviews.data.imageset import ImageSet
from coviews.encoders.method import build_method
from coviews.runs.settings import PretrainSettings
from coviews.training.monitor import MOST_IMAGES

_STEPS = 2  # that are timed, after one that is not
_VIEWS = 1.05  # making the views, and all that is besides the encoder
_POLICY = 1.25  # what a search costs over its encoder passes


@dataclass(frozen=True)
class EncoderTimes:
    """What the encoder's work takes."""

    training: float  # seconds of a step of training
    passing: float  # seconds of an image that only passes the encoder


def measured_pace(settings: PretrainSettings, images: ImageSet, threads: int) -> EncoderTimes:
    """Time a few steps on the CPU; where there is another accelerator, a run will be faster."""
    s, before = settings, torch.get_num_threads()
    lower = torch.autocast("cpu", torch.bfloat16, enabled=s.precision == "bf16-mixed")
    with torch.random.fork_rng(), lower:
        torch.set_num_threads(threads)
        try:
            method = build_method(s, images, None)
            _, height, width, channels = images.images.shape
            sizes = [s.view_sizes[0] if s.view_sizes else (height, width)] * s.views_global
            sizes += s.local_sizes((height, width))
            views = [torch.randn(s.batch_size, channels, *size) for size in sizes]
            optimizer = torch.optim.SGD([p for p in method.parameters() if p.requires_grad], 1e-6)

            def train() -> None:
                optimizer.zero_grad()
                method.losses(views).each.mean().backward()
                optimizer.step()

            def look() -> None:
                with torch.no_grad():
                    method.encoder(views[0])

            return EncoderTimes(_timed(train), _timed(look) / s.batch_size)
        finally:
            torch.set_num_threads(before)


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


def _timed(work: Callable[[], None]) -> float:
    work()
    spent = []
    for _ in range(_STEPS):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return float(np.median(spent))
