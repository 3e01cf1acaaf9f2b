"""What a search costs: its time over that of the encoder passes it cannot do without.

A search of 100 iterations scores 128 pairs each (32 subpolicies on four images): 25,600 images forward. The bare
passes are timed in the same run, in turn with the search's iterations, on batches of the same size. Drawing, making
views, the encoder with its loss, and the update of the policy are told apart. The reference loss (five more batches)
counts as search.

A search by table has no passes of its own. Its cost is that of an epoch's fit from a full memory (50,000 pairs), of
remembering every step, and of drawing from a queue of four of its policies beyond what drawing from the prior costs,
over an epoch of 5,000 images (training steps of the small encoder). Its losses are made up: a third of their variance
comes from the operations, as it does in training.
"""

import time
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import torch
from coviews.training.scorer import Scorer, encoder_losses
from rich.console import Console
from rich.table import Table
from torch import nn

from coviews import (
    BoundedReward,
    LossTable,
    PolicyQueue,
    SearchSettings,
    ViewSettings,
    info_nce,
    load_images,
    make_encoder,
    make_views,
    to_tensors,
)
from coviews.encoders.frozen import evaluating
from coviews.methods.heads import make_projector
from coviews.ops.space import STANDARD, space
from coviews.policies.fixed import Uniform
from coviews.policies.learned import Policy
from coviews.searching.ppo import PPO
from measure import options, versions, write

ITERATIONS = 100  # of a full search; fewer are timed where the encoder is large, and scaled
K = 10  # epochs between two searches


