"""`coviews check`: whether a training works, without labels."""

import json

import numpy as np
import pytest
import torch

import coviews
from coviews import CoviewsError
from coviews.cli import main
from coviews.data.imageset import ImageSet
from coviews.training.check import Check, judged
from coviews.training.monitor import Monitor
from coviews.training.pretrain import pretrain
from small_runs import SMALL

GOOD = {
    "loss": 2.5, "guessing": 4.8, "spread": 0.6, "rankme": 50.0, "untrained_rankme": 45.0, "highest_rankme": 52.0,
    "retrieval": 20.0, "untrained_retrieval": 4.0, "knn": 45.0, "untrained_knn": 30.0, "agreement": 0.7,
}  # fmt: skip
SHORT = SMALL.replaced(views="recipe", epochs=2, knn_every=1)


@pytest.mark.parametrize(
    ("changes", "verdict", "says"),
    [
        ({}, "healthy", "Looks healthy: 20 % of the views find their partner (untrained 4 %)."),
        ({"spread": 0.01}, "collapsed", "Collapsed: all images look alike to the encoder (spread 0.01, RankMe 50)."),
        ({"rankme": 1.002}, "collapsed", "Collapsed: all images look alike"),
        ({"rankme": 9.0}, "collapsed", "Nearly collapsed: the features use 9.0 directions"),
        ({"loss": 4.7}, "not trained enough", "Not trained enough: the loss is 4.70, and guessing"),
        ({"retrieval": 3.0}, "not trained enough", "Not trained enough: 3.0 % of the views find their partner"),
        ({"highest_rankme": 120.0}, "losing directions", "Losing directions: RankMe fell from 120.0 to 50.0"),
        ({"untrained_knn": 95.6}, "below untrained", "Below the untrained encoder: the kNN accuracy fell"),
        ({"untrained_knn": 46.0}, "healthy", "Looks healthy"),
        ({"agreement": 0.2}, "still changing", "Still changing: 20 % of the views find their partner"),
    ],
)
def test_verdicts(changes, verdict, says):
    found, sentence = judged({**GOOD, **changes})
    assert found == verdict
    assert sentence.startswith(says)


def test_shares_are_shown_in_percent():
    text = repr(Check("healthy", "Looks healthy.", GOOD))
    assert "nearest neighbours that stayed the same between the last two looks, in %  70" in text
    assert "80 % of the nearest neighbours changed" in judged({**GOOD, "agreement": 0.2})[1]


def test_a_verdict_without_what_only_some_runs_have():
    few = {name: GOOD[name] for name in ("spread", "rankme", "retrieval")}  # no looks, an encoder of one's own, BYOL
    assert judged(few)[0] == "healthy"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("check") / "run"
    torch.set_num_threads(1)
    pretrain(settings=SHORT.replaced(report=True), out=folder, progress=False)
    return folder


def test_a_run_ends_with_a_check_and_its_page_has_it(run, capsys):
    kept = json.loads((run / "check.json").read_text())
    assert set(kept["signals"]) == set(GOOD)
    assert kept["sentence"] in (run / "report.html").read_text()
    assert main(["check", str(run), "--no-progress"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(kept["sentence"])
    assert "RankMe of the untrained encoder" in out
    assert json.loads((run / "check.json").read_text()) == kept  # the same images and views, drawn by the seed


def test_other_images_and_wrong_folders(run, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (40, 20, 20, 3), np.uint8)
    assert coviews.check(run, images, progress=False).signals["spread"] > 0
    with pytest.raises(CoviewsError, match="is not a run"):
        coviews.check(tmp_path, progress=False)


def test_a_collapsed_encoder_is_called_so(tmp_path, capsys):
    class Constant(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.ones(4))

        def forward(self, x):
            return self.bias + 1e-6 * x.mean((1, 2, 3))[:, None]

    settings = SHORT.replaced(method="simsiam", epochs=1)
    pretrain("shapes:64", encoder=Constant(), settings=settings, out=tmp_path / "run")
    assert "Collapsed: all images look alike" in capsys.readouterr().err


def test_agreement_of_neighbours():
    rng = np.random.default_rng(0)
    images = ImageSet(rng.integers(0, 256, (60, 8, 8, 3), np.uint8))
    monitor = Monitor(images, None, (0.5,) * 3, (0.25,) * 3, 0)

    class Part(torch.nn.Module):
        def __init__(self, start):
            super().__init__()
            self.start = start

        def forward(self, x):
            return x.flatten(1)[:, self.start : self.start + 20]

    assert "agreement" not in monitor(Part(0), "cpu")
    assert monitor(Part(0), "cpu")["agreement"] == 1
    assert monitor(Part(100), "cpu")["agreement"] < 0.5  # ten of sixty by chance: a sixth
    assert monitor.neighbours.shape == (60, 10)
    assert not (monitor.neighbours == np.arange(60)[:, None]).any()
