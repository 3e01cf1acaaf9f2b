"""`pretrain` from a user's side: it learns, it watches, it says what is wrong."""

import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import coviews
from coviews import CoviewsError, pretrain
from coviews.cli import main
from coviews.methods.simclr import SimCLR
from coviews.runs.folder import Run
from coviews.runs.settings_file import settings_yaml
from coviews.searching.ppo_search import PPOSearch
from coviews.training.monitor import collapse_warning
from coviews.training.schedule import learning_rate
from small_runs import SMALL

FAST = SMALL.replaced(epochs=2, views="uniform", knn_every=0)


@pytest.fixture
def no_guards(monkeypatch):
    """An encoder that has seen a hundred images is no judge of a policy."""
    monkeypatch.setattr(PPOSearch, "objection", staticmethod(lambda policy: None))


def records(run, kind):
    return [r for r in Run(run).metrics() if r["kind"] == kind]


def test_it_learns_and_leaves_what_it_should(no_guards, tmp_path, capsys):
    settings = SMALL.replaced(
        data="shapes:600", size=32, epochs=12, batch_size=64, lr=0.12, warmup_epochs=4, search={"every": 4},
        knn_every=6, projector=None, temperature=0.5, tensorboard=True, out=tmp_path / "run",
    )  # fmt: skip
    done = pretrain(settings=settings)
    looks = records(done.path, "look")
    assert [r["epoch"] for r in looks] == [0, 6, 12]
    signals = json.loads((done.path / "check.json").read_text())["signals"]
    assert signals["retrieval"] > 2 * signals["untrained_retrieval"]  # kNN tells little after so few steps
    losses = [r["loss"] for r in records(done.path, "epoch")]
    assert len(losses) == 12
    assert losses[-1] < losses[0] - 0.1
    searches = records(done.path, "search")
    assert [r["epoch"] for r in searches] == [5, 9]
    assert np.array(searches[0]["shares"]).shape == (2, 2, 16)
    assert np.allclose(np.sum(searches[0]["shares"], -1), 1, atol=1e-3)
    assert searches[1]["queue"]["epochs"] == [9, 5]
    assert sorted(p.name for p in (done.path / "policies").iterdir()) == ["0005.safetensors", "0009.safetensors"]
    assert list((done.path / "tensorboard").iterdir())
    said = capsys.readouterr().err
    assert "epoch 12/12: loss" in said
    assert "kNN accuracy" in said
    assert "search" in said
    snippet = next(line for line in said.splitlines() if line.startswith("load it")).removeprefix("load it").strip()
    names: dict = {}
    exec(snippet, names)
    x = torch.randn(3, 3, 32, 32)
    assert torch.equal(names["encoder"](x), done.encoder.eval()(x))
    assert names["encoder"].normalisation[0] == pytest.approx(records(done.path, "start")[0]["mean"])


