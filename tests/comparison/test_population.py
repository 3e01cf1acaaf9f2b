"""A population: members that are copied and changed, a kill at any moment, and the schedule in a training."""

import json

import numpy as np
import pytest
import torch

import coviews.comparison.population as module
from coviews import CoviewsError, load_images, population_augment, pretrain
from coviews.cli import main
from coviews.comparison.plan import view_variants
from coviews.evaluation.knn import knn_accuracy, usable_k
from coviews.policies.named import named_source
from coviews.policies.schedule import Schedule, ScheduledOperation, Stage
from coviews.runs.settings_file import read_settings
from coviews.training.signals import Stopped
from coviews.training.state import Training
from small_runs import SMALL, content, differing, signalled

TINY = SMALL.replaced(views="population", space=None, epochs=30, data="shapes:40", size=12, batch_size=16, knn_every=0)
FIGURES = {"members": 4, "every": 1, "progress": False}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted population of three rounds, with what happened in it."""
    out, events = tmp_path_factory.mktemp("whole"), []
    train_member = module._Population._train_member

    def noted(self, number, operations, until, fabric):
        before = self._path(number) / "checkpoints" / "last.pt"
        weights = torch.load(before, weights_only=True)["method"] if before.exists() else None
        score = train_member(self, number, operations, until, fabric)
        after = torch.load(before, weights_only=True)
        assert after["epoch"] == until + 1
        events.append((until, number, operations, score, weights, after["method"]))
        return score

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._Population, "_train_member", noted)
        choice = population_augment(TINY, out, **FIGURES)
    return out, choice, events


def test_the_worst_member_goes_on_from_the_best(whole):
    _, _, events = whole
    assert [(until, number) for until, number, *_ in events] == [(e, m) for e in (1, 2, 3) for m in range(4)]
    for until in (1, 2):
        ended, begun = (events[4 * (until - 1 + later) :][:4] for later in (0, 1))
        scores = [score for _, _, _, score, _, _ in ended]
        order = sorted(range(4), key=lambda member: -scores[member])
        for number in range(4):
            ancestor = order[0] if number == order[-1] else number
            before, after = ended[ancestor], begun[number]
            assert all(torch.equal(before[5][name], after[4][name]) for name in after[4])
            assert (before[2] == after[2]) == (number != order[-1])  # the copy has other operations


def test_the_schedule_is_that_of_the_best_members_ancestors(whole):
    out, choice, events = whole
    scores = {until: [e[3] for e in events if e[0] == until] for until in (1, 2, 3)}
    assert choice.scores == scores[3]
    member, lineage = int(np.argmax(scores[3])), []
    for until in (3, 2, 1):
        lineage.insert(0, next(e[2] for e in events if e[:2] == (until, member)))
        if until > 1:
            order = sorted(range(4), key=lambda m: -scores[until - 1][m])
            member = order[0] if member == order[-1] else member
    played = [choice.schedule.at((epoch - 1) / 3).stage.operations for epoch in (1, 2, 3)]
    assert played == lineage
    assert named_source(str(out / "schedule.json")).stages == choice.schedule.stages
    assert not (out / "members").exists()
    assert f"{max(scores[3]):.3f}" in choice.sentence


def test_a_population_that_is_killed_three_times_learns_the_same(whole, tmp_path, monkeypatch):
    out, choice, _ = whole

    class Killed(Exception):
        pass

    def dies(*_):
        raise Killed

    with monkeypatch.context() as patch:  # a member is trained, but not judged
        patch.setitem(module.SCORES, "rotation", dies)
        with pytest.raises(Killed):
            population_augment(TINY, tmp_path, **FIGURES)
    copy = module.shutil.copyfileobj
    with monkeypatch.context() as patch:  # metrics are copied, but no weights, and nobody has noted it
        patch.setattr(module.shutil, "copyfileobj", lambda *files: copy(*files) if "jsonl" in files[0].name else dies())
        with pytest.raises(Killed):
            population_augment(TINY, tmp_path, **FIGURES)
    with signalled(lambda t: t.epoch == 2 and t.step == 1), pytest.raises(Stopped, match="goes on from here"):
        population_augment(TINY, tmp_path, **FIGURES)
    again = population_augment(TINY, tmp_path, **FIGURES)
    assert again.scores == choice.scores
    assert (tmp_path / "schedule.json").read_bytes() == (out / "schedule.json").read_bytes()


def test_knn_judges_where_labels_may_be_used(tmp_path):
    images, judged = load_images("shapes:40", size=12), []

    def noted(t):
        from coviews.encoders.features import features

        bank, k = features(t.bare.encoder, images.images, t.views.mean, t.views.std), usable_k(None, 39)
        judged.append(knn_accuracy(bank, images.labels, bank, images.labels, k=k, leave_one_out=True))
        return old(t)

    old = module.SCORES["knn"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(module.SCORES, "knn", noted)
        choice = population_augment(TINY, tmp_path / "a", members=2, epochs=1, score="knn", progress=False)
    assert choice.scores == pytest.approx(judged)
    np.save(tmp_path / "unlabelled.npy", images.images)
    unlabelled = TINY.replaced(data=str(tmp_path / "unlabelled.npy"), size=None)
    with pytest.raises(CoviewsError, match="has no labels to judge by kNN"):
        population_augment(unlabelled, tmp_path / "b", members=2, score="knn", progress=False)


def test_a_schedule_is_replayed_stopped_and_resumed(tmp_path, monkeypatch):
    """Each epoch is drawn from the stage that holds then, also after a stop."""
    inverted, cut = ((ScheduledOperation(op, 10, 9),) * 2 for op in ("Invert", "Cutout"))
    Schedule((Stage(1, inverted), Stage(2, cut))).save(tmp_path / "schedule.json")
    settings = TINY.replaced(views=str(tmp_path / "schedule.json"), epochs=3, report=True, save_every=0.0)
    drawn, old = [], Training.harder

    def noted(self, views, plan):
        drawn.append((self.epoch, {plan.space.ops[op] for op in np.unique(plan.ops)}))
        return old(self, views, plan)

    monkeypatch.setattr(Training, "harder", noted)
    pretrain(settings=settings.replaced(out=tmp_path / "whole"), progress=False)
    assert [ops - {"Identity"} for _, ops in drawn] == [{"Invert"}] * 2 + [{"Cutout"}] * 4
    with signalled(lambda t: t.epoch == 2 and t.step == 1), pytest.raises(Stopped):
        pretrain(settings=settings.replaced(out=tmp_path / "run"), progress=False)
    pretrain(resume=tmp_path / "run", progress=False)
    assert not differing(content(tmp_path / "whole"), content(tmp_path / "run"))
    page = (tmp_path / "run" / "report.html").read_text()
    assert "views of the policy that was given" in page
    assert "Invert" not in page.split("views of the policy that was given")[1][:20_000]  # the last stage is shown


def test_the_command_trains_with_what_it_learned(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(population_augment.__kwdefaults__, "members", 2)
    words = ["shapes:40", "--size", "12", "--encoder", "resnet8", "--batch-size", "16", "--epochs", "1"]
    command = ["pretrain", *words, "--views", "population", "--knn-every", "0", "--out", str(tmp_path / "run")]
    assert main([*command, "--no-report", "--no-tensorboard", "--pilot-epochs", "1", "--pilot-score", "knn"]) == 0
    assert "its knn score is" in capsys.readouterr().out
    schedule = tmp_path / "run" / "choice" / "schedule.json"
    assert read_settings(tmp_path / "run" / "config.yaml").views == str(schedule)
    assert json.loads(schedule.read_text())["statistics"]["score"] == "knn"
    assert (tmp_path / "run" / "encoder.safetensors").exists()
    variants = view_variants(TINY.replaced(views="recipe"), [str(schedule), "recipe"])
    assert {name: settings.views for name, settings in variants.items()} == {
        "schedule": str(schedule),
        "recipe": "recipe",
    }
    with pytest.raises(CoviewsError, match="schedule is named twice"):
        view_variants(TINY.replaced(views="recipe"), [str(schedule), str(tmp_path / "other" / "schedule.json")])


def test_what_cannot_be_done_is_named(tmp_path):
    with pytest.raises(CoviewsError, match=r"call coviews\.population_augment\(settings, out\) first"):
        pretrain(settings=TINY, progress=False)
    with pytest.raises(CoviewsError, match="two members or more"):
        population_augment(TINY, tmp_path / "a", members=1)
    with pytest.raises(CoviewsError, match="there are: rotation, knn"):
        population_augment(TINY, tmp_path / "a", score="beauty")
    with pytest.raises(CoviewsError, match="for images that have an up"):
        population_augment(TINY.replaced(quarter_turns=0.75), tmp_path / "a", progress=False)
    assert main(["pretrain", "shapes:40", "--pilot-score", "knn"]) == 2
