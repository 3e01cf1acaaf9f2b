"""SelfAugment: the losses by which it judges policies, its search, a stop, and the training that follows."""

import json

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import coviews.comparison.self_augment as module
from coviews import CoviewsError, info_nce, load_images, pretrain, self_augment
from coviews.cli import main
from coviews.comparison.held_out_losses import HeldOutLosses
from coviews.ops.view_settings import ViewSettings
from coviews.policies.listed import ListedPolicy, ListedStep
from coviews.runs.settings_file import read_settings
from coviews.training.signals import Stopped
from small_runs import SMALL, content, differing, signalled

TINY = SMALL.replaced(views="selfaugment", space=None, epochs=10, data="shapes:40", size=12, batch_size=16, knn_every=0)
FIGURES = {"folds": 2, "trials": 24, "repeats": 1, "best": 2, "progress": False}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted search."""
    out = tmp_path_factory.mktemp("whole")
    return out, self_augment(TINY, out, **FIGURES)


def test_the_losses_are_those_of_the_paper(whole):
    """A slow version: a probe of scikit-learn, and InfoNCE of the projections."""
    out, _ = whole
    images = load_images("shapes:60", size=12)
    plainly = TINY.replaced(views="cropflip", epochs=1, precision="32-true")
    method = module._trained(out / "folds" / "0", plainly, images, progress=False)
    views = ViewSettings.of(images.images)
    plain = plainly.named_source("cropflip")
    seen, held_out = images.images[:40], images.images[40:]
    judge = HeldOutLosses(method, seen, held_out, views, plain, 20, seed=3)
    policy = ListedPolicy(((ListedStep("Invert", 1.0, 0.0), ListedStep("Rotate", 1.0, 0.9)),))
    losses = judge(policy)

    def tensors(pixels):
        mean, std = (torch.tensor(x).reshape(1, 3, 1, 1) for x in (views.mean, views.std))
        return (torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255 - mean) / std

    generator = np.random.default_rng([3, 11])
    generator.choice(len(seen), len(seen), replace=False)
    made = views.make(seen, views.plan(plain, len(seen), (12, 12), generator))[:, 0]
    method.eval()
    with torch.no_grad():
        rows = torch.cat([method.encoder(tensors(np.rot90(made, k, (1, 2)).copy())) for k in range(4)]).numpy()
        labels = np.repeat(np.arange(4), len(seen))
        scale = np.where(rows.std(0) > 0, rows.std(0), 1)
        probe = LogisticRegression(C=1 / (0.1 * len(rows)), max_iter=2000, tol=1e-8).fit(
            (rows - rows.mean(0)) / scale, labels
        )
        generator = np.random.default_rng([3, 12, 0])
        pairs = views.make(held_out, views.plan(policy, len(held_out), (12, 12), generator))
        z1, z2 = (method.projector(method.encoder(tensors(pairs[:, i]))) for i in (0, 1))
        contrast = info_nce(z1, z2, TINY.method.temperature).mean()
        entropies = []
        for k in range(4):
            turned = method.encoder(tensors(np.rot90(pairs[:, 0], k, (1, 2)).copy())).numpy()
            entropies.append(-probe.predict_log_proba((turned - rows.mean(0)) / scale)[:, k].mean())
    assert losses.contrast == pytest.approx(float(contrast), rel=1e-4)
    assert losses.rotation == pytest.approx(np.mean(entropies), rel=2e-3)
    assert judge(policy) == losses  # nothing is drawn anew
    assert judge(plain) != losses


def test_what_is_kept_has_the_lowest_objective(whole):
    out, choice = whole
    expected = []
    for fold in range(2):
        trials = json.loads((out / f"trials-0-{fold}.json").read_text())
        assert len(trials) == 24
        scores = [t["rotation"] / choice.plain.rotation - t["contrast"] / choice.plain.contrast for t in trials]
        expected += [
            tuple(map(tuple, row)) for i in np.argsort(scores, kind="stable")[:2] for row in trials[i]["subpolicies"]
        ]
    assert choice.policy.subpolicies == tuple(dict.fromkeys(expected))
    assert all(len(row) == 2 for row in expected)
    assert f"{len(choice.policy.subpolicies)} subpolicies" in choice.sentence
    assert choice.settings.views == str(out / "policy.json")
    assert 0 < json.loads((out / "seconds.json").read_text())["seconds"] < 600


def test_a_search_that_is_stopped_twice_finds_the_same(whole, tmp_path, monkeypatch):
    out, choice = whole
    with signalled(1), pytest.raises(Stopped, match="the same command goes on from here"):
        self_augment(TINY, tmp_path, **FIGURES)
    judged = []

    class Killed(Exception):
        pass

    def dies(self, source):
        judged.append(source)
        if len(judged) == 18:
            raise Killed
        return old(self, source)

    old = HeldOutLosses.__call__
    monkeypatch.setattr(HeldOutLosses, "__call__", dies)
    with pytest.raises(Killed):
        self_augment(TINY, tmp_path, **FIGURES)
    judged.clear()
    monkeypatch.setattr(HeldOutLosses, "__call__", lambda self, source: judged.append(source) or old(self, source))
    assert self_augment(TINY, tmp_path, **FIGURES).policy == choice.policy
    assert len(judged) == 2 + 2 * 24 - 10  # the plain views of both folds, and the trials that were not kept
    assert (tmp_path / "policy.json").read_bytes() == (out / "policy.json").read_bytes()
    with pytest.raises(CoviewsError, match="holds a search with another seed"):
        self_augment(TINY.replaced(seed=1), tmp_path, **FIGURES)
    with pytest.raises(CoviewsError, match="holds a search with another images or figures"):
        self_augment(TINY, tmp_path, **{**FIGURES, "trials": 30})


def test_the_policy_is_trained_with_stopped_and_resumed(whole, tmp_path):
    _, choice = whole
    settings = choice.settings.replaced(epochs=2, report=True, views_global=3)
    pretrain(settings=settings.replaced(out=tmp_path / "whole"), progress=False)
    with signalled(4), pytest.raises(Stopped):
        pretrain(settings=settings.replaced(out=tmp_path / "run"), progress=False)
    pretrain(resume=tmp_path / "run", progress=False)
    assert not differing(content(tmp_path / "whole"), content(tmp_path / "run"))
    page = (tmp_path / "run" / "report.html").read_text()
    assert "views of the policy that was given" in page


def test_the_command_trains_with_what_it_found(tmp_path, monkeypatch, capsys):
    for name, figure in (("folds", 2), ("trials", 2), ("repeats", 1), ("best", 1)):
        monkeypatch.setitem(self_augment.__kwdefaults__, name, figure)
    words = ["shapes:40", "--size", "12", "--encoder", "resnet8", "--batch-size", "16", "--epochs", "1"]
    command = ["pretrain", *words, "--views", "selfaugment", "--knn-every", "0", "--out", str(tmp_path / "run")]
    assert main([*command, "--no-report", "--no-tensorboard", "--pilot-epochs", "1"]) == 0
    assert "SelfAugment kept" in capsys.readouterr().out
    assert read_settings(tmp_path / "run" / "config.yaml").views == str(tmp_path / "run" / "choice" / "policy.json")
    assert (tmp_path / "run" / "encoder.safetensors").exists()


def test_what_cannot_be_done_is_named(tmp_path):
    with pytest.raises(CoviewsError, match=r"call coviews\.self_augment\(settings, out\) first"):
        pretrain(settings=TINY, progress=False)
    with pytest.raises(CoviewsError, match="give --batch-size 4"):
        self_augment(TINY.replaced(batch_size=40), tmp_path / "a", **FIGURES)
    with pytest.raises(CoviewsError, match="two folds or more"):
        self_augment(TINY, tmp_path / "b", folds=1)
    images = np.random.default_rng(0).integers(0, 256, (40, 12, 16, 3), np.uint8)
    np.save(tmp_path / "wide.npy", images)
    with pytest.raises(CoviewsError, match="needs square images"):
        self_augment(TINY.replaced(data=str(tmp_path / "wide.npy"), size=None), tmp_path / "d", **FIGURES)