def test_tensorboard_has_the_numbers(no_guards, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    pretrain(settings=SMALL.replaced(tensorboard=True, out=tmp_path / "run"), progress=False)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    names = set(events.Tags()["scalars"])
    assert {"training/loss", "training/lr", "training/images per second", "training/waiting for views"} <= names
    assert {"search/reward", "search/over the bound", "search/entropy", "search/operation Rotate"} <= names
    assert {"search/queue weight 1", "encoder/knn", "encoder/rankme"} <= names
    losses = [r["loss"] for r in records(tmp_path / "run", "epoch")]
    assert [e.value for e in events.Scalars("training/loss")] == pytest.approx(losses)


@pytest.mark.parametrize("method", ["simclr", "moco", "byol", "simsiam"])
def test_every_method_with_learned_views(method, no_guards, tmp_path):
    done = pretrain(settings=SMALL.replaced(method=method, epochs=2, out=tmp_path / "run"), progress=False)
    assert math.isfinite(records(done.path, "epoch")[-1]["loss"])
    assert done.policy is not None
    assert done.policy.kind == "coviews"


@pytest.mark.parametrize(
    "views", ["random", "uniform", "randaugment", "trivialaugment", "simclr", "hardviews", "indepviews", "coviews"]
)
def test_every_view_source(views, no_guards, tmp_path):
    done = pretrain(settings=SMALL.replaced(views=views, epochs=2, knn_every=0, out=tmp_path / "run"), progress=False)
    assert (done.policy is not None) == (views in ("coviews", "indepviews"))
    if done.policy is not None:
        assert done.policy.kind == views
        file = done.path / "policies" / "0002.safetensors"
        pretrain(settings=FAST.replaced(views=str(file), out=tmp_path / "fixed"), progress=False)


def test_mixed_precision(tmp_path):
    for views in ("coviews", "hardviews"):
        settings = SMALL.replaced(precision="bf16-mixed", views=views, hard_views=3, epochs=2, out=tmp_path / views)
        done = pretrain(settings=settings, progress=False)
        assert math.isfinite(records(done.path, "epoch")[-1]["loss"])
        assert all(p.dtype == torch.float32 for p in done.encoder.parameters())


def test_a_search_leaves_the_training_as_it_is(tmp_path, monkeypatch):
    import coviews.training.pretrain

    old, searched = coviews.training.pretrain.search_policy, []

    def spy(training, search):
        before = {k: v.clone() for k, v in training.bare.state_dict().items()}
        old(training, search)
        assert all(torch.equal(v, before[k]) for k, v in training.bare.state_dict().items())
        searched.append(training.epoch)

    monkeypatch.setattr(coviews.training.pretrain, "search_policy", spy)
    pretrain(settings=SMALL.replaced(method="moco", out=tmp_path / "run"), progress=False)
    assert searched == [2, 3, 4]


def test_the_learning_rate_rises_and_falls():
    settings = FAST.replaced(epochs=100, batch_size=512, lr=0.03)
    rates = [learning_rate(settings, step, 5) for step in range(500)]
    assert max(rates) == pytest.approx(0.06)
    assert np.argmax(rates) == 50
    assert (np.diff(rates[:51]) > 0).all()
    assert (np.diff(rates[50:]) < 0).all()
    assert rates[-1] < 1e-6
    assert rates[275] == pytest.approx(0.03, abs=1e-3)


def statistics(**changes):
    step = {"over": 0.1, "entropy": 4.0, "reward": 1.0}
    usual = {"stopped": None, "first": step, "last": step, "loss": 4.6, "over": 0.1, "reference": 4.5, "chance": 5.5}
    return coviews.Policy.untrained(coviews.space("autoaugment"), np.random.default_rng(0)).with_statistics(
        {**usual, **changes}
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"over": 0.6}, "over the bound"),
        ({"last": {"over": 0.1, "entropy": 0.5}}, "entropy"),
        ({"loss": 5.49}, "lose their image"),
        ({"loss": 5.7, "reference": 5.6}, None),  # an encoder that tells nothing apart is no fault of the policy
        ({"stopped": "3 rewards are not finite"}, "ended early"),
        ({"last": None, "first": None, "loss": None}, "learned nothing"),
    ],
)
def test_guards(changes, said):
    found = PPOSearch.objection(statistics(**changes))
    assert (found is None) if said is None else said in found


def test_a_refused_policy_is_not_used_and_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(PPOSearch, "objection", staticmethod(lambda policy: "it is bad"))
    done = pretrain(settings=SMALL.replaced(out=tmp_path / "run", epochs=3))
    assert done.policy is None
    assert list((done.path / "policies").iterdir()) == []
    assert "not used: it is bad; views stay random" in capsys.readouterr().err
    assert [r["refused"] for r in records(done.path, "search")] == ["it is bad"] * 2
    assert len(records(done.path, "warning")) >= 2


def test_a_policy_refused_later_leaves_the_last_good_one(tmp_path, monkeypatch):
    answers = iter([None, "it is bad", None])
    monkeypatch.setattr(PPOSearch, "objection", staticmethod(lambda policy: next(answers)))
    done = pretrain(settings=SMALL.replaced(out=tmp_path / "run"), progress=False)
    assert [r["queue"]["epochs"] for r in records(done.path, "search")] == [[2], [2], [4, 2]]


def test_a_loss_that_is_no_number_stops_and_keeps_the_good_state(tmp_path, monkeypatch):
    old, calls = SimCLR.losses, []

    def breaks(method, views):
        calls.append(1)
        found = old(method, views)
        return found._replace(each=found.each * math.nan) if len(calls) == 8 else found

    monkeypatch.setattr(SimCLR, "losses", breaks)
    run = tmp_path / "run"
    with pytest.raises(CoviewsError, match=r"loss is nan in epoch 3.*lower --lr.*last.pt"):
        pretrain(settings=FAST.replaced(epochs=4, save_every=0, out=run), progress=False)
    state = Run(run).load()
    assert (state["epoch"], state["step"]) == (3, 1)
    assert all(torch.isfinite(v).all() for v in state["method"].values())


def test_collapse_is_said(tmp_path, capsys):
    assert collapse_warning(0.9) is None
    assert "collapsed" in collapse_warning(0.01)
    assert "RankMe 1" in collapse_warning(0.9, 1.002)
    assert collapse_warning(0.9, 3.0) is None

    class Constant(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.ones(4))

        def forward(self, x):
            return self.bias + 0 * x.mean((1, 2, 3))[:, None]

    pretrain(
        "shapes:64", encoder=Constant(), settings=FAST.replaced(method="simsiam", knn_every=1, out=tmp_path / "run")
    )
    said = capsys.readouterr().err
    assert "warning: epoch 1: the representation has collapsed" in said  # at the first look
    assert "warning: epoch 0" not in said


