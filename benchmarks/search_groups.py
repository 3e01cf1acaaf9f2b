"""Would PPO learn faster from subpolicies that are scored on the same images? (docs/search-study.md)

The search scores 32 subpolicies on four images each, drawn anew for each of them, with the rest of the batch as
negatives. Most of a score is then the images and crops, not the subpolicy. Here all subpolicies of an iteration see
the same images with the same crops, flips and applied steps, against the same bank of negatives, so that what is
compared differs in the subpolicy alone; the group's mean is the baseline, as it is in any case. Encoder passes are
equal, but for those of the bank (once for a search, as many as in one iteration). The encoder is trained, and policies
are judged, as in search_study.py. By hand: a quarter of an hour on two cores.

    python benchmarks/search_groups.py path/to/images --json docs/results/search-groups.json
"""

import argparse
import json
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import coviews
from coviews import PPOSettings, ViewSettings
from coviews.encoders.frozen import evaluating
from coviews.policies.learned import Policy
from coviews.searching.ppo import PPO, Scores
from coviews.searching.ppo_search import Scorer
from measure import versions
from search_study import BASE, UNIFORM, judge, scorer_for, trained

BANK = 127  # images, two views each: as many negatives as in a batch of 128


@dataclass
class Group:
    """Scores subpolicies on the same images, crops, flips, applied steps and negatives."""

    encoder: nn.Module
    images: np.ndarray
    views: ViewSettings
    generator: np.random.Generator
    scorer: Scorer  # for the reference and the reward
    images_each: int

    def __post_init__(self) -> None:
        self.bank = self.features(self.images[1 : BANK + 1], UNIFORM.sample(BANK, self.generator))

    def features(self, images: np.ndarray, subpolicies: object, seed: int = 0) -> torch.Tensor:
        v = self.views
        made = v.make(images, v.plan(subpolicies, len(images), images.shape[1:3], np.random.default_rng(seed)))
        with torch.no_grad():
            x = torch.cat(list(coviews.to_tensors(made, v.mean, v.std)))
            return F.normalize(self.encoder(x), dim=1)

    def __call__(self, subpolicies) -> Scores:
        s, n = self.scorer, self.images_each
        images = self.images[self.generator.choice(np.arange(BANK + 1, len(self.images)), n, replace=False)]
        seed = int(self.generator.integers(2**32))
        features = [self.features(images, subpolicies[np.full(n, i)], seed) for i in range(len(subpolicies))]
        z1, z2 = (torch.stack([f.chunk(2)[view] for f in features]).flatten(0, 1) for view in (0, 1))
        same = (z1 * z2).sum(1) / 0.5
        others = [torch.logsumexp(z @ self.bank.T / 0.5, 1) for z in (z1, z2)]
        losses = sum(torch.logaddexp(same, other) - same for other in others) / 2
        each = losses.view(len(subpolicies), n).mean(1).double().numpy()
        return Scores(s.reward(each, s.reference, s.chance), s.reward.over(each, s.reference, s.chance))


def learn(encoder, images, views, settings: PPOSettings, seed: int, *, grouped: bool):
    half, generator = len(images) // 2, np.random.default_rng(seed)
    policy = Policy.untrained(coviews.space("autoaugment"), generator, kind="coviews", steps=2, p=0.8)
    images_each = settings.images_each
    scorer = scorer_for(encoder, images[:half], views, settings.reward, images_each, generator)
    with evaluating(encoder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scorer.measure_reference(UNIFORM.sample(settings.reference_batches * settings.batch, generator))
        group = Group(encoder, images[:half], views, generator, scorer, images_each) if grouped else None
        ppo = PPO(policy, group or scorer, generator, settings)
        steps = list(ppo)
    return judge(encoder, images[half:], views, BASE.reward, policy) | {"entropy": steps[-1].entropy}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="a folder of images, or shapes")
    parser.add_argument("--json", type=Path, default=Path("search-groups.json"), help="written as it goes")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--limit", type=int, default=5000)
    parser.add_argument("--quick", action="store_true", help="under a minute: a trial of the script, not a study")
    asked = parser.parse_args()
    plans = [(100, 4, 1e-3), *((25, each, rate) for each in (4, 1) for rate in (1e-3, 2e-3, 4e-3))]
    if asked.quick:
        asked.seeds, asked.epochs, asked.limit = 1, 1, 600
        plans = [(2, 4, 1e-3)]

    images, views, encoder = trained(asked.data, asked.limit, asked.epochs, np.random.default_rng(0))
    results = {
        "versions": versions("coviews", "numpy", "torch", "numba", "pillow"),
        "images": len(images), "epochs": asked.epochs, "seeds": asked.seeds,
        "uniform": judge(encoder, images[len(images) // 2 :], views, BASE.reward, UNIFORM), "runs": [],
    }  # fmt: skip
    print("uniform", {k: round(v, 3) for k, v in results["uniform"].items()}, flush=True)
    for iterations, each, rate in plans:
        for grouped in (False, True):
            figures = {"iterations": iterations, "learning_rate": rate, "images_each": each}
            settings = replace(BASE, samples=128 // each, **figures)
            runs = [learn(encoder, images, views, settings, s, grouped=grouped) for s in range(asked.seeds)]
            name = {**figures, "grouped": grouped}
            results["runs"].append(name | {"seeds": runs})
            asked.json.write_text(json.dumps(results) + "\n")
            means = {k: f"{np.mean([r[k] for r in runs]):.3f}" for k in runs[0]}
            spread = np.std([r["reward"] for r in runs], ddof=1) if len(runs) > 1 else 0
            print(name, means, f"± {spread:.3f}", flush=True)


if __name__ == "__main__":
    main()