class Clock:
    """Notes the seconds of each call of whatever it wraps."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def timed(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*args: object, **kwargs: object) -> object:
            start = time.perf_counter()
            result = call(*args, **kwargs)
            self.seconds[name].append(time.perf_counter() - start)
            return result

        return wrapped


def measure(name: str, images: np.ndarray, iterations: int) -> dict[str, float]:
    """Seconds of each part of one iteration, of a bare pass, and of a training step on 128 pairs: medians."""
    torch.manual_seed(0)
    backbone = make_encoder(name)
    encoder = nn.Sequential(backbone, make_projector(backbone.feature_count, 512, 128))
    settings, generator = SearchSettings(), np.random.default_rng(0)
    views = ViewSettings.of(images)
    uniform = Uniform(space("autoaugment"), 2, 0.8)
    policy = Policy.untrained(uniform.space, generator, settings=settings.network)
    clock = Clock()
    losses = clock.timed("encoder", encoder_losses(encoder, 0.5))
    reward = BoundedReward("ratio")  # an encoder that is hardly trained may be at chance, where the others refuse
    scorer = Scorer(losses, images, reward, generator, images_each=settings.images_each, views=views)
    policy.network.sample = clock.timed("drawing", policy.network.sample)
    ppo = PPO(policy, clock.timed("score", scorer), generator, settings.ppo)

    def batch() -> list[torch.Tensor]:
        drawn = uniform.sample(settings.batch, generator)
        return to_tensors(make_views(images[: settings.batch], drawn, generator), views.mean, views.std)

    optimizer = torch.optim.SGD(encoder.parameters(), 0.01, 0.9)

    def train(pair: list[torch.Tensor]) -> None:
        loss = info_nce(encoder(pair[0]), encoder(pair[1])).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for _ in range(20 if name == "resnet8" else 1):  # an encoder that tells some pairs from others
        train(batch())
    with evaluating(encoder), torch.inference_mode():
        scorer.measure_reference(uniform, 1)  # warm up
        clock.seconds.clear()
        iterate = clock.timed("iterations", iter(ppo).__next__)
        bare = clock.timed("bare", encoder)
        reference = clock.timed("reference", scorer.measure_reference)
        for _ in range(1 if iterations < 10 else settings.reference_batches):
            reference(uniform, 1)
        del clock.seconds["encoder"]
        for _ in range(iterations):
            iterate()
            bare(torch.cat(batch()))
    pairs = [batch() for _ in range(4)]
    step = clock.timed("training", train)
    for i in range(max(4, iterations // 4)):
        step(pairs[i % 4])
    s = {name: float(np.median(times)) for name, times in clock.seconds.items()}
    return {
        "reference": s["reference"] * settings.reference_batches / ITERATIONS,
        "drawing": s["drawing"],
        "views": s["score"] - s["encoder"],
        "encoder": s["encoder"],
        "update": s["iterations"] - s["score"] - s["drawing"],
        "bare": s["bare"],
        "training": s["training"],
    }


def measure_table(images: np.ndarray, rounds: int) -> dict[str, float]:
    """Shares of an epoch of 5,000 images, by medians; training steps of 128 pairs are timed in turn with the rest."""
    torch.manual_seed(0)
    backbone = make_encoder("resnet8")
    encoder = nn.Sequential(backbone, make_projector(backbone.feature_count, 512, 128))
    optimizer = torch.optim.SGD(encoder.parameters(), 0.01, 0.9)
    generator, prior, clock = np.random.default_rng(0), Uniform(space(STANDARD), 2, 0.8), Clock()
    effects = 0.15 * generator.standard_normal(prior.space.values.shape)
    table, queue = LossTable(prior), PolicyQueue()
    x1, x2 = to_tensors(make_views(images[:128], prior.sample(128, generator), generator))

    def train() -> None:
        loss = info_nce(encoder(x1), encoder(x2)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    add, fit, step = (clock.timed(n, f) for n, f in (("memory", table.add), ("fit", table.policy), ("training", train)))
    for _ in range(50_000 // 128):
        done = prior.sample(128, generator).applied(generator)
        add(done, 4.4 + effects[done.ops, done.levels].sum((1, 2)) + 0.4 * generator.standard_normal(128))
    ours = clock.timed("ours", lambda: queue.sample(128, generator).applied(generator))
    theirs = clock.timed("theirs", lambda: prior.sample(128, generator).applied(generator))
    for _ in range(rounds):
        step()
        queue.push(fit(generator))
        for _ in range(10):
            ours()
            theirs()
    s = {name: float(np.median(times)) for name, times in clock.seconds.items()}
    steps = 5_000 // 128
    found = {"fit": s["fit"], "memory": steps * s["memory"], "drawing": steps * (s["ours"] - s["theirs"])}
    return {name: seconds / (steps * s["training"]) for name, seconds in found.items()}


def main() -> None:
    asked = options(__doc__)
    images = load_images("shapes:5000").images
    counts = {"resnet8": 20, "resnet18": 3} if asked.quick else {"resnet8": 100, "resnet18": 20}
    figures: dict[str, float] = {}
    table = Table("part of the search", *counts, title="share of the time of the bare encoder passes")
    shares, parts = {}, ("reference", "drawing", "views", "encoder", "update")
    for name, iterations in counts.items():
        t = measure(name, images, iterations)
        shares[name] = {part: t[part] / t["bare"] for part in parts}
        total = sum(t[part] for part in parts)
        short = {"resnet8": "small"}.get(name, name)
        figures[f"total_over_forward_{short}"] = total / t["bare"]
        steps = {"cifar10": 50_000 / 128, "5000": 5_000 / 128}  # training steps of 128 pairs in an epoch
        suffix = "" if short == "small" else f"_{short}"
        figures |= {f"overhead_{k}{suffix}": total * ITERATIONS / (K * n * t["training"]) for k, n in steps.items()}
    for part in parts:
        table.add_row(part, *(f"{shares[name][part]:.3f}" for name in counts))
    table.add_section()
    table.add_row("total", *(f"{sum(shares[name].values()):.3f}" for name in counts))
    Console(width=100).print(table)
    by_table = measure_table(images, 15 if asked.quick else 60)
    figures["table_share_of_epoch"] = sum(by_table.values())
    parts_told = ", ".join(f"{name} {share:.2%}" for name, share in by_table.items())
    print(f"search by table, share of an epoch of 5,000 images with resnet8: {parts_told}")
    print(f"two cores: {torch.get_num_threads()} threads; {ITERATIONS} iterations of 128 every {K} epochs")
    print(versions("coviews", "numpy", "numba", "torch"))
    for key, value in figures.items():
        print(f"  {key}: {value:.4g}")
    write(asked.json, figures)


if __name__ == "__main__":
    main()