def test_the_users_random_state_is_left_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    pretrain(settings=FAST.replaced(out=tmp_path / "run"), progress=False)
    assert torch.equal(torch.rand(3), expected)


def test_starting_from_another_runs_encoder(tmp_path):
    first = pretrain(settings=FAST.replaced(out=tmp_path / "first"), progress=False)
    start = records(tmp_path / "first", "start")
    assert start[0]["parameters"] > 1e6
    second = FAST.replaced(out=tmp_path / "second", init_from=tmp_path / "first", seed=3, lr=1e-9, epochs=1)
    done = pretrain(settings=second, progress=False)
    for one, other in zip(first.encoder.parameters(), done.encoder.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    with pytest.raises(CoviewsError, match="is not of the encoder resnet18"):
        pretrain(settings=second.replaced(out=tmp_path / "third", encoder="resnet18"), progress=False)


def test_checkpoints_are_kept_when_asked(tmp_path):
    pretrain(settings=FAST.replaced(epochs=4, keep_every=2, out=tmp_path / "run"), progress=False)
    names = sorted(p.name for p in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["epoch-0002.pt", "epoch-0004.pt", "last.pt"]


def write_images(folder, n, size=(16, 16), broken=0):
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for i in range(n):
        Image.fromarray(rng.integers(0, 256, (*size, 3), np.uint8)).save(folder / f"{i:03}.png")
    for i in range(broken):
        (folder / f"broken-{i}.png").write_bytes(b"nothing")


def said_by(arguments, capsys):
    code = main(["pretrain", *map(str, arguments)])
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return code, [line for line in error.splitlines() if line.startswith("error:")]


def test_bad_input_is_one_line_with_exit_code_2(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "few", 10)
    write_images(tmp_path / "bad", 40, broken=10)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    cases = [
        (["shapes", "--method", "simcrl"], "did you mean 'simclr'"),
        (["shapes", "--views", "covews"], "did you mean 'coviews'"),
        (["shapes", "--encoder", "resnet81"], "did you mean"),
        (["shapes:300", "--encoder", "timm/resnet1"], "did you mean 'timm/resnet"),
        (["nowhere"], "there is no file or folder"),
        (["few", "--encoder", "resnet8"], "few has 10 images, fewer than a batch of 256: give --batch-size 2"),
        (["few", "--encoder", "resnet8", "--batch-size", "4", "--search", "ppo"], "a search needs 128 images"),
        (["bad", "--encoder", "resnet8", "--batch-size", "4"], "broken"),
        (["shapes:300", "--encoder", "resnet8", "--out", "full"], "is not empty"),
        (["shapes:300", "--encoder", "timm/vit_tiny_patch16_224", "--size", "10"], "cannot take"),
        (["--resume", "few"], "is not a run"),
        (["shapes:300", "--search.every", "5"], "--search.every is an option of --search ppo, and the search is table"),
        (["shapes:300", "--search", "ppo", "--search.most-over=0.2"], "is an option of --search table"),
        (["shapes:300", "--method", "byol", "--search.prior", "simclr"], "is an option of --search table"),
        (["shapes:300", "--bank", "512"], "--bank is an option of --method moco, and the method is simclr"),
        (["shapes:300", "--method", "moco", "--predictor", "9"], "is an option of --method byol and simsiam"),
        (["shapes:300", "--search", "tabel"], "unknown search 'tabel': did you mean 'table'"),
        (["shapes:300", "--search-every", "5"], "--search-every is now called --search.every"),
        (["shapes:300", "--warm-start"], "--warm-start is now called --search.warm-start"),
        (["shapes:300", "--prior", "simclr"], "--prior is now called --search.prior"),
        (["shapes:300", "--search.by", "ppo"], "--search.by is now called --search"),
        (["shapes:300", "--search.ppo.iterations", "5"], "is now called --search.iterations, with --search ppo"),
        (["shapes:300", "--search.table.most_over", "0"], "is now called --search.most-over, with --search table"),
        (["--preset", "paper-cifar"], "did you mean 'paper-cifar10"),
        (["--config", "missing.yaml"], "there is no file missing.yaml"),
        (["--preset", "paper-cifar10"], "--download"),
        (["shapes:300", "--encoder", "resnet8", "--accelerator", "cuda"], "cannot use --accelerator cuda"),
        (["shapes:300", "--encoder", "resnet8", "--wandb"], "pip install wandb"),
        (["shapes:300", "--encoder", "resnet8", "--test-data", "few"], "no labels"),
    ]
    for arguments, wanted in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code, said = said_by(arguments, capsys)
        assert code == 2, (arguments, said)
        assert len(said) == 1, (arguments, said)
        assert wanted in said[0], (arguments, said)
    assert (tmp_path / "full" / "file").read_text() == "mine"


def test_an_out_directory_that_holds_a_run(tmp_path, capsys):
    (tmp_path / "c.yaml").write_text(settings_yaml(FAST))
    base = ["--config", tmp_path / "c.yaml", "--out", tmp_path / "run", "--no-progress"]
    assert said_by(base, capsys)[0] == 0
    code, said = said_by(base, capsys)
    assert code == 2
    assert "--resume" in said[0]
    assert "--overwrite" in said[0]
    (tmp_path / "run" / "mine.txt").write_text("mine")
    assert said_by([*base, "--overwrite", "--seed", 4], capsys)[0] == 0
    assert Run(tmp_path / "run").settings.seed == 4
    assert (tmp_path / "run" / "mine.txt").read_text() == "mine"  # what is not the run's stays
    assert said_by(["--resume", tmp_path / "run", "--no-progress"], capsys)[0] == 0
    code, said = said_by(["--resume", tmp_path / "run", "--lr", 1.0], capsys)
    assert code == 2
    assert "another lr" in said[0]


def test_broken_and_differing_images_are_said_and_listed(tmp_path, capsys):
    write_images(tmp_path / "images", 150, broken=1)
    Image.new("RGB", (40, 20)).save(tmp_path / "images" / "wide.png")
    done = pretrain(tmp_path / "images", settings=FAST.replaced(size=None, out=tmp_path / "run"))
    said = capsys.readouterr().err
    kept = [r["text"] for r in records(done.path, "warning")]
    for words in ("1 broken and skipped", "1 of 152 images are not of the most common size"):
        assert said.count(words) == 1
        assert sum(words in text for text in kept) == 1
    assert "broken-0.png" in (done.path / "broken.txt").read_text()
    assert records(done.path, "start")[0]["broken"] == 1


def test_images_without_labels_get_rankme(tmp_path):
    write_images(tmp_path / "images", 70)
    done = pretrain(
        tmp_path / "images", settings=FAST.replaced(knn_every=1, size=None, out=tmp_path / "run"), progress=False
    )
    assert "knn" not in done.quality
    assert done.quality["rankme"] > 1


def test_a_damaged_line_of_metrics_is_skipped(tmp_path):
    pretrain(settings=FAST.replaced(out=tmp_path / "run"), progress=False)
    path = tmp_path / "run" / "metrics.jsonl"
    whole = len(Run(tmp_path / "run").metrics())
    path.write_text(path.read_text() + '{"kind":"epo')
    assert len(Run(tmp_path / "run").metrics()) == whole
    assert all(json.loads(line) for line in path.read_text().splitlines()[:-1])


def test_default_out_is_named_by_data_and_views(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = pretrain(settings=FAST, progress=False)
    assert done.path.parent == Path("runs")
    assert done.path.name.startswith("shapes-100-uniform-")


def test_python_values_of_every_kind(tmp_path):
    images = coviews.load_images("shapes:64", size=16).images
    done = pretrain(
        images, settings=FAST, out=str(tmp_path / "run"), lr=np.float64(0.1), epochs=np.int64(1), progress=False
    )
    assert Run(done.path).settings.lr == 0.1
    with pytest.raises(CoviewsError, match="lr must be of the type float"):
        pretrain(images, settings=FAST, lr="fast")


def test_no_look_no_accuracy(tmp_path, capsys):
    done = pretrain(settings=FAST.replaced(out=tmp_path / "run"))
    assert done.quality == {}
    assert "kNN" not in capsys.readouterr().err


def test_what_a_kill_left_of_a_run_that_had_not_begun_is_no_obstacle(tmp_path):
    for name in ("checkpoints", "policies"):
        (tmp_path / "run" / name).mkdir(parents=True)
    (tmp_path / "run" / ".lock").touch()
    (tmp_path / "run" / ".config.yaml.1.partial").touch()
    pretrain(settings=FAST.replaced(out=tmp_path / "run"), progress=False)


def test_weights_that_are_used_twice_are_saved(tmp_path):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(16 * 16 * 3, 8)
            self.again = self.first

        def forward(self, x):
            return self.first(x.flatten(1)) + self.again(x.flatten(1))

    done = pretrain("shapes:64", encoder=Tied(), settings=FAST.replaced(epochs=1, out=tmp_path / "run"), progress=False)
    assert coviews.load_encoder(done.path, into=Tied()).first.weight.isfinite().all()


def test_a_missing_tracker_is_said_before_a_run_is_replaced(tmp_path):
    run = tmp_path / "run"
    pretrain(settings=FAST.replaced(out=run), progress=False)
    with pytest.raises(CoviewsError, match="pip install wandb"):
        pretrain(settings=FAST.replaced(out=run), wandb=True, overwrite=True, progress=False)
    assert (run / "encoder.safetensors").exists()
    pretrain(resume=run, progress=False)  # and it is not locked
