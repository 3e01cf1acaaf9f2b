"""What is said of a run's length before it begins."""

import numpy as np
import pytest

import coviews
from coviews.console.progress import rough_duration
from coviews.data.imageset import ImageSet
from coviews.encoders.method import build_method
from coviews.methods.simclr import SimCLR
from coviews.runs.settings import PretrainSettings
from coviews.training import estimate, lifecycle
from coviews.training.estimate import EncoderTimes, estimate_text, measured_pace, trial_pace
from small_runs import SMALL, content, differing

SHORT = SMALL.replaced(views="recipe", knn_every=0, epochs=1, data="shapes:40")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (80, "80 s"), (100, "2 min"), (2400, "40 min"), (9000, "2.5 h"), (72000, "20 h"), (3e5, "3 days")],
)
def test_rough_durations(seconds, text):
    assert rough_duration(seconds) == text


def test_a_long_run_names_faster_settings():
    images = ImageSet(np.zeros((2, 128, 128, 3), np.uint8))
    assert estimate_text(PretrainSettings(), images, 600) == "about 10 min on this machine"
    assert estimate_text(PretrainSettings(), images, 2880) == (
        "about 48 min on this machine (--size 64: 12 min; --epochs 100: 24 min; --encoder resnet8 is small and fast)"
    )
    small = ImageSet(np.zeros((2, 32, 32, 3), np.uint8))
    assert "--size" not in estimate_text(PretrainSettings(encoder="resnet8"), small, 6000)


def test_a_run_says_how_long_it_will_take_and_the_trial_changes_nothing(tmp_path, monkeypatch, capsys):
    coviews.pretrain(settings=SHORT, out=tmp_path / "quiet", progress=False)

    def as_if_slow(*args):
        pace = trial_pace(*args)
        assert pace.training > 0
        return EncoderTimes(600.0, pace.passing)  # ten minutes a step

    monkeypatch.setattr(lifecycle, "trial_pace", as_if_slow)
    coviews.pretrain(settings=SHORT, out=tmp_path / "run")
    assert "about 11 min on this machine" in capsys.readouterr().err  # with what is besides the step
    assert not differing(content(tmp_path / "quiet"), content(tmp_path / "run"))


def test_large_views_are_timed_at_fewer_pixels(monkeypatch):
    pixels = []

    class Watched(SimCLR):
        def losses(self, views):
            pixels.append(sum(view.shape[0] * view.shape[2] * view.shape[3] for view in views))
            return super().losses(views)

    monkeypatch.setattr(estimate, "build_method", lambda settings, images, state: watched(settings, images))
    monkeypatch.setattr(estimate, "_timed", lambda work, steps: work() or 1.0)

    def watched(settings, images):
        method = build_method(settings, images, None)
        method.__class__ = Watched
        return method

    settings = SHORT.replaced(batch_size=2)
    large, small = (ImageSet(np.zeros((8, side, side, 3), np.uint8)) for side in (1448, 256))
    times = [measured_pace(settings, images, 1) for images in (large, small)]
    assert pixels == [2 * 2 * 362 * 362, 2 * 2 * 256 * 256]
    assert [t.training for t in times] == [16.0, 1.0]  # 16 times as many pixels as were timed, and as many
    assert [t.passing for t in times] == [8.0, 0.5]  # of one of two images
