"""Named settings: the paper's, and the demonstration."""

from coviews.errors import unknown
from coviews.methods.moco import MoCoSettings
from coviews.methods.simclr import SimCLRSettings
from coviews.runs.settings import PretrainSettings
from coviews.searching.ppo import PPOSettings

_PAPER = PretrainSettings(
    views="coviews",
    encoder="resnet50",
    method=SimCLRSettings(temperature=0.5),
    batch_size=512,
    space="autoaugment",
    search=PPOSettings.paper(),
    precision="32-true",
    lr=0.03,
    weight_decay=5e-4,
)

PRESETS: dict[str, PretrainSettings] = {
    "demo": PretrainSettings(
        data="shapes",
        encoder="resnet8",
        epochs=16,
        batch_size=128,
        lr=0.12,
        warmup_epochs=4,
        knn_every=4,
    ),
    "paper-cifar10": _PAPER.replaced(data="cifar10", test_data="cifar10:test", epochs=800),
    "paper-cifar100": _PAPER.replaced(data="cifar100", test_data="cifar100:test", epochs=800),
    "paper-svhn": _PAPER.replaced(data="svhn", test_data="svhn:test", epochs=400),
    "paper-stl10": _PAPER.replaced(data="stl10:train+unlabeled", epochs=400, batch_size=256),
    "paper-tinyimagenet": _PAPER.replaced(
        data="tinyimagenet", test_data="tinyimagenet:val", epochs=400, batch_size=256
    ),
    "paper-cifar10-10": _PAPER.replaced(data="cifar10", test_data="cifar10:test", epochs=800, subset="10%"),
    "paper-stl10-5": _PAPER.replaced(data="stl10:train+unlabeled", epochs=400, batch_size=256, subset="5000"),
    "paper-moco-4096": _PAPER.replaced(
        data="cifar10", test_data="cifar10:test", method=MoCoSettings(bank=4096, momentum=0.99), epochs=200
    ),
    "paper-moco-65536": _PAPER.replaced(
        data="cifar10", test_data="cifar10:test", method=MoCoSettings(bank=65536, momentum=0.99), epochs=200
    ),
}


def preset(name: str) -> PretrainSettings:
    """Settings by name."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]
