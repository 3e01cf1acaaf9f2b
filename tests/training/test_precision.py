"""Which precision a run has, and that its losses have 32 bits whatever the layers have."""

import pytest
import torch
from torch import nn

from coviews import CoviewsError, pretrain
from coviews.comparison.compare import _with_precision
from coviews.comparison.plan import Plan
from coviews.comparison.results import Results
from coviews.methods.known import METHODS, make_method
from coviews.runs.folder import Run
from coviews.runs.presets import PRESETS
from coviews.runs.settings import PretrainSettings
from coviews.runs.settings_file import settings_of
from coviews.training.precision import fast_precision
from coviews.training.setup import final_settings
from coviews.training.signals import Stopped
from small_runs import SMALL, content, differing, signalled

SHORT = SMALL.replaced(views="recipe", epochs=2, knn_every=0)


@pytest.fixture
def machine(monkeypatch):
    """Makes this machine one whose processor has the instructions that are named, and with or without a GPU."""

    def become(*instructions, gpu=False, gpu_has_bf16=True):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(instructions, True), raising=False)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: gpu_has_bf16)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    return become


@pytest.mark.parametrize(
    ("accelerator", "instructions", "gpu", "gpu_has_bf16", "expected"),
    [
        ("cpu", ["avx2", "avx512_bf16"], False, False, "bf16-mixed"),
        ("auto", ["amx_bf16"], False, False, "bf16-mixed"),
        ("cpu", ["avx2", "avx512_f"], False, True, "32-true"),
        ("cpu", [], True, True, "32-true"),
        ("auto", [], True, True, "bf16-mixed"),
        ("cuda", ["avx512_bf16"], True, False, "32-true"),
        ("mps", ["avx512_bf16"], False, False, "32-true"),
    ],
)
def test_bf16_where_the_device_computes_in_it(machine, accelerator, instructions, gpu, gpu_has_bf16, expected):
    machine(*instructions, gpu=gpu, gpu_has_bf16=gpu_has_bf16)
    assert fast_precision(accelerator) == expected
    settings = PretrainSettings(accelerator=accelerator)
    assert final_settings(settings, None, {}, demo=False).precision == expected
    given = settings.replaced(precision="16-mixed")
    assert final_settings(given, None, {}, demo=False).precision == "16-mixed"


def test_a_run_keeps_the_precision_of_the_machine_that_it_began_on(machine, tmp_path, capsys):
    machine("avx512_bf16")
    pretrain(settings=SHORT.replaced(out=tmp_path / "whole"))
    assert "bf16-mixed precision" in capsys.readouterr().err
    assert Run.open(tmp_path / "whole", writes=False).settings.precision == "bf16-mixed"

    with signalled(2), pytest.raises(Stopped):
        pretrain(settings=SHORT.replaced(out=tmp_path / "run"), progress=False)
    machine()  # another one, without bfloat16
    pretrain(settings=SHORT, resume=tmp_path / "run", progress=False)
    assert not differing(content(tmp_path / "whole"), content(tmp_path / "run"))
    with pytest.raises(CoviewsError, match="another precision"):
        pretrain(resume=tmp_path / "run", precision="32-true", progress=False)
    pretrain(settings=SHORT.replaced(out=tmp_path / "full"), progress=False)
    assert "encoder.safetensors" in differing(content(tmp_path / "whole"), content(tmp_path / "full"))


def test_the_papers_and_older_settings_have_32_bits():
    assert {s.precision for name, s in PRESETS.items() if name.startswith("paper")} == {"32-true"}
    assert settings_of({"search_every": 5, "views": "coviews"}, "a file of version 0.1.0").precision == "32-true"


def test_a_comparison_has_one_precision(machine):
    auto = PretrainSettings()
    plan = Plan({"one": auto, "two": auto, "own": auto.replaced(precision="16-mixed")}, (0,))

    def precisions(results):
        return [s.precision for s in _with_precision(plan, results).variants.values()]

    machine("avx512_bf16")
    assert precisions(Results()) == ["bf16-mixed", "bf16-mixed", "16-mixed"]
    began_elsewhere = Results({"one": auto.replaced(precision="32-true")})
    assert precisions(began_elsewhere) == ["32-true", "32-true", "16-mixed"]
    mixed = Results({"one": auto.replaced(precision="32-true"), "other": auto.replaced(precision="16-mixed")})
    assert precisions(mixed) == ["32-true", "bf16-mixed", "16-mixed"]


@pytest.mark.parametrize("name", METHODS)
def test_losses_have_32_bits_whatever_the_layers_have(name):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU())
    options = {"moco": {"bank": 64}, "dino": {"prototypes": 20}}.get(name, {})
    method = make_method(METHODS[name].settings_type(**options), encoder, 16)
    views = [torch.randn(16, 3, 2, 2) for _ in range(2)]
    with torch.autocast("cpu", torch.bfloat16):
        assert method.encoder[:2](views[0]).dtype == torch.bfloat16  # so it is in force
        losses = method.losses(views)
    assert losses.each.dtype == losses.embedding.dtype == torch.float32
    assert not torch.equal(losses.each, losses.each.bfloat16().float())
    torch.testing.assert_close(losses.embedding.norm(dim=1), torch.ones(32), atol=1e-6, rtol=0)
