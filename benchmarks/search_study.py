"""Which search learns most for its time: the study behind the defaults (docs/search-study.md).

An encoder is trained by SimCLR with `uniform` views; each variant of the search then learns policies for it from
several seeds. What counts is the reward of the finished policy on images that the search did not see, less that
of `uniform`, under one reference loss. By hand: it takes about half an hour on two cores.

    python benchmarks/search_study.py path/to/images --json docs/results/search-study.json
"""

import argparse
import json
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import coviews
from coviews import BoundedReward, PPOSettings, ViewSettings, info_nce
from coviews.encoders.frozen import evaluating
from coviews.methods.heads import make_projector
from coviews.methods.losses import chance_loss
from coviews.policies.fixed import Uniform
from coviews.policies.subpolicy import ViewSource
from coviews.searching.ppo_search import Scorer
from coviews.training.pair_losses import PairLosses, encoder_losses
from measure import versions

UNIFORM = Uniform(coviews.space("autoaugment"), 2, 0.8)
BASE = PPOSettings()


def network(**changes: object) -> PPOSettings:
    return replace(BASE, network=replace(BASE.network, **changes))


def ppo(**changes: object) -> PPOSettings:
    return replace(BASE, **changes)


def each(images_each: int, **changes: object) -> PPOSettings:
    """A subpolicy scored on so many images, with the same number of encoder passes in all."""
    return replace(BASE, samples=128 // images_each, images_each=images_each, **changes)


VARIANTS: dict[str, PPOSettings] = {
    "default (hidden 64)": BASE,
    "1 image each (128 samples)": each(1),
    "2 images each (64 samples)": each(2),
    "8 images each (16 samples)": each(8),
    "hidden 16": network(hidden=16),
    "hidden 32": network(hidden=32),
    "hidden 128": network(hidden=128),
    "level not conditioned": network(conditioned=False),
    "levels not masked": network(masked=False),
    "Adam 3e-4": ppo(learning_rate=3e-4),
    "Adam 2e-3": ppo(learning_rate=2e-3),
    "entropy 0.05": ppo(entropy=0.05),
    "entropy 0.2": ppo(entropy=0.2),
    "minibatch 8": ppo(minibatch=8),
    "50 iterations": ppo(iterations=50),
    "the paper's network and PPO": replace(
        PPOSettings.paper(), reward=BASE.reward, reference=BASE.reference, reference_batches=BASE.reference_batches
    ),
}
BOUNDS: dict[str, BoundedReward] = {
    "ratio 1.3": BoundedReward("ratio"),
    "ratio 1.15": BoundedReward("ratio", 1.15),
    "relative 0.69": BoundedReward("relative"),
    "relative 0.5": BoundedReward("relative", 0.5),
}


def train(encoder: nn.Module, images: np.ndarray, views: ViewSettings, epochs: int, generator: np.random.Generator):
    optimizer = torch.optim.SGD(encoder.parameters(), 0.06, momentum=0.9, weight_decay=5e-4)
    for _ in range(epochs):
        order = generator.permutation(len(images))
        for batch in np.array_split(order, len(images) // 256):
            plan = views.plan(UNIFORM, len(batch), images.shape[1:3], generator)
            x1, x2 = coviews.to_tensors(views.make(images[batch], plan), views.mean, views.std)
            loss = info_nce(encoder(x1), encoder(x2)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def trained(data: str, limit: int, epochs: int, generator: np.random.Generator):
    """The images in a random order, how views are made of them, and the encoder that searches are for."""
    images = coviews.load_images(data, limit=limit).images
    images = images[np.random.default_rng(0).permutation(len(images))]
    views = ViewSettings.of(images)
    torch.manual_seed(0)
    backbone = coviews.make_encoder("resnet8")
    encoder = nn.Sequential(backbone, make_projector(backbone.feature_count, 512, 128))
    train(encoder, images, views, epochs, generator)
    return images, views, encoder


def scorer_for(
    encoder: nn.Module,
    images: np.ndarray,
    views: ViewSettings,
    reward: BoundedReward,
    images_each: int,
    generator: np.random.Generator,
) -> Scorer:
    """Scores subpolicies in batches of the default size, on random images."""
    losses = PairLosses(encoder_losses(encoder, 0.5), images, views)
    return Scorer(lambda drawn: losses(drawn, generator, BASE.batch), reward, chance_loss(BASE.batch), images_each)


def judge(encoder: nn.Module, images: np.ndarray, views: ViewSettings, reward: BoundedReward, source: ViewSource):
    """On fresh images: the reward of 1,280 subpolicies by their mean loss on four images each, and what it is like."""
    generator = np.random.default_rng(99)
    scorer = scorer_for(encoder, images, views, reward, 4, generator)
    with evaluating(encoder), torch.inference_mode():
        scorer.measure_reference(UNIFORM.sample(40 * BASE.batch, generator))
        drawn = source.sample(1280, generator)
        scores = scorer(drawn)
        hardness = float(scorer.pair_losses(drawn).mean()) / scorer.reference
        batch = images[generator.permutation(len(images))[:1000]]
        made = views.make(batch, views.plan(source, len(batch), images.shape[1:3], generator))
        z1, z2 = (F.normalize(encoder(x), dim=1) for x in coviews.to_tensors(made, views.mean, views.std))
    return {
        "reward": float(scores.rewards.mean()),
        "hardness": hardness,
        "over": float(scores.over.mean()),
        "cosine": float((z1 * z2).sum(1).mean()),
    }


def run(encoder, images, views, settings: PPOSettings, seed: int, **options: object):
    half = len(images) // 2
    steps: list[coviews.SearchStep] = []
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        policy = coviews.search(
            images[:half], encoder, generator=np.random.default_rng(seed), settings=settings, views=views,
            space_name=UNIFORM.space.name, on_step=steps.append, **options,
        )  # fmt: skip
    took = time.perf_counter() - start
    found = judge(encoder, images[half:], views, settings.reward, policy)
    found |= {"seconds": took, "entropy": steps[-1].entropy, "curve": [round(s.reward, 4) for s in steps]}
    return policy, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="a folder of images, or shapes")
    parser.add_argument("--json", type=Path, default=Path("search-study.json"), help="written as it goes")
    parser.add_argument("--quick", action="store_true", help="under a minute: a trial of the script, not a study")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--limit", type=int, default=5000)
    asked = parser.parse_args()
    variants, bounds = VARIANTS, BOUNDS
    if asked.quick:
        asked.seeds, asked.epochs, asked.limit = 1, 1, 600
        variants = {"default (hidden 64)": ppo(iterations=2), "hidden 16": network(hidden=16)}
        bounds = {"ratio 1.3": BOUNDS["ratio 1.3"]}

    generator = np.random.default_rng(0)
    images, views, encoder = trained(asked.data, asked.limit, asked.epochs, generator)
    results: dict[str, object] = {
        "versions": versions("coviews", "numpy", "torch", "numba", "pillow"),
        "images": len(images), "epochs": asked.epochs, "seeds": asked.seeds,
        "uniform": {
            name: judge(encoder, images[len(images) // 2 :], views, reward, UNIFORM)
            for name, reward in {"capped 1.3": BASE.reward, **BOUNDS}.items()
        },
    }  # fmt: skip

    def save(part: str, name: str, runs: list[dict]) -> None:
        results.setdefault(part, {})[name] = runs  # type: ignore[index]
        asked.json.write_text(json.dumps(results) + "\n")
        kept = {k: np.mean([r[k] for r in runs]) for k in runs[0] if k != "curve"}
        print(part, name, {k: round(float(v), 3) for k, v in kept.items()}, flush=True)

    for name, settings in variants.items():
        save("variants", name, [run(encoder, images, views, settings, s)[1] for s in range(asked.seeds)])
    independent = [run(encoder, images, views, BASE, s, kind="indepviews")[1] for s in range(asked.seeds)]
    save("variants", "indepviews", independent)
    for name, reward in bounds.items():
        settings = replace(BASE, reward=reward)
        save("bounds", name, [run(encoder, images, views, settings, s)[1] for s in range(asked.seeds)])
    # a second search five epochs later: from the first one's policy, or anew
    firsts = [run(encoder, images, views, BASE, s)[0] for s in range(asked.seeds)]
    train(encoder, images, views, 5, generator)
    for iterations in (100, 30):
        short = ppo(iterations=iterations)
        anew = [run(encoder, images, views, short, 50 + s)[1] for s in range(asked.seeds)]
        warm = [run(encoder, images, views, short, 50 + s, start=firsts[s])[1] for s in range(asked.seeds)]
        save("second search", f"{iterations} iterations, anew", anew)
        save("second search", f"{iterations} iterations, warm start", warm)


if __name__ == "__main__":
    main()
