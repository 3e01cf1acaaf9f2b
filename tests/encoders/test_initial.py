"""Where a training starts from: runs, files of weights, published weights; other channels and other kernels."""

from pathlib import Path

import pytest
import safetensors.torch
import torch

from coviews import CoviewsError
from coviews.cli import main
from coviews.compat import import_torchvision
from coviews.encoders.architectures import make_encoder
from coviews.encoders.file import load_encoder, save_encoder
from coviews.encoders.initial import adapted, start_from
from coviews.encoders.open import published_model
from coviews.runs.settings import PretrainSettings


def made(name, size, channels=3, seed=0):
    torch.manual_seed(seed)
    return make_encoder(name, size, channels)


def same(one, other, besides=()):
    states = (one.state_dict(), other.state_dict())
    return all(torch.equal(states[0][k], states[1][k]) for k in states[0] if k not in besides)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("before", [1, 3, 5])
def test_equal_channels_give_what_they_gave_before(before, channels):
    weight = torch.randn(4, before, 3, 3, dtype=torch.float64)
    image = torch.randn(2, 1, 8, 8, dtype=torch.float64)
    expected = torch.conv2d(image.expand(-1, before, -1, -1), weight)
    assert torch.allclose(torch.conv2d(image.expand(-1, channels, -1, -1), adapted(weight, channels)), expected)
    assert torch.equal(adapted(weight, before), weight)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", "run"])
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_files_and_runs_of_other_channels(tmp_path, suffix, channels):
    old = made("resnet8", 16)
    weights = {f"module.encoder.{k}": v for k, v in old.state_dict().items()} | {"head.weight": torch.zeros(2, 2)}
    file = tmp_path / f"weights{suffix}"
    if suffix == "run":
        file = tmp_path
        save_encoder(
            tmp_path / "encoder.safetensors", old, name="resnet8", image_size=(16, 16), channels=3, mean=(0.5,) * 3,
            std=(0.25,) * 3,
        )  # fmt: skip
    elif suffix == ".pt":
        torch.save({"state_dict": weights}, file)
    else:
        safetensors.torch.save_file(weights, file)
    new = made("resnet8", 16, channels, seed=1)
    start_from(str(file), new, "resnet8", (16, 16), channels, download=False)
    assert new.training
    assert same(old, new, ["stem.0.0.weight"])
    assert torch.equal(new.stem[0][0].weight, adapted(old.stem[0][0].weight, channels))


@pytest.fixture
def published(monkeypatch):
    """Made-up published weights, without a network; gives what the libraries were asked for."""
    models = import_torchvision().models
    import timm

    asked, create_model, get_model = [], timm.create_model, models.get_model

    def fetched(name, weights):
        if weights is not None:
            asked.append((name, weights))
            torch.manual_seed(7)
        return get_model(name, weights=None)

    def created(name, pretrained, **options):
        if pretrained:
            asked.append((name, options["in_chans"]))
            torch.manual_seed(7)
        return create_model(name, pretrained=False, **options)

    monkeypatch.setattr(models, "get_model", fetched)
    monkeypatch.setattr(timm, "create_model", created)
    return asked


def test_published_weights_of_torchvision(published):
    grey = made("resnet18", 64, 1)
    start_from("resnet18", grey, "resnet18", (64, 64), 1, download=True)
    assert published == [("resnet18", "DEFAULT")]
    torch.manual_seed(7)
    theirs = import_torchvision().models.get_model("resnet18", weights=None)
    assert torch.equal(grey.conv1.weight, theirs.conv1.weight.sum(1, keepdim=True))
    assert same(grey, theirs, ["conv1.weight"])


def test_the_stem_for_small_images_starts_untrained(published):
    small = made("resnet18", 32)
    stem = small.conv1.weight.clone()
    with pytest.warns(UserWarning, match="that of resnet18 has a kernel of 7 x 7, and that for these images 3 x 3"):
        start_from("resnet18", small, "resnet18", (32, 32), 3, download=True)
    assert torch.equal(small.conv1.weight, stem)
    torch.manual_seed(7)
    assert same(small, import_torchvision().models.get_model("resnet18", weights=None), ["conv1.weight"])


def test_published_weights_of_timm(published):
    encoder = made("timm/resnet10t", 64, 5)
    start_from("timm/resnet10t", encoder, "timm/resnet10t", (64, 64), 5, download=True)
    assert published[-1] == ("resnet10t", 5)  # timm adapts the first layer itself
    assert same(encoder, made("timm/resnet10t", 64, 5, seed=7))


@pytest.mark.parametrize("name", ["resnet18", "timm/resnet10t"])
def test_without_a_network_a_file_is_asked_for(published, monkeypatch, name):
    def offline(*_, **__):
        raise OSError("Name or service not known" + " and so on" * 50)

    monkeypatch.setattr(import_torchvision().models, "get_model", offline)
    monkeypatch.setattr("timm.create_model", offline)
    with pytest.raises(CoviewsError, match=rf"Name or service.*pretrain --init-from FILE, .*--architecture {name}$"):
        published_model(name)


@pytest.mark.parametrize(
    ("source", "encoder", "message"),
    [
        ("resnet18", "resnet18", "add --download"),
        ("resnet34", "resnet18", "add --encoder resnet34"),
        ("resnet8", "resnet8", "no published weights"),
        ("resent18", "resnet18", "did you mean 'resnet18'"),
        ("no/such/run", "resnet18", "no run or file no/such/run"),
        ("w.pt", "resnet18", r"w\.pt is not of the encoder resnet18: \d+ weights are missing"),
        ("text.pt", "resnet18", "holds more than weights"),
    ],
)
def test_what_does_not_fit_is_an_error(tmp_path, monkeypatch, source, encoder, message):
    monkeypatch.chdir(tmp_path)
    torch.save(made("resnet8", 32).state_dict(), "w.pt")
    Path("text.pt").write_text("weights")
    with pytest.raises(CoviewsError, match=message):
        start_from(source, made(encoder, 64), encoder, (64, 64), 3, download=source == "resnet34")


def test_a_run_starts_from_a_state_dict(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    encoder = made("resnet8", 16, seed=5)
    torch.save(encoder.state_dict(), "weights.pt")
    assert PretrainSettings().replaced(init_from=Path("weights.pt")).init_from == "weights.pt"
    options = "--size 16 --encoder resnet8 --epochs 1 --batch-size 32 --lr 1e-9 --knn-every 0 --no-report --out run"
    assert main(["pretrain", "shapes:64", "--init-from", "weights.pt", "--no-tensorboard", *options.split()]) == 0
    trained = load_encoder("run")
    for one, other in zip(encoder.parameters(), trained.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
