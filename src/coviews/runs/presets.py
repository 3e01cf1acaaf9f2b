"""Named settings: the paper's, those of systems that it names, and the demonstration."""

from coviews.errors import unknown
from coviews.methods.moco import MoCoSettings
from coviews.methods.rotation import RotationSettings
from coviews.methods.simclr import SimCLRSettings
from coviews.policies.network import NetworkSettings
from coviews.runs.settings import PretrainSettings
from coviews.searching.ppo import PPOSettings
from coviews.searching.reward import BoundedReward

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
    # Tamkin et al., Viewmaker Networks, ICLR 2021
    "viewmaker-cifar10": PretrainSettings(
        data="cifar10",
        test_data="cifar10:test",
        views="viewmaker",
        method=SimCLRSettings(temperature=0.07),
        epochs=200,
        batch_size=256,
        lr=0.03,
        weight_decay=1e-4,
    ),
    # Gidaris et al., Unsupervised Representation Learning by Predicting Image Rotations, ICLR 2018: their learning rate
    # falls in steps
    "rotation-cifar10": PretrainSettings(
        data="cifar10",
        test_data="cifar10:test",
        views="crop large, mirror",
        method=RotationSettings(),
        encoder="resnet18",
        epochs=100,
        batch_size=128,
        lr=0.2,  # for 256 images: 0.1 for a batch
        weight_decay=5e-4,
    ),
    # Tian et al., What Makes for Good Views for Contrastive Learning?, NeurIPS 2020: as their code, without the jigsaw
    "infomin": PretrainSettings(
        views="infomin",
        fill="mean",
        encoder="resnet50",
        method=MoCoSettings(bank=65536, momentum=0.999, temperature=0.15),
        epochs=200,
        batch_size=256,
        lr=0.03,
        weight_decay=1e-4,
    ),
    # Zhang et al., Adversarial AutoAugment, ICLR 2020: the policy gets one step of REINFORCE an epoch, without a bound
    "adversarial-autoaugment": PretrainSettings(
        views="indepviews",
        space="autoaugment",
        warmup_epochs=1,
        queue_size=1,
        search=PPOSettings(
            reward=BoundedReward("none"),
            every=1,
            warm_start=True,
            iterations=1,
            samples=8,
            epochs=1,
            minibatch=8,
            images_each=64,
            steps=2,
            p=1.0,
            learning_rate=3.5e-4,
            entropy=1e-5,
            reference="current",
            network=NetworkSettings(hidden=100, embedding=32),
        ),
    ),
}


def preset(name: str) -> PretrainSettings:
    """Settings by name."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]
